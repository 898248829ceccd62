"""The signals that end a program."""

from __future__ import annotations

import signal

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ending_signals() -> tuple[signal.Signals, ...]:
    """Those that a program handles which ends cleanly. Left out is what it was started to ignore, as ``nohup`` does
    with SIGHUP: it is to go on when the connection is lost."""
    return tuple(one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN)
