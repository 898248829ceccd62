"""The lines of the server's log that name who wrote, kept on disk: the server's own memory of them is minutes.

A folder of small log files, one an hour and member, in the server's own form, so that they are read as any log is.
They may hold personal data (the filters of statements), so they are written only if asked for, and only their owner
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
from tallyglass.text import clean

KEEP_BYTES = 256_000_000
"""The most bytes of a folder; the oldest files are removed first."""

KEEP_SECONDS = 7 * 86_400
"""How long a file is kept."""

_HOUR = 3_600
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]")
_NAME = re.compile(r"(?P<member>.+)_(?P<hour>\d{10})\.log\Z")


@dataclass(slots=True)
class EvidenceFolder:
    """A folder of such files. Raises InputError if it cannot be used, or if others may read it."""

    path: Path
    keep_bytes: int = KEEP_BYTES
    keep_seconds: int = KEEP_SECONDS
    _cleaned: int = field(default=0)

    def __post_init__(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = self.path.stat().st_mode
        except OSError as error:
            raise self._refusal(error) from None
        if mode & 0o077:
            raise InputError(f"Others may read {clean(str(self.path))}.", f"chmod 700 {clean(str(self.path))}")

    def write(self, member: str, lines: Iterable[str]) -> None:
        """Append the lines that are evidence. Raises InputError if the folder cannot be written."""
        kept = [line for line in lines if tells(line)]
        hour = int(time.time()) // _HOUR
        try:
            if kept:
                name = f"{self.name_of(member)}_{hour:010}.log"
                handle = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
                with os.fdopen(handle, "a", encoding="utf-8", errors="replace") as file:
                    file.write("".join(f"{line}\n" for line in kept))
            if hour != self._cleaned:
                self._cleaned = hour
                self._clean()
        except OSError as error:
            raise self._refusal(error) from None

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
        files = sorted((path for path in self.path.iterdir() if _NAME.match(path.name)), key=lambda one: one.name[-14:])
        sizes = {path: path.stat() for path in files}
        total, oldest = sum(one.st_size for one in sizes.values()), time.time() - self.keep_seconds
        for path in files:
            if total > self.keep_bytes or sizes[path].st_mtime < oldest:
                total -= sizes[path].st_size
                path.unlink(missing_ok=True)

    def _refusal(self, error: OSError) -> InputError:
        return InputError(f"{clean(str(self.path))} cannot be used: {error.strerror}.", "Name a folder of your own.")
