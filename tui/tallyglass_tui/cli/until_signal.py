"""Waiting for Ctrl-C, SIGTERM or SIGHUP."""

from __future__ import annotations

import select
import signal
import socket

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndSignal:
    """Catches the signals that end a program from its creation on."""

    def __init__(self) -> None:
        # A signal that arrives just before a lock wait does not end the wait; a wakeup socket has no such race.
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno())
        for number in _END_SIGNALS:
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float | None) -> None:
        """Wait until one arrives, at most this long."""
        select.select([self._reader], [], [], seconds)
