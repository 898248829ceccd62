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
    late = _late(age, rate)
    style = "nav--alert" if rate.paused or rate.slow else "text--muted"
    badge, brief = ((f" · {words} " if words else " ", style) for words in (rate.badge, rate.brief))
    hour = (f" · {now or clock.now():%H:%M}Z", "text--muted")
    forms = [*_forms(deployment, lost, named=bool(label))] if deployment else [[]]
    # Which deployment this is matters more than the clock and the rate.
    kept = len(forms) - 1 if len(forms) > 1 and not label else len(forms)
    tails = ([*late, hour, badge], [*late, badge], [*late, brief])
    parts = (forms[:kept], forms[kept:])
    choices = [(*fixed, *words, *tail) for part in parts for tail in tails for words in part]
    if late:
        choices += [(*fixed[:1], *late, brief), choices[-1]]
    else:
        named, speed = (*fixed[:1], *forms[-1]), (f" {rate.brief}" * bool(rate.badge), style)
        choices += [(*named, speed), *([] if rate.paused else [named]), (*forms[-1], speed)]
    return next((choice for choice in choices if _fits(choice, room)), choices[-1])


def _late(age: float | None, rate: RefreshRate) -> list[Piece]:
    """How old the data are, where they are older than the rate explains."""
    stale = age is not None and age > max(_STALE_SECONDS, 2 * (rate.interval or 0))
    return [(f" · {fmt.duration(age)} old", "nav--alert")] if stale else []


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
    letters = _letters(deployment, lost)
    whole, short = f"{deployment.title} · {deployment.release}", str(deployment.kind)
    if deployment.kind is Kind.REPLICA_SET:
        short = f"rs {fit(deployment.set_name, _MOST_NAME).rstrip()}"
    members: list[Piece] = [(" ", ""), *letters] if letters else []
    if lost:
        yield [(f"{whole} · ", ""), ("members unknown", "nav--alert")]
    elif letters:
        yield [(f"{whole} · ", ""), (", ".join(map(_in_words, deployment.members)), letters[0][1]), *letters[1:]]
    if letters and deployment.primary and not lost:
        primary = (f" · primary {deployment.primary}", "")
        yield [(f"{whole} · ", ""), *letters, primary]
        yield [(f"{short} {deployment.release}", ""), *members, primary]
    yield [(whole, ""), *([(" · ", ""), *letters] if letters else [])]
    yield [(f"{short} {deployment.release}", ""), *members]
    yield [(short, ""), *members]
    if deployment.set_name and letters and not named:
        yield from ([(fit(deployment.set_name, most).rstrip(), ""), *members] for most in _SHORT_NAMES)
    yield letters or [(short, "")]


def _letters(deployment: Deployment, lost: bool) -> list[Piece]:
    """The members in a few letters; empty where none is known."""
    if not deployment.members:
        return [("?", "nav--alert")] if lost else []
    style = "nav--alert" if is_unwell(deployment, lost=lost) else ""
    alone: list[Piece] = [(" alone", "nav--alert")] if deployment.alone else []
    return [(member_letters(deployment.members, lost=lost), style), *alone]


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
