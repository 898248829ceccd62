"""The crash report of the dashboard: the traceback without values, and advice."""

from __future__ import annotations

import traceback

from tallyglass.connection.secret import scrub
from tallyglass.text import clean_block

_ADVICE = "This is a defect of Tallyglass, not of your server. It only reads: nothing was changed there."
_FRAMES = 12
_LIMIT = 8_000


def crash_report(error: BaseException) -> str:
    """The trace of ``error`` without locals, scrubbed of every known secret, and safe to show."""
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_FRAMES)
    return clean_block(scrub("".join(lines))[-_LIMIT:]) + "\n" + _ADVICE
