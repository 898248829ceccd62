"""Run a process in a real pseudo-terminal and read its screen through a terminal emulator."""

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

TIMEOUT_SECONDS = 180.0
"""The default limit of each wait: a guard against one that never ends. At a load of 30 on two cores pages took 60 s."""

_SETSID = shutil.which("setsid") or "setsid"


def dashboard(*args: str, setup: str = "") -> list[str]:
    """Return the command that runs ``tallyglass`` with ``args``. ``setup`` is Python code to run before it."""
    if not setup:
        return [sys.executable, "-m", "tallyglass_tui", *args]
    return [sys.executable, "-c", f"{setup}\nfrom tallyglass_tui.cli.main import main\nmain()", *args]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user with a true-colour terminal and ``home`` as home folder, plus ``more``."""
    plain = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    return {"PATH": os.environ["PATH"], "HOME": str(home)} | plain | more


def is_connected(shown: str) -> re.Match[str] | None:
    """Whether the header names the set ``tally``, with its version where there is room, and its primary."""
    return re.search(r"tally (?:\d\S* )?P\*", shown)


class Emulator(pyte.Screen):
    """pyte's screen, which drops the rest of a text after an unknown combining mark, with such marks removed."""

    def draw(self, data: str) -> None:
        """Draw text."""
        super().draw("".join(char for char in data if wcwidth(char) or unicodedata.combining(char)))


class Terminal:
    """A process on its own pseudo-terminal. ``raw`` holds every byte that it sent.

    With ``frames`` the terminal supports synchronized output (mode 2026), and waits only look at complete frames.
    It starts in the home folder of ``env`` unless ``cwd`` is given: a file that a key writes must not land in the tree.
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

        # setsid replaces itself with the program. No Python may run between fork and exec: a ^C typed at that moment
        # would interrupt a copy of the test run.
        session = [_SETSID, "--ctty"] if controlling else [_SETSID]
        self.process = subprocess.Popen(
            [*session, *argv], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd or env.get("HOME")
        )
        self._slave: int | None = slave
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def press(self, keys: str | bytes) -> None:
        """Send keys."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        with self._changed:
            self.screen.resize(rows, columns)
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    @property
    def lines(self) -> list[str]:
        """The text of the screen by row, without trailing spaces."""
        with self._changed:
            return [line.rstrip() for line in self.screen.display]

    @property
    def cells(self) -> list[list[str]]:
        """The characters of the screen by row and cell. The cell after a wide character is empty."""
        with self._changed:
            return [
                [row[x].data for x in range(self.screen.columns)]
                for row in map(self.screen.buffer.__getitem__, range(self.screen.lines))
            ]

    @property
    def text(self) -> str:
        """The text of the screen."""
        return "\n".join(self.lines)

    def wait(self, seen: str | Callable[[str], Any], seconds: float = TIMEOUT_SECONDS) -> str:
        """Wait until the screen contains a text or satisfies a condition, and return its text."""
        holds = (lambda text: seen in text) if isinstance(seen, str) else seen
        deadline = time.monotonic() + seconds
        while True:
            all_read = self._is_all_read
            with self._changed:
                changes = self._changes
                text = self.text if self._is_frame_complete else None
            if text is not None and holds(text):
                return text
            left = deadline - time.monotonic()
            if left <= 0 or all_read:
                raise AssertionError(f"never on the screen: {seen}\n{self.text}\nended: {self.process.poll()}")
            self._await_change(changes, min(left, 0.5))

    def wait_raw(self, holds: Callable[[bytes], Any], since: int = 0, seconds: float = TIMEOUT_SECONDS) -> bytes:
        """Wait until the bytes after the first ``since`` satisfy a condition, and return them."""
        deadline = time.monotonic() + seconds
        while True:
            all_read = self._is_all_read
            with self._changed:
                changes, data = self._changes, bytes(self.raw[since:])
            if holds(data):
                return data
            if time.monotonic() > deadline or all_read:
                raise AssertionError(f"never sent; ended: {self.process.poll()}\n{data[-2000:]!r}")
            self._await_change(changes, 0.5)

    def stall(self) -> None:
        """Stop reading output, as a terminal does after ^S or on a dead connection."""
        self._reading.clear()

    def resume(self) -> None:
        """Read output again."""
        self._reading.set()

    def hang_up(self) -> None:
        """Close the terminal, as a lost SSH connection does."""
        self._reading.set()
        self._close_slave()
        master, self.master = self.master, -1
        os.close(master)

    def wait_for_exit(self, seconds: float = TIMEOUT_SECONDS) -> int:
        """Wait until the process exits and, unless stalled, all that it wrote has been read. Return its status."""
        status = self.process.wait(seconds)
        if self._reading.is_set():
            self._thread.join(seconds)
        return status

    def wait_restored(self, seconds: float = TIMEOUT_SECONDS) -> bool:
        """Wait for the original settings, main screen, cursor and line wrap, with the mouse and paste modes off."""
        deadline = time.monotonic() + seconds
        changes = self._changes
        while not self._is_restored():
            if time.monotonic() > deadline:
                return False
            self._await_change(changes, 0.1)
            changes = self._changes
        return True

    @property
    def _is_all_read(self) -> bool:
        """Whether the process has exited and its output has been read, which may be later."""
        return not self._thread.is_alive()

    def _await_change(self, known: int, seconds: float) -> None:
        """Wait up to ``seconds`` for output, unless some has arrived since ``_changes`` was ``known``."""
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
        """Terminate the process and close the terminal."""
        self._reading.set()
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it does not lead a group yet
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self._close_slave()
        if self.master >= 0:
            self._thread.join(5)
            master, self.master = self.master, -1
            os.close(master)

    @property
    def _is_frame_complete(self) -> bool:
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
            exited = self.process.poll() is not None
            try:
                ready = select.select([master], [], [], 0.1)[0]
                data = os.read(master, 65536) if ready else b""
            except (OSError, ValueError):
                return
            if not ready:
                if exited:
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


def say_yes(restore: Terminal, seconds: float = TIMEOUT_SECONDS) -> None:
    """Answer each question of ``restore run`` as it is asked, until it says that it is done."""
    answered = 0
    while b"Files are in" not in restore.wait_raw(
        lambda shown, before=answered: shown.count(b"run it?") > before or b"Files are in" in shown, seconds=seconds
    ):
        restore.press("y\n")
        answered += 1
