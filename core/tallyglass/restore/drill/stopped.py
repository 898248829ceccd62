"""Why the script of a drill stopped, from what it printed."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

from tallyglass.errors import TallyglassError
from tallyglass.restore.drill.report import UNKNOWN
from tallyglass.restore.model.check import Level
from tallyglass.text import clean

_MOST_BYTES = 200_000
"""Of the end of the log: far more than a failed step prints."""
_LAST_LINES = 20
"""What fits on one screen of the report."""
_LEAST_FREE = 64 * 2**20
"""With less room on the disk, the script may not have been able to write its reason."""

# Not at the beginning of a line alone: a tool that is killed leaves its last line without an end.
_STOPPED = re.compile(r"STOPPED: (?:\[([a-z-]+)\] )?(.*)$", re.MULTILINE)
_BLOCKED = re.compile(r"^blocked +(.*)$", re.MULTILINE)
_BEGUN = re.compile(r"^  left:  .*$", re.MULTILINE)
"""What the script says last before a step begins."""


class Failed(TallyglassError):
    """The drill failed: ``check`` names the reason; ``level`` is block, or unknown if nothing was proved; ``output`` is
    the end of what the failed step printed."""

    def __init__(
        self, check: str, title: str, advice: str = "", *, level: str = Level.BLOCK.value, output: tuple[str, ...] = ()
    ) -> None:
        super().__init__(title, advice)
        self.check = check
        self.level = level
        self.output = output


def why_stopped(log: Path, phase: str, status: int) -> Failed:
    """The reason that the script gave in ``log``; otherwise what its exit status says, negative for a signal."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MOST_BYTES))
        output = file.read().decode(errors="replace")
    stopped = list(_STOPPED.finditer(output))
    last = _last_lines(output, stopped[-1].start() if stopped else len(output))
    if not stopped:
        return _without_reason(log, phase, status, last)
    name, title = stopped[-1].groups()
    failed = name in (None, "step-failed", "check-failed")
    advice = " ".join(clean(one, 200) for one in _BLOCKED.findall(output)[:3]) or _last_line(last)
    return Failed(f"drill-{phase}" if failed else name, clean(title, 300), advice if failed else "", output=last)


def _without_reason(log: Path, phase: str, status: int, last: tuple[str, ...]) -> Failed:
    number = -status if status < 0 else status - 128
    if number in signal.valid_signals():
        word = signal.Signals(number).name
        advice = "The system does that to a process when memory runs out." if number == signal.SIGKILL else ""
        title = f"The script was ended from outside ({word}) in the phase {phase}."
        return Failed("killed", title, advice, level=UNKNOWN, output=last)
    if shutil.disk_usage(log.parent).free < _LEAST_FREE:
        return Failed("disk", f"The disk of {clean(str(log.parent))} is full.", "Give another one (--work-dir).")
    title = f"The script ended with status {status} in the phase {phase}."
    return Failed(f"drill-{phase}", title, _last_line(last), output=last)


def _last_line(last: tuple[str, ...]) -> str:
    return f"Its last line: {last[-1]}" if last else "It printed nothing."


def _last_lines(output: str, end: int) -> tuple[str, ...]:
    """The last lines before ``end`` that the running step printed, safe to show."""
    begun = [found.end() for found in _BEGUN.finditer(output, 0, end)]
    lines = [line for line in output[begun[-1] if begun else 0 : end].splitlines() if line.strip()]
    return tuple(clean(line, 300) for line in lines[-_LAST_LINES:])
