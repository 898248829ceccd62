"""The one log of a plan's folder: what was shown, and what the tools printed, as they printed it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LOG = "restore.log"


class Journal:
    """Adds lines to the log of ``folder``. A step writes its output to the same file, and goes on to do so if this
    process is killed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG

    def note(self, text: str) -> None:
        """Add lines. What cannot be written is left out: the terminal shows it too."""
        with contextlib.suppress(OSError), open(self.path, "a", encoding="utf-8", opener=private) as file:
            file.write(f"{text}\n")

    def size(self) -> int:
        """How many bytes it has."""
        return self.path.stat().st_size if self.path.exists() else 0


def private(path: str, flags: int) -> int:
    """An opener of files that their owner alone can read."""
    return os.open(path, flags, 0o600)


class LogTail:
    """The lines that were added to a file since ``start``, read as it grows."""

    def __init__(self, path: Path, start: int) -> None:
        self._path, self._place = path, start
        self._rest = b""

    def new_lines(self) -> list[str]:
        """The lines that became whole since the last call, without their ends."""
        *lines, self._rest = self._read().split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def remainder(self) -> list[str]:
        """The last line, if it has no end."""
        rest, self._rest = self._rest, b""
        return [rest.decode(errors="replace")] if rest else []

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            file.seek(self._place)
            added = file.read()
        self._place += len(added)
        return self._rest + added
