"""The status lines above the views of the oplog page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from tallyglass.evidence.facts import RunningOperation
from tallyglass.oplog.snapshot import IncidentScan, OplogUpdate, OplogWindow
from tallyglass.text import clean
from tallyglass_tui import bound
from tallyglass_tui import format as fmt
from tallyglass_tui.shell.incidents import counts_in_words
from tallyglass_tui.widgets.cells import fit, fit_middle, whole_pieces
from tallyglass_tui.widgets.line_view import Piece

_BEHIND_SECONDS = 2.0
"""Seconds behind the newest entry from which the lag is named: an idle server answers once a second."""
_FROM = " · from "
_LEAST_HOST = 12
"""Cells below which a shortened host is not recognised."""
_RUNNING = 2
"""Operations that run now which are named, the longest first: each has two lines, and 15 rows must do."""


def window_pieces(last: OplogUpdate | None, *, silent: bool = False) -> list[Piece]:
    """Problems first, then how far back the oplog reaches. The banner says it where the server is ``silent``."""
    if last is None:
        return [(" window not read yet", "text--muted")]
    pieces: list[Piece] = []
    if last.trouble and not silent:
        since = f" {fmt.since(last.since)}." if last.since else ""
        pieces.append((f" {last.trouble}{since}", "text--bad"))
    breaks = [fmt.plural(last.gaps, "gap")] * bool(last.gaps)
    breaks += [fmt.plural(last.rollbacks, "rollback")] * bool(last.rollbacks)
    if breaks:
        pieces.append((f" {', '.join(breaks)} ·", "text--bad"))
    # Nothing is known about entries that the server left out, so the lag is unknown too.
    if not last.partial and last.behind_seconds and last.behind_seconds >= _BEHIND_SECONDS:
        pieces.append((f" {fmt.duration(last.behind_seconds)} behind ·", "text--warn"))
    return [*pieces, *((text, "text--muted") for text in window_parts(last.window))]


def state_lines(
    last: OplogUpdate | None,
    status: str,
    wanted: str,
    lost: int,
    width: int,
    *,
    live: bool = True,
    silent: bool = False,
    preference: str = "",
) -> list[list[Piece]]:
    """The window, the state of the tail, and the filter, if there is one. ``lost`` rows were not shown.

    ``preference`` is the readPreference that the connection string chose.
    ``live`` is false for past rows, which the numbers of the tail do not describe. ``silent`` means that the server
    does not answer: then nothing is followed, and there is no rate.
    """
    lines = [
        whole_pieces(window_pieces(last, silent=silent), width),
        _tail_pieces(last if live else None, status, lost, width, preference, silent=silent),
    ]
    return [*lines, _filter_pieces(last, wanted, width)] if wanted else lines


def _tail_pieces(
    last: OplogUpdate | None, status: str, lost: int, width: int, preference: str = "", *, silent: bool = False
) -> list[Piece]:
    """The state of the tail (``status``, or following), its rate, the number of rows, and the source."""
    status = status or "waiting for the server" * silent
    pieces: list[Piece] = [(f" {status}", "text--warn") if status else (" following", "text--good")]
    if last is None:
        return pieces
    if not silent:
        pieces.append((f" · {fmt.rate(last.per_second)}", ""))
    if lost:
        pieces.append((f" · {lost:,} too fast to show", "text--warn"))
    if not last.partial:
        pieces.append((f" · {last.seen:,} seen", "text--muted"))
    pieces = whole_pieces(pieces, width)
    room = width - sum(cell_len(text) for text, _ in pieces) - len(_FROM)
    if last.connected_to and room >= _LEAST_HOST:
        chosen = f" ({preference})" if preference else ""
        chosen = chosen if room - len(chosen) >= _LEAST_HOST else ""
        host = fit_middle(last.connected_to, room - len(chosen)).rstrip()
        pieces.append((f"{_FROM}{host}{chosen}", "text--muted"))
    return pieces


def _filter_pieces(last: OplogUpdate | None, wanted: str, width: int) -> list[Piece]:
    count = f" {last.matched:,} matched" if last else " matching"
    leave = " · older ones not read" * bool(last and last.older_unread)
    leave += f" · {bound.key('page.back', 'Esc')} clears it" * (width >= 80)
    shown = fit_middle(wanted, max(8, width - len(count) - len(leave) - 3)).rstrip()
    return [(f"{count} '{shown}'", "text--warn"), (leave, "text--muted")]


def scan_lines(
    scan: IncidentScan | None,
    width: int,
    wanted: str = "",
    shown: int = 0,
    *,
    with_routine: bool = False,
    silent: bool = False,
    refused: bool = False,
) -> list[list[Piece]]:
    """What was found and how far back; then what runs now, the filter and problems.

    ``shown`` incidents match the filter ``wanted``; ``with_routine`` tells whether what is routine is among the rows.
    What ran is not known to run now where the server is ``silent``, which the banner says, as it does why the oplog is
    ``refused``.
    """
    if scan is None and refused:
        return [[(" The oplog cannot be read.", "text--muted")]]
    if scan is None:
        return [[(" Reading the oplog back ...", "text--muted")]]
    pieces: list[Piece] = [] if scan.done else [(" so far", "text--muted")]
    for text, style in counts_in_words(scan):
        pieces.append((f"{' ·' if pieces else ''} {text}", f"text--{style}"))
    if scan.routine:
        key = bound.key("incidents.routine", "a")
        hint = f"{key} hides" if with_routine else f"hidden, {key} shows"
        pieces.append((f" · {scan.routine:,} routine ({hint})", "text--muted"))
    if scan.reached:
        pieces.append((f" · {'oplog ' * scan.done}back to {fmt.day(scan.reached.time)}", "text--muted"))
    lines = [whole_pieces(pieces, width)]
    if wanted:
        leave = f" · {bound.key('page.back', 'Esc')} clears it"
        lines.append([(f" {shown:,} match '{clean(wanted, 60)}'", "text--warn"), (leave, "text--muted")])
    if silent:
        return lines
    if scan.trouble:
        lines.append([(f" {scan.trouble}", "text--warn")])
    return [*lines, *_running_now(scan.running, width)]


def _running_now(running: Sequence[RunningOperation], width: int) -> list[list[Piece]]:
    """The operations that have run longest, and how many more there are."""
    lines = [line for one in running[:_RUNNING] for line in _running_lines(one, width)]
    if len(running) > _RUNNING:
        lines.append([(f" and {len(running) - _RUNNING:,} more: tallyglass incidents names them", "text--bad")])
    return lines


def _running_lines(one: RunningOperation, width: int) -> list[list[Piece]]:
    """An operation that runs now: what, for how long, by whom; and the line that would stop it."""
    progress = f", {one.done:,} of {one.total:,}" if one.done is not None and one.total else ""
    who = (
        ", ".join(filter(None, (one.client.user.removesuffix("@admin"), one.client.application))) or one.client.address
    )
    begin, end = f" RUNNING for {fmt.duration(one.seconds)}: ", f" on {one.ns}, by {who}{progress}"
    what = f"{begin}{one.statement}{end}"
    if cell_len(what) > width:  # the collection matters more than the filter
        what = f"{begin}{one.statement.partition('(')[0]}{end}"
    label = " to stop it: " if len(one.kill) + 13 <= width else " stop: "
    return [[(fit(what, width), "text--bad")], [(fit_middle(f"{label}{one.kill}", width), "text--warn")]]


def window_parts(window: OplogWindow | None) -> list[str]:
    """The window, what matters most first: how far back it reaches, how fast it fills, how full it is."""
    if window is None or window.first is None or window.last is None:
        return [" window unknown"]
    parts = [f" {fmt.duration((window.hours or 0) * 3600)} back to {fmt.day(window.first.time)}"]
    if ahead := fmt.oplog_ahead(window):
        parts.append(f" · {ahead}")
    if window.bytes_per_hour is not None:
        parts.append(f" · {fmt.size(window.recent_bytes_per_hour or window.bytes_per_hour)}/h")
    if window.used_bytes is not None and window.max_bytes:
        parts.append(f" · {fmt.size(window.used_bytes)} of {fmt.size(window.max_bytes)}")
    elif window.used_bytes is not None:
        parts.append(f" · {fmt.size(window.used_bytes)}")
    elif window.lacking:
        parts.append(f" · size: needs {window.lacking}")
    return parts
