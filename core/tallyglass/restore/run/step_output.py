"""What a step prints, followed as its log grows: what it proves, how far the step is, and whether it only waits."""

from __future__ import annotations

from tallyglass.restore.run.journal import LogTail
from tallyglass.restore.run.printed import Printed
from tallyglass.restore.run.progress import Progress
from tallyglass.restore.run.silence import Silence


class StepOutput:
    """The lines of one attempt at a step, read from ``tail``. A step is estimated at ``seconds``."""

    def __init__(self, tail: LogTail, seconds: float | None, silence: Silence) -> None:
        self.printed = Printed()
        self.progress = Progress(seconds)
        self.silence = silence
        self._tail = tail

    def new_lines(self, *, ended: bool) -> list[str]:
        """The lines since the last call. Where the step has ended, also a last one without an end."""
        lines = [*self._tail.new_lines(), *(self._tail.remainder() if ended else ())]
        for line in lines:
            for listener in (self.printed, self.progress, self.silence):
                listener.hear(line)
        return lines
