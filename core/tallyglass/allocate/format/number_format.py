"""One format of numbers: ``INV-2026-000042-7`` is a prefix, a date, a body and a check digit. Pure and reversible."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from datetime import date as Date
from typing import Final

from tallyglass.allocate.format.bodies import Body, Digits
from tallyglass.allocate.format.check_digits import CheckDigit
from tallyglass.text import clean

_DIRECTIVES: Final = {"%Y": 4, "%y": 2, "%m": 2, "%d": 2, "%j": 3}
_LIMITS: Final = {"%m": (1, 12), "%d": (1, 31), "%j": (1, 366)}
_SIX_DIGITS: Final = Digits(6)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed number: the ``number``, and the ``period`` as it is written, empty without a date part."""

    number: int
    period: str = ""


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """``prefix``, ``date``, ``body`` and ``check``, with ``separator`` between them.

    ``date`` is made of %Y, %y, %m, %d and %j, such as ``%Y%m``: each has a fixed length, so that it can be read again.
    The check digit covers date and body; a prefix is not covered. Raises ValueError for incompatible parts.
    """

    prefix: str = ""
    date: str = ""
    body: Body = _SIX_DIGITS
    check: CheckDigit | None = None
    separator: str = "-"

    def __post_init__(self) -> None:
        if re.sub("|".join(_DIRECTIVES), "", self.date):
            raise ValueError(f"date must be made of {', '.join(_DIRECTIVES)} alone, not {clean(repr(self.date), 40)}")
        self.format(0)

    def period(self, when: Date) -> str:
        """The date part of a day: also a period for :meth:`tallyglass.allocate.Counters.of`."""
        return when.strftime(self.date)

    def format(self, number: int, when: Date | None = None) -> str:
        """The text of ``number`` on the day ``when`` (default: today, UTC). Raises ValueError if it does not fit."""
        period = self.period(when or datetime.now(UTC)) if self.date else ""
        body = self.body.encode(number)
        parts = (self.prefix, period, body, self._check(period, body))
        return self.separator.join(part for part in parts if part)

    def parse(self, text: str) -> Parsed:
        """The number and period of a text in this format. Raises ValueError for any other, and a wrong check digit."""
        rest = self._without(text, self.prefix, text) if self.prefix else text
        width = sum(_DIRECTIVES[directive] for directive in re.findall("%.", self.date))
        period = rest[:width]
        if width:
            if len(period) < width or not (period.isascii() and period.isdigit() and self._is_dated(period)):
                raise self._refused(text)
            rest = self._without(rest, period, text)
        if self.check is not None:
            at = len(rest) - self.check.length
            body, check = rest[:at].removesuffix(self.separator), rest[at:]
            if at < 1 or rest[:at] != body + self.separator or not check.isascii():
                raise self._refused(text)
        else:
            body, check = rest, ""
        number = self.body.decode(body)
        if self._check(period, self.body.encode(number)) != (check.upper() if self.body.alphabet.isupper() else check):
            raise ValueError(f"The check digit of {clean(repr(text), 60)} is wrong: the number may be mistyped.")
        return Parsed(number, period)

    def _check(self, period: str, body: str) -> str:
        return self.check.of(period + body, self.body.alphabet) if self.check else ""

    def _is_dated(self, period: str) -> bool:
        at = 0
        for directive in re.findall("%.", self.date):
            part = int(period[at : at + _DIRECTIVES[directive]])
            at += _DIRECTIVES[directive]
            low, high = _LIMITS.get(directive, (0, part))
            if not low <= part <= high:
                return False
        return True

    def _without(self, text: str, start: str, whole: str) -> str:
        if not text.startswith(start + self.separator):
            raise self._refused(whole)
        return text[len(start) + len(self.separator) :]

    def _refused(self, text: str) -> ValueError:
        return ValueError(f"{clean(repr(text), 60)} is not in the format of {self.format(0)}")
