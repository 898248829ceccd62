"""The terminal driver for a bastion host: it survives strange input, a stalled terminal and a lost one.

Textual's own dies of input that is not UTF-8 and of old-style mouse reports, spins when the terminal is gone,
leaves a raw terminal behind on SIGTERM, and stops its event loop when the terminal takes no output.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import signal
import termios
import threading
from collections import deque
from collections.abc import Callable

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Paste, Resize
from textual.geometry import Size
from textual.message import Message

from tallyglass.text import clean
from tallyglass_tui.terminal.pen import Pen
from tallyglass_tui.terminal.theme import has_other_charset, to_ascii

GRACE_SECONDS = 2.0
"""How long an orderly end may take after a signal or a lost terminal before the process ends itself."""

_BACKLOG_LIMIT = 256_000
"""Bytes that may wait for the terminal; more is dropped and drawn anew once it takes output again."""
_CHUNK = 4096
_PASTE_LIMIT = 4_000_000
"""Characters that are kept of a pasted text."""
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_PEN_RESET = b"\x1b[0m"
_RESET = _PEN_RESET + b"\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"

# An X10 mouse report: three bytes after ESC [ M, any of which may be no UTF-8.
_X10_MOUSE = re.compile(rb"\x1b\[M[\x20-\xff]{3}", re.DOTALL)
_X10_BEGUN = re.compile(rb"\x1b\[(M[\x20-\xff]{0,2})?\Z", re.DOTALL)


class InputDecoder:
    """Bytes from the terminal to text: old-style mouse reports left out, bad UTF-8 replaced."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""

    def decode(self, data: bytes) -> str:
        """Text of ``data``. A report that is cut off at the end is held until the rest of it comes.

        ESC alone is not: it is a key.
        """
        data = _X10_MOUSE.sub(b"", self._held + data)
        begun = _X10_BEGUN.search(data)
        self._held = data[begun.start() :] if begun else b""
        return self._decoder.decode(data[: len(data) - len(self._held)])


class PatientWriter(threading.Thread):
    """Writes to the terminal without ever making the caller wait.

    What does not fit the backlog is dropped, whole frames at a time; ``recovered`` is called once the
    terminal has taken what was waiting, so that the screen can be drawn anew.
    """

    def __init__(self, fileno: int, recovered: Callable[[], None], *, ascii_only: bool = False) -> None:
        super().__init__(daemon=True, name="tallyglass-output")
        self._ascii_only = ascii_only
        self._fd = fileno
        self._recovered = recovered
        self._frames: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._pen = Pen()
        self._waiting = 0
        self._dropped = False
        self._leaving = False
        self._ending = False

    @property
    def backlog(self) -> int:
        """Bytes that wait for the terminal."""
        return self._waiting

    def write(self, text: str) -> None:
        """Queue ``text``."""
        with self._changed:
            if self._waiting + len(text) > _BACKLOG_LIMIT and not self._leaving:
                self._dropped = True
                self._pen.forget()
                return
            text = to_ascii(text) if self._ascii_only else text
            data = (text if self._leaving else self._pen.thin(text)).encode("utf-8", "replace")
            self._frames.append(data)
            self._waiting += len(data)
            self._changed.notify()

    def leave(self) -> None:
        """Forget frames that wait, and drop nothing from now on: what comes puts the terminal in order."""
        with self._changed:
            if self._waiting > _CHUNK:
                self._frames.clear()
                self._waiting = 0
            self._leaving = True
            self._pen.forget()
            self._frames.append(_PEN_RESET)
            self._waiting += len(_PEN_RESET)

    def enter(self) -> None:
        """Frames come again."""
        self._leaving = False

    def run(self) -> None:
        """Write until :meth:`stop`, or until the terminal is gone."""
        while True:
            with self._changed:
                while not self._frames and not self._ending:
                    self._changed.wait()
                if not self._frames:
                    return
                data = self._frames.popleft()
            try:
                self._write_all(data)
            except OSError:
                self._drain()
                return
            with self._changed:
                self._waiting = max(0, self._waiting - len(data))
                recovered = self._dropped and not self._frames
                if recovered:
                    self._dropped = False
            if recovered:
                self._recovered()

    def stop(self) -> None:
        """End; wait no longer than the grace for a terminal that takes nothing."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self.join(GRACE_SECONDS / 2)

    def _write_all(self, data: bytes) -> None:
        while data:
            select.select([], [self._fd], [])
            data = data[os.write(self._fd, data[:_CHUNK]) :]

    def _drain(self) -> None:
        with self._changed:
            self._frames.clear()
            self._waiting = 0


def without_controls(event: Message) -> Message:
    """``event``; a pasted text, which may come from a log full of anything, made visible line by line."""
    if not isinstance(event, Paste):
        return event
    return Paste("\n".join(clean(line, _PASTE_LIMIT) for line in event.text[:_PASTE_LIMIT].splitlines()))


class BastionDriver(LinuxDriver):
    """Textual's driver with the four guards."""

    _writer: PatientWriter | None = None
    _last_exit: threading.Timer | None = None

    @property
    def congested(self) -> bool:
        """Whether the terminal has not yet taken what was drawn before."""
        return bool(self._writer and self._writer.backlog > _CHUNK)

    def start_application_mode(self) -> None:
        """Take the terminal over, and the signals that mean to leave it."""
        if self._writer is None:
            ascii_only = has_other_charset(os.environ)
            self._writer = PatientWriter(self._file.fileno(), self._redraw, ascii_only=ascii_only)  # type: ignore[union-attr]
            self._writer.start()
        self._writer.enter()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self.hang_up, 128 + number)
        self._loop.add_signal_handler(signal.SIGWINCH, self._tell_size)

    def _tell_size(self) -> None:
        # Read in the loop: Textual's own signal handler, interrupted by the next signal, tells the older size last.
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(Resize(size, size))

    def write(self, data: str) -> None:
        """Send ``data`` to the terminal when it takes it."""
        if self._writer:
            self._writer.write(data)

    def close(self) -> None:
        """End the writer."""
        super().close()
        if self._writer:
            self._writer.stop()
            self._writer = None

    def _redraw(self) -> None:
        self._loop.call_soon_threadsafe(self._app.refresh)

    def stop_application_mode(self) -> None:
        """Give the terminal back. Frames that it has not taken are not waited for."""
        if self._writer:
            self._writer.leave()
        super().stop_application_mode()

    def hang_up(self, status: int) -> None:
        """Leave with ``status``: in order if that can be done in time, at once if not."""
        if self._last_exit is None:
            self._last_exit = threading.Timer(GRACE_SECONDS, self._leave_at_once, (status,))
            self._last_exit.daemon = True
            self._last_exit.start()
        self._app.exit(return_code=status)

    def _leave_at_once(self, status: int) -> None:
        with contextlib.suppress(OSError, termios.error):
            if self.attrs_before is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
            if select.select([], [self.fileno], [], 0)[1]:
                os.write(self.fileno, _RESET)
        os._exit(status)

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except OSError:
            self._gone()

    def run_input_thread(self) -> None:
        """Read keys until told to stop or until the terminal is gone."""
        decoder = InputDecoder()
        parser = XTermParser(self._debug)
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], 0.1)[0]:
                data = os.read(self.fileno, 4096)
                if not data:
                    self._gone()
                    return
                parser = self._feed(parser, decoder.decode(data))
            for event in parser.tick():
                self.process_message(event)

    def _feed(self, parser: XTermParser, text: str) -> XTermParser:
        """Hand on what ``text`` holds; the parser to go on with, a new one where a sequence broke the old."""
        try:
            # An empty text would tell the parser that the input has ended.
            for event in parser.feed(text) if text else ():
                self.process_message(without_controls(event))
        except (ValueError, ParseError):
            return XTermParser(self._debug)
        return parser

    def _gone(self) -> None:
        if not self.exit_event.is_set():
            self._loop.call_soon_threadsafe(self.hang_up, 128 + signal.SIGHUP)
