"""The crash report of the dashboard: the traceback without values, and advice."""

from __future__ import annotations

import traceback

from tallyglass.connection.secret import scrub
from tallyglass.text import clean_block

_ADVICE = "This is a defect of Tallyglass, not of your server. It only reads: nothing was changed there."
_FRAMES = 12
"""The innermost frames of a traceback, which are shown: those above belong to Textual and asyncio."""

_LIMIT = 8_000
"""Characters of a report, some hundred lines of a terminal: the innermost frames are the last."""


def crash_report(error: BaseException | None) -> str:
    """The trace of ``error`` without locals, scrubbed of every known secret, and safe to show."""
    lines = traceback.format_exception(error, limit=-_FRAMES)
    return clean_block(scrub("".join(lines))[-_LIMIT:]) + "\n" + _ADVICE
