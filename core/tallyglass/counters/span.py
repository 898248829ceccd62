"""A length of time in words."""

from __future__ import annotations

_DAY = 86_400.0
_UNITS = ((_DAY, "days"), (3_600.0, "h"), (60.0, "min"))


def format_span(seconds: float) -> str:
    """A length of time in one unit: ``40 s``, ``3 h``, ``7 days``, ``4 years``."""
    if seconds >= 730 * _DAY:
        return f"{seconds / (365.25 * _DAY):.0f} years"
    for unit, name in _UNITS:
        if seconds >= unit * 0.995:
            count = seconds / unit
            text = f"{count:.0f}" if abs(count - round(count)) < 0.05 or count >= 10 else f"{count:.1f}"
            return f"{text} {'day' if text == '1' and name == 'days' else name}"
    return f"{seconds:.0f} s"
