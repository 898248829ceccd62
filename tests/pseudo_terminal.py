"""A process in a real pseudo-terminal, seen through a terminal emulator, as a person would see it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pyte
from wcwidth import wcwidth

PATIENCE = 60.0
"""Seconds that a test waits for what must come; none of them needs them."""

_SETSID = shutil.which("setsid") or "setsid"


def dashboard(*args: str, setup: str = "") -> list[str]:
    """The command that runs ``tallyglass`` with these arguments, after some lines of Python where given."""
    if not setup:
        return [sys.executable, "-m", "tallyglass_tui", *args]
    return [sys.executable, "-c", f"{setup}\nfrom tallyglass_tui.cli.main import main\nmain()", *args]


def environment(home: Path, **more: str) -> dict[str, str]:
    """The variables of a person in a true-colour terminal with a home of their own, and ``more``."""
    plain = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    return {"PATH": os.environ["PATH"], "HOME": str(home)} | plain | more


class Emulator(pyte.Screen):
    """pyte's screen, without the rest of a text being lost after a mark that it does not know how to combine."""

    def draw(self, data: str) -> None:
        """Draw text."""
        super().draw("".join(char for char in data if wcwidth(char) or unicodedata.combining(char)))


class Terminal:
    """A process on a pseudo-terminal of its own. ``raw`` is every byte that it sent.

    With ``frames`` it is a terminal that knows whole frames (mode 2026): then nothing is judged within one.
    """

    def __init__(
        self, argv: Sequence[str], env: dict[str, str], *, size: tuple[int, int] = (80, 24), controlling: bool = True,
        emulated: bool = True, frames: bool = False, cwd: Path | None = None,
    ) -> None:  # fmt: skip
        self.screen = Emulator(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._emulated, self._frames = emulated, frames
        self.raw = bytearray()
        self._changed = threading.Condition()
        self._changes = 0
        self._reading = threading.Event()
        self._reading.set()
        self.master, slave = pty.openpty()
        self._set_size(*size)
        self.before = termios.tcgetattr(slave)

        # setsid becomes the program. Between a fork and its exec no Python of ours may run: a ^C that is typed by then
        # would interrupt a copy of the test run.
        session = [_SETSID, "--ctty"] if controlling else [_SETSID]
        self.process = subprocess.Popen([*session, *argv], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd)
        self._slave: int | None = slave
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def press(self, keys: str | bytes) -> None:
        """Type."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, columns: int, rows: int) -> None:
        """Another size, as a window manager would."""
        with self._changed:
            self.screen.resize(rows, columns)
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    @property
    def lines(self) -> list[str]:
        """What the screen shows."""
        with self._changed:
            return [line.rstrip() for line in self.screen.display]

    @property
    def cells(self) -> list[list[str]]:
        """The rows of the screen by cell; the cell after a wide character is empty."""
        with self._changed:
            return [
                [row[x].data for x in range(self.screen.columns)]
                for row in map(self.screen.buffer.__getitem__, range(self.screen.lines))
            ]

    @property
    def text(self) -> str:
        """What the screen shows, as one text."""
        return "\n".join(self.lines)

    def wait(self, seen: str | Callable[[str], Any], seconds: float = PATIENCE) -> str:
        """Wait until the screen shows a text, or until a condition on it holds; the screen then."""
        holds = (lambda text: seen in text) if isinstance(seen, str) else seen
        deadline = time.monotonic() + seconds
        while True:
            changes = self._changes
            text = self.text
            if self._is_whole and holds(text):
                return text
            left = deadline - time.monotonic()
            if left <= 0 or self.process.poll() is not None:
                raise AssertionError(f"never on the screen: {seen}\n{text}\nended: {self.process.poll()}")
            self._await_change(changes, min(left, 0.5))

    def wait_raw(self, holds: Callable[[bytes], Any], since: int = 0, seconds: float = PATIENCE) -> bytes:
        """Wait until a condition holds on the bytes sent after the first ``since`` of them; those bytes."""
        deadline = time.monotonic() + seconds
        while True:
            with self._changed:
                changes, data = self._changes, bytes(self.raw[since:])
            if holds(data):
                return data
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"never sent; ended: {self.process.poll()}\n{data[-2000:]!r}")
            self._await_change(changes, 0.5)

    def stall(self) -> None:
        """Take no more output, as a terminal does after ^S or on a dead link."""
        self._reading.clear()

    def resume(self) -> None:
        """Take output again."""
        self._reading.set()

    def hang_up(self) -> None:
        """Close the terminal, as a lost SSH connection does."""
        self._reading.set()
        self._close_slave()
        master, self.master = self.master, -1
        os.close(master)

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for the end of the process; its status."""
        return self.process.wait(seconds)

    def restored(self, seconds: float = PATIENCE) -> bool:
        """Whether the terminal becomes as it was: settings, main screen, cursor, line wrap, no mouse, no paste mode."""
        deadline = time.monotonic() + seconds
        changes = self._changes
        while not self._is_restored():
            if time.monotonic() > deadline:
                return False
            self._await_change(changes, 0.1)
            changes = self._changes
        return True

    def _await_change(self, known: int, seconds: float) -> None:
        """Wait for more output than there was at the last look: what came while it was judged counts, too."""
        with self._changed:
            if self._changes == known:
                self._changed.wait(seconds)

    def _is_restored(self) -> bool:
        assert self._slave is not None
        modes = {mode: self._last_mode(mode) for mode in (b"1049", b"25", b"1004", b"2004", b"7", b"1000")}
        wanted = {b"1049": b"l", b"25": b"h", b"1004": b"l", b"2004": b"l", b"7": b"h", b"1000": b"l"}
        now = termios.tcgetattr(self._slave)
        return now[:4] == self.before[:4] and all(state in (None, wanted[mode]) for mode, state in modes.items())

    def close(self) -> None:
        """End the process, if need be, and the terminal."""
        self._reading.set()
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # before it leads a group of its own
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self._close_slave()
        if self.master >= 0:
            self._thread.join(5)
            master, self.master = self.master, -1
            os.close(master)

    @property
    def _is_whole(self) -> bool:
        with self._changed:
            return not self._frames or self.raw.rfind(b"\x1b[?2026h") <= self.raw.rfind(b"\x1b[?2026l")

    def _last_mode(self, mode: bytes) -> bytes | None:
        found = re.findall(rb"\x1b\[\?" + mode + rb"([hl])", bytes(self.raw))
        return found[-1] if found else None

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _close_slave(self) -> None:
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None

    def _read(self) -> None:
        while (master := self.master) >= 0:
            if not self._reading.wait(0.1):
                continue
            try:
                ready = select.select([master], [], [], 0.1)[0]
                data = os.read(master, 65536) if ready else b""
            except (OSError, ValueError):
                return
            if not ready:
                if self.process.poll() is not None:
                    return
                continue
            if self._frames and b"\x1b[?2026$p" in data:
                os.write(master, b"\x1b[?2026;2$y")
            with self._changed:
                self.raw += data
                self._changes += 1
                if self._emulated:
                    self._stream.feed(data)
                self._changed.notify_all()
