"""A recording: what the feeds of a dashboard delivered, as JSON lines in a gzip file, bounded in bytes and lines.

The first line is the head. Each other line is ``[milliseconds, feed, subject, kind, change]``: when a feed delivered, a
value of which kind, and how it differs from the one before it of the same feed and subject. No line holds a document,
a file of a plan, or a secret; texts are as the screen shows them.
"""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tallyglass import __version__
from tallyglass.errors import InputError, TallyglassError
from tallyglass.moment import iso, parse_iso
from tallyglass.oplog.snapshot import OplogUpdate
from tallyglass.restore.model.plan import Plan
from tallyglass.text import clean, clean_block
from tallyglass.typed_json import Misfit, built, plain
from tallyglass_tui.shell.difference import changed, difference

FORMAT = 1
"""The version of the file. It changes with the lines, not with the fields of the values."""

MOST_BYTES = 128_000_000
"""Of the lines, before they are compressed to a tenth: enough for a day of a busy oplog."""

MOST_LINES = 200_000
"""Twenty feeds for a day at the pace below."""

_LONGEST_LINE = 8_000_000
"""Bytes of one value: a sixteenth of a recording. A hostile file cannot make a reader keep more at once."""
_LONGEST_TEXT = 20_000
"""Characters of a text that is replayed: ten screens of 80x24."""
_WHOLE_EVERY = 50
"""A value is written whole after so many changes: a jump in a replay applies no more than these."""

_PACE = 1_800.0
"""Values of one feed are a second apart at first, and after ``t`` seconds ``t / _PACE``: about 9,000 in a day."""

_IDLE_SHARE = 50.0
"""A feed waits so many times as long as its last value took to write, so that a recording costs 2 % of a processor."""

_ROWS = 40
"""Rows of the oplog in one line: a screen full. Those left out are counted, as the screen counts them."""

Kinds = Mapping[str, type]
Merge = Callable[[Any, Any], Any]


@dataclass(slots=True)
class _Track:
    """One feed while it is recorded."""

    value: Any = None
    at: float = 0.0
    due: float = 0.0
    waiting: bool = False
    again: bool = False
    before: Any = None
    changes: int = 0


class Recorder:
    """Writes a recording to a new file that only its owner may read. Safe to use from any thread."""

    def __init__(self, path: Path, label: str, kinds: Kinds, when_ended: Callable[[], None] = lambda: None) -> None:
        """``when_ended`` is called once nothing more can be recorded, from any thread and under a lock.

        Raises InputError if the file exists, or cannot be created.
        """
        self._when_ended = when_ended
        self._names = {kind: name for name, kind in kinds.items()}
        self._tracks: dict[tuple[str, str], _Track] = {}
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._bytes = self._lines = 0
        self._closed = False
        self.ended = ""
        """Why nothing more is recorded, in one sentence; empty while it goes on."""
        self.holds_values = False
        """Whether something that a replay can show has reached the file."""
        self.left_out: set[str] = set()
        """The feeds of which a value could not be recorded: it was too large, or JSON has no form for it."""
        try:
            self._raw = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
        except FileExistsError:
            raise InputError(f"{clean(str(path))} exists already.", "Name a new file.") from None
        except OSError as error:
            raise InputError(f"{clean(str(path))} cannot be written: {error.strerror}.") from None
        self._file = gzip.GzipFile(fileobj=self._raw, mode="wb", filename="", mtime=0)
        head = {"recording": "tallyglass", "format": FORMAT, "made_by": __version__, "label": label}
        self._write(json.dumps(head | {"began": iso(datetime.now(UTC))}))
        self._flush()

    @property
    def lacks(self) -> list[str]:
        """Why it lacks something that was shown, a sentence each."""
        gaps = [f"Some of this could not be recorded: {', '.join(sorted(self.left_out))}."] if self.left_out else []
        return gaps + [self.ended] * bool(self.ended)

    def put(
        self, feed: str, subject: str, value: object, merge: Merge | None = None, *, recovered: bool = False
    ) -> None:
        """Record a value that a feed delivered. Of values that come fast only the last is written; one that changes
        nothing is written only if the feed has ``recovered``: in a replay its problem would go on without it."""
        with self._lock:
            if self._closed or self.ended or type(value) not in self._names:
                return
            track = self._tracks.setdefault((feed, subject), _Track())
            track.value = merge(track.value, value) if track.waiting and merge else value
            track.at, track.waiting, track.again = time.monotonic(), True, track.again or recovered
            self._write_due(track.at)

    def close(self) -> None:
        """Write what waits, and end the file."""
        with self._lock:
            self._write_due(float("inf"))
            self._tracks.clear()
            self._closed = True
            for file in (self._file, self._raw):
                # What a full disk did not accept is still in the buffer, and closing tries to write it again.
                try:
                    file.close()
                except OSError as error:
                    self._end_unwritable(error)

    def _write_due(self, now: float) -> None:
        due = [(key, track) for key, track in self._tracks.items() if track.waiting and track.due <= now]
        for (feed, subject), track in due:
            self._write_track(feed, subject, track)
        if due:
            self._flush()

    def _write_track(self, feed: str, subject: str, track: _Track) -> None:
        began = time.monotonic()
        value, kind = _without_documents(track.value), self._names[type(track.value)]
        track.value, track.waiting = None, False
        milliseconds = round((track.at - self._began) * 1000)
        try:
            after = plain(value)
            whole = track.changes % _WHOLE_EVERY == 0
            change = [after] if whole else difference(track.before, after)
            line = json.dumps([milliseconds, feed, subject, kind, change], ensure_ascii=True)
        except TypeError:
            # The pages go on: a recorder must not end the feed that delivered the value.
            change, line = None, ""
            self.left_out.add(feed)
        if len(line) > _LONGEST_LINE:
            self.left_out.add(feed)
        elif line and (change is not None or track.again):
            self._write(line)
            track.before, track.changes, track.again = after, track.changes + 1, False
        pace = max(1.0, (began - self._began) / _PACE)
        track.due = began + max(pace, _IDLE_SHARE * (time.monotonic() - began))

    def _write(self, line: str) -> None:
        if self.ended:
            return
        if self._bytes + len(line) > MOST_BYTES or self._lines >= MOST_LINES:
            self._end(f"The recording is full: {self._lines:,} lines, {self._bytes // 1_000_000} MB.")
            return
        try:
            self._file.write(line.encode() + b"\n")
        except OSError as error:
            self._end_unwritable(error)
        self._bytes += len(line) + 1
        self._lines += 1

    def _flush(self) -> None:
        """So that what was written so far can be read, whatever ends this process."""
        try:
            self._file.flush(zlib.Z_SYNC_FLUSH)
        except OSError as error:
            self._end_unwritable(error)
            return
        self.holds_values = self._lines > 1  # the first line is the head

    def _end_unwritable(self, error: OSError) -> None:
        self._end(f"The recording cannot be written any more: {error.strerror}.")

    def _end(self, reason: str) -> None:
        if not self.ended:
            self.ended = reason
            self._when_ended()


def _without_documents(value: Any) -> Any:
    """A value without what the screen shows only on request: whole entries of the oplog, the files of a plan."""
    if isinstance(value, OplogUpdate):
        over = max(0, len(value.rows) - _ROWS)
        rows = tuple(replace(row, raw=b"") for row in value.rows[over:])
        return replace(value, rows=rows, dropped=value.dropped + over)
    plan = getattr(value, "plan", None)
    return replace(value, plan=replace(plan, steps=replace(plan.steps, files=()))) if isinstance(plan, Plan) else value


@dataclass(slots=True)
class _Tape:
    """The lines of one feed and subject, oldest first."""

    times: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    wholes: list[int] = field(default_factory=list)
    at: int = -1
    kind: str = ""
    plain: Any = None


class Recording:
    """A recording that was read: the values of its feeds at any moment of it."""

    def __init__(self, path: Path, kinds: Kinds) -> None:
        """Raises InputError for a file that is not a recording, is too large, or comes from a later version."""
        self._kinds = kinds
        self._name = clean(path.name)
        self._tapes: dict[tuple[str, str], _Tape] = {}
        self.note = ""
        """What is wrong with the file, in one sentence; empty if it is whole."""
        lines = self._lines(path)
        head = _head(next(lines, b""), self._name)
        self.label = clean(str(head.get("label", "")), 60)
        self.made_by = clean(str(head.get("made_by", "")), 40)
        try:
            self.began = parse_iso(str(head.get("began")))
        except InputError:
            raise _not_one(self._name) from None
        for line in lines:
            self._add(line)
        self.milliseconds = max((tape.times[-1] for tape in self._tapes.values()), default=0)
        try:
            self.time(self.milliseconds)
        except OverflowError:
            raise InputError(f"{self._name} is damaged: it does not end in any year.") from None
        if not self._tapes:
            raise InputError(f"{self._name} is an empty recording: it ended before anything was shown.")

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.milliseconds / 1000

    def time(self, milliseconds: int) -> datetime:
        """The time at these milliseconds."""
        return self.began + timedelta(milliseconds=milliseconds)

    def has(self, feed: str, subject: str) -> bool:
        """Whether it holds something of this feed."""
        return (feed, subject) in self._tapes

    def first(self, feed: str, subject: str) -> int:
        """The milliseconds at which the feed delivered first."""
        return self._tapes[feed, subject].times[0]

    def moments(self) -> list[int]:
        """The milliseconds at which something was delivered, in order."""
        return sorted({at for tape in self._tapes.values() for at in tape.times})

    def places(self, feed: str, subject: str, after: int, until: int) -> range:
        """The numbers of the values that the feed delivered in a span: after the first time, until the second."""
        times = self._tapes[feed, subject].times if self.has(feed, subject) else []
        return range(bisect_right(times, after), bisect_right(times, until))

    def value(self, feed: str, subject: str, place: int) -> tuple[int, Any]:
        """A value and when it was delivered. Raises InputError if the line cannot be read."""
        tape = self._tapes[feed, subject]
        start = tape.wholes[bisect_right(tape.wholes, place) - 1] if tape.wholes else 0
        if tape.at > place or tape.at < start:
            tape.at, tape.plain = start - 1, None
        try:
            for number in range(tape.at + 1, place + 1):
                _, _, _, name, change = json.loads(tape.lines[number])
                tape.at, tape.kind, tape.plain = number, name, changed(tape.plain, change)
            return tape.times[place], _without_documents(built(self._kinds[tape.kind], _cleaned(tape.plain), tape.kind))
        except (Misfit, TallyglassError, ValueError, TypeError, KeyError, RecursionError):
            raise InputError(
                f"A line of {self._name} cannot be read.",
                f"It was recorded by Tallyglass {self.made_by}; this is {__version__}.",
            ) from None

    def _lines(self, path: Path) -> Iterator[bytes]:
        """The lines of the file, within the bounds; one that is cut off is left out, and noted."""
        size = 0
        try:
            with gzip.open(path, "rb") as file:
                for _ in range(MOST_LINES + 1):
                    line = file.readline(_LONGEST_LINE + 1)
                    size += len(line)
                    if not line:
                        return
                    if size > MOST_BYTES + MOST_LINES or len(line) > _LONGEST_LINE:
                        raise InputError(f"{self._name} is larger than a recording can be.")
                    if line.endswith(b"\n"):
                        yield line
        except EOFError:
            self.note = "The end of the recording is missing: it was cut off."
        except (gzip.BadGzipFile, zlib.error):
            if not size:
                raise _not_one(self._name) from None
            self.note = "The rest of the recording is damaged."
        except OSError as error:
            raise InputError(f"{clean(str(path))} cannot be read: {error.strerror}.") from None

    def _add(self, line: bytes) -> None:
        try:
            at, feed, subject, _, change = json.loads(line)
            if not (isinstance(feed, str) and isinstance(subject, str) and type(at) is int and at >= 0):
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            raise InputError(f"{self._name} is damaged: a line of it cannot be read.") from None
        tape = self._tapes.setdefault((feed, subject), _Tape())
        if tape.times and at < tape.times[-1]:
            raise InputError(f"{self._name} is damaged: its lines are not in order.")
        if isinstance(change, list) and len(change) == 1:
            tape.wholes.append(len(tape.times))
        tape.times.append(at)
        tape.lines.append(line)


def _head(line: bytes, name: str) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("recording") != "tallyglass" or type(head.get("format")) is not int:
        raise _not_one(name)
    if head["format"] != FORMAT:
        made_by = clean(str(head.get("made_by", "another version")), 40)
        raise InputError(
            f"{name} has format {head['format']}, and this version reads {FORMAT}.", f"Replay it with {made_by}."
        )
    return head


def _not_one(name: str) -> InputError:
    return InputError(f"{name} is not a recording.", "tallyglass record FILE makes one.")


def _cleaned(value: Any) -> Any:
    """The JSON value with every text safe to show, whatever the file holds."""
    if isinstance(value, str):
        return clean_block(value, _LONGEST_TEXT)
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _cleaned(one) for name, one in value.items()}
    return value
