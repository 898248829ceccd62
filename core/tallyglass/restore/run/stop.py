"""How a run ends before its last step: at a doubt, or because somebody asked for it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from tallyglass.errors import TallyglassError
from tallyglass.signals import ending_signals

_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
"""The signals that stop a run, and the exit status after each."""


class RunStopped(TallyglassError):
    """The run stopped at a doubt: ``check`` is the stable id of the reason."""

    def __init__(self, check: str, title: str, advice: str = "") -> None:
        super().__init__(title, advice)
        self.check = check


# Not an Exception: asyncio lets KeyboardInterrupt alone through.
class Interrupted(KeyboardInterrupt):
    """A signal asked the run to stop; ``code`` is the exit status for it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise :class:`Interrupted` at the first of :func:`ending_signals`; later ones are ignored, so that they do not
    disturb the cleaning up."""

    def stop(number: int, _: FrameType | None) -> NoReturn:
        for one in _CODES:
            signal.signal(one, signal.SIG_IGN)
        raise Interrupted(_CODES[signal.Signals(number)])

    before = {number: signal.signal(number, stop) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
