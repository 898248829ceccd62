"""The recoverable window as a picture of characters: oplog, bases, what can be restored and holes on one axis. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tallyglass.moment import Ts
from tallyglass.restore.catalogue.backups import Listed
from tallyglass.restore.catalogue.window import RecoverableWindow, Stretch
from tallyglass.text import clean
from tallyglass_tui.cli.headless import padded, shortened

_NAME = 24  # cells of a lane's name, under a third of 80 columns
_FIXED_LINES = 7
"""Lines beside those of the bases: two of the axis, the lanes, the key and the prompt after it."""
OPLOG, RESTORABLE, HOLE, BASE, UNFIT = "-", "=", "x", "B", "!"
KEY = f"{OPLOG} oplog  {BASE} base  {UNFIT} base that cannot be used  {RESTORABLE} restorable  {HOLE} hole"


def picture(window: RecoverableWindow, width: int, height: int) -> list[str]:
    """Lines of at most ``width`` cells, at most ``height`` of them; none where nothing has a time. The oldest bases are
    left out, and counted, where all do not fit."""
    dated = sorted((one for one in window.bases if one.end is not None), key=lambda one: one.end or Ts(0, 0))
    stretches = [*window.oplog, *window.restorable, *window.holes]
    times = [at for one in stretches for at in (one.first.t, one.last.t)]
    times += [at.t for one in dated for at in _ends(one)]
    room = max(width - _NAME - 1, 10)
    if not times:
        return []
    axis = _Axis(min(times), max(max(times), min(times) + 1), room)
    return [
        *axis.head(window),
        _lane("oplog", axis.draw(window.oplog, OPLOG)),
        *_bases(window.bases, dated, axis, max(height - _FIXED_LINES, 1)),
        _lane("restorable", axis.draw(window.holes, HOLE, axis.draw(window.restorable, RESTORABLE))),
        KEY[:width],
    ]


class _Axis:
    """Seconds as places in a line."""

    def __init__(self, first: int, last: int, room: int) -> None:
        self._first, self._last, self._room = first, last, room

    def place(self, seconds: int) -> int:
        """Where a moment lies, from 0."""
        return (seconds - self._first) * (self._room - 1) // (self._last - self._first)

    def draw(self, stretches: Sequence[Stretch], sign: str, under: str = "") -> str:
        """A lane; a stretch has at least one cell and covers what is ``under`` it, so that no hole is too short."""
        cells = list(under.ljust(self._room))
        for one in stretches:
            for at in range(self.place(one.first.t), self.place(one.last.t) + 1):
                cells[at] = sign
        return "".join(cells).rstrip()

    def head(self, window: RecoverableWindow) -> Iterator[str]:
        """The ends of the axis, in UTC, and where now is if a server said so."""
        first, last = (f"{Ts(at, 0).time:%m-%d %H:%M:%S}Z" for at in (self._first, self._last))
        yield _lane("", first + last.rjust(self._room - len(first)) if self._room > 2 * len(first) else first)
        end = "now" if window.newest is not None and window.newest.t == self._last else "|"
        yield _lane("", "|" + end.rjust(self._room - 1))


def _bases(bases: Sequence[Listed], dated: Sequence[Listed], axis: _Axis, most: int) -> Iterator[str]:
    undated = len(bases) - len(dated)
    left_out = max(len(dated) + bool(undated) - most, 0)
    if left_out:
        left_out = min(left_out + 1, len(dated))  # the line that counts them
        yield f"{left_out} older bases"
    for one in dated[left_out:]:
        start, end = _ends(one)
        yield _lane(clean(one.path.name, 200), axis.draw([Stretch(start, end)], UNFIT if one.why else BASE))
    if undated:
        yield f"{undated} without a time"


def _ends(one: Listed) -> tuple[Ts, Ts]:
    end = one.end
    assert end is not None
    return (one.backup.start if one.backup and one.backup.start else end), end


def _lane(name: str, cells: str) -> str:
    return f"{padded(shortened(name, _NAME - 1), _NAME)} {cells}".rstrip()
