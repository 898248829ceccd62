"""Waiting for Ctrl-C, SIGTERM, SIGHUP, or an end from within."""

from __future__ import annotations

import select
import signal
import socket
import threading

from tallyglass.signals import ending_signals


class EndSignal:
    """Catches the signals that end a program from its creation on."""

    def __init__(self) -> None:
        # A signal that arrives just before a lock wait does not end the wait; a wakeup socket has no such race.
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno())
        for number in ending_signals():
            signal.signal(number, lambda *_: None)

    def end(self) -> None:
        """End the wait, like a signal. Safe to call from any thread."""
        self._writer.send(b"\0")

    def wait(self, seconds: float | None) -> None:
        """Wait until a signal arrives or :meth:`end` is called, at most this long."""
        # The system knows no longer time than some centuries; what is typed may be any number.
        select.select([self._reader], [], [], None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
