"""Check digits, computed by python-stdnum: they detect typing errors. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stdnum import damm, luhn
from stdnum.iso7064 import mod_97_10


class CheckDigit(Protocol):
    """Check characters that follow a text."""

    @property
    def length(self) -> int:
        """How many characters they are."""

    def of(self, text: str, alphabet: str) -> str:
        """The check characters of a text over an alphabet. Raises ValueError if the two are incompatible."""


@dataclass(frozen=True, slots=True)
class Luhn:
    """One character: detects every single error and nearly every transposition, in any alphabet of even size."""

    length = 1

    def of(self, text: str, alphabet: str) -> str:
        """The check character of a text."""
        if len(alphabet) % 2:
            raise ValueError("Luhn needs an alphabet with an even number of characters")
        return str(luhn.calc_check_digit(text, alphabet))


@dataclass(frozen=True, slots=True)
class Damm:
    """One digit: detects every single error and every transposition, in decimal digits."""

    length = 1

    def of(self, text: str, alphabet: str) -> str:
        """The check digit of a text."""
        if alphabet != "0123456789":
            raise ValueError("Damm needs decimal digits")
        return str(damm.calc_check_digit(text))


@dataclass(frozen=True, slots=True)
class Mod97:
    """Two digits, ISO 7064 mod 97-10 as in an IBAN: detects single errors, transpositions and most double errors.

    A letter counts as two digits, so one typed in place of a digit, or the reverse, passes about once in 97 times.
    """

    length = 2

    def of(self, text: str, alphabet: str) -> str:
        """The two check digits of a text."""
        if alphabet.upper() != alphabet:
            raise ValueError("ISO 7064 needs digits and capital letters")
        return str(mod_97_10.calc_check_digits(text))
