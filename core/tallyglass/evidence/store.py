"""The lines of the server's log that name who wrote, kept on disk: the server's own memory of them is minutes.

A folder of small log files, one a member and hour or less, in the server's own form: they are read as any log is. They
may hold personal data (the filters of statements), so they are written only if asked for, and only their owner
may read them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.evidence.log_lines import tells
from tallyglass.text import clean, shell_quote

KEEP_BYTES = 256_000_000
"""The most bytes of a folder; the oldest files are removed first."""

KEEP_SECONDS = 7 * 86_400
"""How long a file is kept."""

PARTS = 16
"""A file is followed by another when it holds this part of a folder's bytes, so that the oldest can be removed."""

_FILE_SECONDS = 3_600  # old records go file by file, so an hour of them at a time
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]")
_NAME = re.compile(r"(?P<member>.+)_(?P<begun>\d{10})\.log\Z")


@dataclass(slots=True)
class _File:
    """The file to which a member's lines are appended: when it was begun, in seconds, and its bytes."""

    begun: int
    size: int = 0


@dataclass(slots=True)
class EvidenceFolder:
    """A folder of such files, to which lines are added only if it ``keeps`` them. Raises InputError if it cannot be
    used, or if others may read it."""

    path: Path
    keeps: bool = False
    keep_bytes: int = KEEP_BYTES
    keep_seconds: int = KEEP_SECONDS
    _open: dict[str, _File] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = self.path.stat().st_mode
            is_own = all(_NAME.match(path.name) for path in self.path.iterdir())
        except OSError as error:
            raise self._refusal(error) from None
        if mode & 0o077:  # of a folder with anything else in it, such as /tmp, that may be on purpose
            advice = f"chmod 700 {shell_quote(str(self.path))}" if is_own else "Name a folder for the evidence alone."
            raise InputError(f"Others may read {clean(str(self.path))}.", advice)

    def write(self, member: str, lines: Iterable[str]) -> None:
        """Append the lines that are evidence. Raises InputError if the folder cannot be written."""
        told = filter(tells, lines if self.keeps else ())
        text = "".join(f"{line}\n" for line in told).encode("utf-8", "replace")
        if not text:
            return
        try:
            name = f"{self.name_of(member)}_{self._begun(member, len(text)):010}.log"
            handle = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(text)
        except OSError as error:
            raise self._refusal(error) from None

    def _begun(self, member: str, size: int) -> int:
        """When the file for so many more bytes was begun; removes old files before it begins another."""
        now, file = int(time.time()), self._open.get(member)
        if file is None or now - file.begun >= _FILE_SECONDS or file.size + size > self.keep_bytes // PARTS:
            self._clean()
            file = self._open[member] = _File(max(now, file.begun + 1 if file else 0))
        file.size += size
        return file.begun

    @staticmethod
    def name_of(member: str) -> str:
        """A member as the names of its files begin."""
        return _UNSAFE.sub("_", member)

    def by_member(self) -> dict[str, Sequence[Path]]:
        """The files of each member, the oldest first."""
        found: dict[str, list[Path]] = {}
        for path in sorted(self.path.iterdir()):
            name = _NAME.match(path.name)
            if name:
                found.setdefault(name["member"], []).append(path)
        return dict(found)

    def _clean(self) -> None:
        """Remove what is too old, and the oldest until another file has room."""
        files = sorted((path for path in self.path.iterdir() if _NAME.match(path.name)), key=lambda one: one.name[-14:])
        sizes = {path: path.stat() for path in files}
        total, oldest = sum(one.st_size for one in sizes.values()), time.time() - self.keep_seconds
        for path in files:
            if total > self.keep_bytes - self.keep_bytes // PARTS or sizes[path].st_mtime < oldest:
                total -= sizes[path].st_size
                path.unlink(missing_ok=True)

    def _refusal(self, error: OSError) -> InputError:
        return InputError(f"{clean(str(self.path))} cannot be used: {error.strerror}.", "Name a folder of your own.")
