"""A length of time in words."""

from __future__ import annotations

from tallyglass.counters.forecast.series import DAY, HOUR

_UNITS = ((DAY, "days"), (HOUR, "h"), (60.0, "min"))  # seconds


def format_span(seconds: float) -> str:
    """A length of time in one unit: ``40 s``, ``3 h``, ``7 days``, ``4 years``."""
    if seconds >= 730 * DAY:
        return f"{seconds / (365.25 * DAY):.0f} years"
    for unit, name in _UNITS:
        if seconds >= unit * 0.995:
            count = seconds / unit
            text = f"{count:.0f}" if abs(count - round(count)) < 0.05 or count >= 10 else f"{count:.1f}"
            return f"{text} {'day' if text == '1' and name == 'days' else name}"
    return f"{seconds:.0f} s"
