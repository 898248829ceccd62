"""The terminal driver: it survives invalid input, a stalled terminal and a lost one.

Textual's own driver crashes on input that is not UTF-8 and on X10 mouse reports, spins when the terminal is lost,
leaves the terminal raw on SIGTERM, and blocks its event loop when the terminal accepts no output.
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
import time
from collections import deque
from collections.abc import Callable, Iterator

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Paste, Resize
from textual.geometry import Size

from tallyglass.text import clean
from tallyglass_tui.terminal.pen import Pen
from tallyglass_tui.terminal.theme import sends_ascii_only, to_ascii

GRACE_SECONDS = 2.0
"""Seconds that an orderly exit may take after a signal or a lost terminal, before the process exits at once."""

_BACKLOG_LIMIT = 256_000
"""Bytes that may wait for the terminal; more is dropped, and the screen is redrawn once the backlog is written."""
_CHUNK = 4096
"""Bytes of one write, the buffer of a pty: a slow terminal is noticed after so many."""
_PASTE_LIMIT = 4_000_000
"""Characters of a pasted text that are kept."""
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
_PASTE_PAUSE, _PASTE_REST = 0.1, 1.0
"""Seconds without input that end a pasted text, and in which more of it may come: a slow link delivers it in pieces."""
_PIECE_PAUSE = 0.05
"""Seconds in which the rest of several characters may come that were read at once: a busy machine delivers a paste in
pieces, of which the first may be small. A key that comes alone never waits."""
_TYPED_AT_ONCE, _DIFFERENT_KEYS, _HELD = 64, 8, 1_000
"""Characters, and different ones, that keys typed ahead over a slow link may be, and those of a key that is held; more
is a pasted text. As many keys would keep the program busy for minutes, in which it misses signals."""
_NO_KEY = "\ufffd"
"""What bytes become that are not UTF-8."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;:?<>=]*[@-~]|O.|[^\[O])?")
_ESCAPE_AND_KEY = re.compile("\x1b(?=([^\\[\\]OPX^_\\\\bf\t\x7f]))")
"""Escape before a key with which it begins no sequence. Both arrive at once if they are typed in quick succession, or
over a slow link, and the parser would make one key of them: a letter with Alt, another sign, or the second key alone.
"""
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_PEN_RESET = b"\x1b[0m"
_RESET = _PEN_RESET + b"\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"

# An X10 mouse report: three bytes after ESC [ M, which need not be UTF-8.
_X10_MOUSE = re.compile(rb"\x1b\[M[\x20-\xff]{3}", re.DOTALL)
_INCOMPLETE = re.compile(rb"\x1b\[(M[\x20-\xff]{0,2}|2(0[01]?)?)?\Z", re.DOTALL)
"""Such a report, or the mark before or after a pasted text, of which the rest has not arrived yet."""

_CONTINUATION = re.compile(rb"[\x80-\xbf]")
"""A byte of a character in UTF-8 that is not its first."""


class InputDecoder:
    """Decodes input from the terminal: X10 mouse reports are removed, invalid UTF-8 is replaced.

    A character that is never completed is dropped, so that the key after it stays a key of its own.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""

    def decode(self, data: bytes) -> str:
        """The text of ``data``. An incomplete report or mark at the end is held until the rest arrives.

        ESC alone is not held: it is a key.
        """
        data = _X10_MOUSE.sub(b"", self._held + data)
        partial = _INCOMPLETE.search(data)
        self._held = data[partial.start() :] if partial else b""
        data = data[: len(data) - len(self._held)]
        if data and not _CONTINUATION.match(data):
            self._decoder.reset()
        return self._decoder.decode(data)


class NonBlockingWriter(threading.Thread):
    """Writes to the terminal from a thread, so that the caller never blocks.

    Frames that do not fit into the backlog are dropped whole; ``recovered`` is called once the backlog is written,
    so that the screen can be redrawn.
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
        """Bytes that are waiting for the terminal."""
        return self._waiting

    def write(self, text: str) -> None:
        """Queue ``text`` for the terminal."""
        with self._changed:
            if self._waiting + len(text) > _BACKLOG_LIMIT and not self._leaving:
                self._dropped = True
                self._pen.forget()
                return
            text = to_ascii(text) if self._ascii_only else text
            data = (text if self._leaving else self._pen.compress(text)).encode("utf-8", "replace")
            self._frames.append(data)
            self._waiting += len(data)
            self._changed.notify()

    def leave(self) -> None:
        """Discard waiting frames and drop nothing from now on: what follows restores the terminal."""
        with self._changed:
            if self._waiting > _CHUNK:
                self._frames.clear()
                self._waiting = 0
            self._leaving = True
            self._pen.forget()
            self._frames.append(_PEN_RESET)
            self._waiting += len(_PEN_RESET)

    def enter(self) -> None:
        """Accept frames again, after a suspension."""
        self._leaving = False

    def run(self) -> None:
        """Write until :meth:`stop`, or until the terminal is lost."""
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
        """Stop; wait at most half the grace period for a terminal that accepts nothing."""
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


class MarkedPastes:
    """The texts that a terminal marks as pasted. They never reach the parser: to it an ESC in one would be a key."""

    def __init__(self) -> None:
        self._pasted: list[str] | None = None
        self._length = 0

    def has_none(self, text: str) -> bool:
        """Whether all of ``text``, which comes next, is keys."""
        return self._pasted is None and _PASTE_START not in text

    def split(self, text: str) -> Iterator[tuple[str, str]]:
        """The keys, and the paste after them; either may be empty. A paste is given once it has ended."""
        while text:
            keys = ""
            if self._pasted is None:
                keys, start, text = text.partition(_PASTE_START)
                if not start:
                    yield keys, ""
                    return
                self._pasted, self._length = [], 0
            pasted, end, text = text.partition(_PASTE_END)
            if self._length < _PASTE_LIMIT:
                self._pasted.append(pasted)
                self._length += len(pasted)
            yield keys, "".join(self._pasted) if end else ""
            if end:
                self._pasted = None


def clean_paste(text: str) -> Paste:
    """A pasted text, of which the control characters are made visible, line by line."""
    return Paste("\n".join(clean(line, _PASTE_LIMIT) for line in text[:_PASTE_LIMIT].splitlines()))


class BastionDriver(LinuxDriver):
    """Textual's driver with the protections above."""

    _writer: NonBlockingWriter | None = None
    _exit_timer: threading.Timer | None = None

    @property
    def congested(self) -> bool:
        """Whether output is still waiting for the terminal."""
        return bool(self._writer and self._writer.backlog > _CHUNK)

    def start_application_mode(self) -> None:
        """Take over the terminal, and handle the signals that ask the process to end."""
        if self._writer is None:
            ascii_only = sends_ascii_only(os.environ)
            self._writer = NonBlockingWriter(self._file.fileno(), self._redraw, ascii_only=ascii_only)  # type: ignore[union-attr]
            self._writer.start()
        self._writer.enter()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self.hang_up, 128 + number)
        self._loop.add_signal_handler(signal.SIGWINCH, self._post_size)
        # Textual's handlers interrupt the loop anywhere. In the middle of a frame, the frame holds the lock that the
        # writer needs to restore the terminal, and the process would stop with the terminal still taken over.
        self._loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
        self._loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)

    def _post_size(self) -> None:
        # Read in the loop: Textual's signal handler, interrupted by the next signal, would post the older size last.
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(Resize(size, size))

    def write(self, data: str) -> None:
        """Queue ``data`` for the terminal."""
        if self._writer:
            self._writer.write(data)

    def close(self) -> None:
        """Stop the thread that writes."""
        super().close()
        if self._writer:
            self._writer.stop()
            self._writer = None

    def _redraw(self) -> None:
        self._loop.call_soon_threadsafe(self._app.refresh)

    def stop_application_mode(self) -> None:
        """Restore the terminal without waiting for queued frames."""
        if self._writer:
            self._writer.leave()
        super().stop_application_mode()

    def hang_up(self, status: int) -> None:
        """Exit with ``status``: orderly if possible within the grace period, else at once."""
        if self._exit_timer is None:
            self._exit_timer = threading.Timer(GRACE_SECONDS, self._exit_now, (status,))
            self._exit_timer.daemon = True
            self._exit_timer.start()
        self._app.exit(return_code=status)

    def _exit_now(self, status: int) -> None:
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
            self._terminal_lost()

    def run_input_thread(self) -> None:
        """Read keys until the driver stops or the terminal is lost."""
        decoder, pastes = InputDecoder(), MarkedPastes()
        parser = XTermParser(self._debug)
        rest_until, escape = 0.0, ""
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], 0.1)[0]:
                data = os.read(self.fileno, 4096)
                if not data:
                    self._terminal_lost()
                    return
                text = self._with_its_rest(escape + decoder.decode(data), decoder)
                # What follows tells whether it is a key or begins a sequence.
                text, escape = (text[:-1], "\x1b") if text.endswith("\x1b") else (text, "")
                if pastes.has_none(text) and self._is_raw_paste(text, goes_on=time.monotonic() < rest_until):
                    pasted = self._read_paste(text + escape, decoder)
                    rest_until, escape = time.monotonic() + _PASTE_REST, ""
                    # A single line with Enter behind it may as well be typed ahead: Enter keeps its meaning.
                    line, enter = (pasted[:-1], "\r") if pasted.find("\r") == len(pasted) - 1 else (pasted, "")
                    self.process_message(clean_paste(line))
                    parser = self._feed(parser, enter)
                else:
                    for keys, paste in pastes.split(text):
                        parser = self._feed_keys(parser, keys)
                        if paste:
                            self.process_message(clean_paste(paste))
            elif escape and pastes.has_none(""):
                escape = ""
                self.process_message(Key("escape", "\x1b"))
            for event in parser.tick():
                self.process_message(event)

    @staticmethod
    def _is_raw_paste(text: str, *, goes_on: bool) -> bool:
        """Whether a text arrived at once that nobody types, from a terminal without bracketed paste. Where one may
        go on, more than one key is enough; an arrow that is held sends sequences."""
        typed = _SEQUENCE.sub("", text)
        several = goes_on or _NO_KEY in typed
        different = len(set(typed)) > _DIFFERENT_KEYS
        return (several and len(typed) > 1) or len(typed) > (_TYPED_AT_ONCE if different else _HELD)

    def _with_its_rest(self, text: str, decoder: InputDecoder) -> str:
        """``text`` with what follows at once, if it is more than one key and too little to be seen as a paste."""
        while 1 < len(_SEQUENCE.sub("", text)) <= _TYPED_AT_ONCE and _PASTE_START not in text:
            if not select.select([self.fileno], [], [], _PIECE_PAUSE)[0]:
                break
            data = os.read(self.fileno, 4096)
            if not data:  # the next read sees that the terminal is lost
                break
            text += decoder.decode(data)
        return text

    def _read_paste(self, text: str, decoder: InputDecoder) -> str:
        """The paste that begins with ``text``: what arrives until the terminal pauses."""
        parts, length = [text], len(text)
        while not self.exit_event.is_set() and select.select([self.fileno], [], [], _PASTE_PAUSE)[0]:
            data = os.read(self.fileno, 65_536)
            if not data:
                break
            if length < _PASTE_LIMIT:
                parts.append(decoder.decode(data))
                length += len(parts[-1])
        return "".join(parts)

    def _feed_keys(self, parser: XTermParser, text: str) -> XTermParser:
        """Process the keys in ``text``; returns the parser to continue with."""
        alt_keys, done = getattr(self._app, "alt_keys", ()), 0
        for typed in _ESCAPE_AND_KEY.finditer(text):
            parser = self._feed(parser, text[done : typed.start()])
            key = typed[1]
            with_alt = f"alt+shift+{key.lower()}" if key.isupper() else f"alt+{key}"
            is_alt = with_alt in alt_keys
            self.process_message(Key(with_alt, key) if is_alt else Key("escape", "\x1b"))
            done = typed.end(1) if is_alt else typed.end()
        return self._feed(parser, text[done:])

    def _feed(self, parser: XTermParser, text: str) -> XTermParser:
        """Process what the parser finds in ``text``; returns the parser to continue with, a new one after an invalid
        sequence."""
        try:
            # To the parser, an empty text is the end of the input.
            for event in parser.feed(text) if text else ():
                self.process_message(event)
        except (ValueError, ParseError):
            return XTermParser(self._debug)
        return parser

    def _terminal_lost(self) -> None:
        if not self.exit_event.is_set():
            self._loop.call_soon_threadsafe(self.hang_up, 128 + signal.SIGHUP)
