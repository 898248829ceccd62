"""The text at the right of the line of pages: the deployment and its members, the time, the rate. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.cells import cell_len

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.deployment.members import LEAST_LAG, SetMember
from tallyglass.text import clean
from tallyglass_tui import clock
from tallyglass_tui import format as fmt
from tallyglass_tui.shell.refresh_rate import RefreshRate
from tallyglass_tui.widgets.cells import fit
from tallyglass_tui.widgets.line_view import Piece

HELP = (
    "At the top right: the set with its version, then one letter for each member: P primary, S secondary, H hidden, L "
    "delayed, A arbiter, R starting, recovering or rolling back, D down, ? unknown; * follows the member that is read, "
    "+12s is the largest lag beyond a configured delay, shown from 11 s on; alone means that the set's own names "
    "cannot be reached, and one member is read directly. Then the time in UTC, and how often the screen is refreshed "
    "where it is less than four times a second: on a slow link, where the terminal does not take the output, and while "
    "the machine or this program is busy."
)
_STALE_SECONDS = 5.0
"""An older page shows its age: what is shown is read every second or two, unless the screen is updated less often."""

_MOST_LETTERS = 7
"""Letters for members, one each: as many as may vote."""
_MOST_NAME, _SHORT_NAMES = 12, (12, 8, 5)
"""Cells of the name of a set: at most, and where there is no room to say that it is a set."""
_LETTERS = {
    "PRIMARY": "P",
    "SECONDARY": "S",
    "ARBITER": "A",
    "RECOVERING": "R",
    "ROLLBACK": "R",
    "STARTUP": "R",
    "STARTUP2": "R",
    "DOWN": "D",
    "(not reachable/healthy)": "D",
}


def status_pieces(
    label: str,
    deployment: Deployment | None,
    age: float | None,
    rate: RefreshRate,
    room: int,
    *,
    now: datetime | None = None,
    lost: bool = False,
) -> tuple[Piece, ...]:
    """The pieces, as many words as ``room`` cells allow.

    ``label`` names the profile; ``age``, in seconds, is shown if it is unusual. ``lost`` means that the deployment does
    not answer now: the state of its members is then unknown.
    """
    fixed: list[Piece] = [(f" {clean(label, 20)} ", "nav--here"), (" ", "")] if label else []
    late: list[Piece] = []
    if age is not None and age > max(_STALE_SECONDS, 2 * (rate.interval or 0)):
        late.append((f" · {fmt.duration(age)} old", "nav--alert"))
    style = "nav--alert" if rate.paused or rate.slow else "text--muted"
    badge, brief = ((f" · {words} " if words else " ", style) for words in (rate.badge, rate.brief))
    hour = (f" · {now or clock.now():%H:%M}Z", "text--muted")
    forms = [*_forms(deployment, lost, named=bool(label))] if deployment else [[]]
    found: tuple[Piece, ...] = ()
    # Which deployment this is matters more than the clock and the rate.
    kept = len(forms) - 1 if len(forms) > 1 and not label else len(forms)
    for choice in (forms[:kept], forms[kept:]):
        for tail in ([*late, hour, badge], [*late, badge], [*late, brief]):
            for words in choice:
                found = (*fixed, *words, *tail)
                if _fits(found, room):
                    return found
    if late:
        least = (*fixed[:1], *late, brief)
        return least if _fits(least, room) else found
    named, speed = (*fixed[:1], *forms[-1]), (f" {rate.brief}" * bool(rate.badge), style)
    if _fits((*named, speed), room):
        return (*named, speed)
    return named if _fits(named, room) and not rate.paused else (*forms[-1], speed)


def _fits(pieces: Sequence[Piece], room: int) -> bool:
    return sum(cell_len(text) for text, _ in pieces) <= room


def member_letters(members: Sequence[SetMember], *, lost: bool = False) -> str:
    """The members in a few letters, such as ``P*SS +12s``."""
    letters = ["?" if lost else _letter(member) for member in members]
    if len(letters) > _MOST_LETTERS:
        text = " ".join(f"{number}{letter}" for letter, number in sorted(Counter(letters).items()))
    else:
        text = "".join(letter + "*" * (member.me and not lost) for letter, member in zip(letters, members, strict=True))
    lag = 0.0 if lost else largest_lag(members)
    return f"{text} +{fmt.brief(lag)}" if lag >= LEAST_LAG else text


def _letter(member: SetMember) -> str:
    letter = _LETTERS.get(member.state, "?")
    return letter if letter != "S" else "L" if member.delay_seconds else "H" if member.hidden else "S"


def largest_lag(members: Sequence[SetMember]) -> float:
    """The largest known lag, in seconds."""
    return max((member.lag_seconds or 0.0 for member in members), default=0.0)


def is_unwell(deployment: Deployment, *, lost: bool = False) -> bool:
    """Whether a member is down or lagging, the set has no primary, or its state is unknown."""
    letters = {_letter(member) for member in deployment.members}
    return (
        lost or bool(letters & {"D", "R"}) or (bool(letters) and "P" not in letters)
        or largest_lag(deployment.members) >= LEAST_LAG
    )  # fmt: skip


def _forms(deployment: Deployment, lost: bool, *, named: bool) -> Iterator[list[Piece]]:
    """The deployment, in ever shorter forms."""
    members, unwell = deployment.members, is_unwell(deployment, lost=lost)
    letters: list[Piece] = []
    if members:
        letters = [(member_letters(members, lost=lost), "nav--alert" if unwell else "")]
        if deployment.alone:
            letters.append((" alone", "nav--alert"))
    elif lost:
        letters = [("?", "nav--alert")]
    name = f"{deployment.kind} {deployment.set_name}" if deployment.set_name else str(deployment.kind)
    whole = f"{name} · {deployment.release}"
    if lost:
        yield [(f"{whole} · ", ""), ("members unknown", "nav--alert")]
    elif members:
        yield [(f"{whole} · ", ""), (", ".join(map(_in_words, members)), "nav--alert" if unwell else ""), *letters[1:]]
        if deployment.primary:
            yield [(f"{whole} · ", ""), *letters, (f" · primary {deployment.primary}", "")]
    short = str(deployment.kind)
    if deployment.kind is Kind.REPLICA_SET:
        short = f"rs {fit(deployment.set_name, _MOST_NAME).rstrip()}"
    gap: list[Piece] = [(" ", "")] if letters else []
    if letters and deployment.primary and not lost:
        yield [(f"{short} {deployment.release}", ""), *gap, *letters, (f" · primary {deployment.primary}", "")]
    yield [(whole, ""), *([(" · ", ""), *letters] if letters else [])]
    yield [(f"{short} {deployment.release}", ""), *gap, *letters]
    yield [(short, ""), *gap, *letters]
    if deployment.set_name and letters and not named:
        for most in _SHORT_NAMES:
            yield [(fit(deployment.set_name, most).rstrip(), ""), *gap, *letters]
    if letters:
        yield letters
    else:
        yield [(short, "")]


def _in_words(member: SetMember) -> str:
    letter = _LETTERS.get(member.state)
    state = {"D": "down", None: "unknown"}.get(letter, member.state.lower())
    if member.delay_seconds:
        state = f"delayed {fmt.brief(member.delay_seconds)}"
    elif member.hidden:
        state = f"hidden {state}"
    lag = member.lag_seconds or 0.0
    behind = f" +{fmt.brief(lag)}" if lag >= LEAST_LAG else ""
    return f"{state} {member.address}{behind}{' (read)' if member.me else ''}"
