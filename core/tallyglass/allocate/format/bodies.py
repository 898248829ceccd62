"""How a number becomes text and back: decimal digits, Crockford's base 32, short codes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from sqids import Sqids

from tallyglass.allocate.engine.checks import whole
from tallyglass.counters.limits import INT64_MAX
from tallyglass.text import clean

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_READ_AS: Final = str.maketrans("OILoil", "011011")


class Body(Protocol):
    """A reversible way to write a number from 0 to 2^63 - 1."""

    @property
    def alphabet(self) -> str:
        """The characters that it uses."""

    def encode(self, number: int) -> str:
        """The text of a number. Raises ValueError if it does not fit."""

    def decode(self, text: str) -> int:
        """The number in a text made by :meth:`encode`. Raises ValueError for any other text."""


@dataclass(frozen=True, slots=True)
class Digits:
    """Decimal, with zeros in front up to ``width``. Longer numbers are refused, unless ``grow``."""

    alphabet = "0123456789"
    width: int = 1
    grow: bool = False

    def __post_init__(self) -> None:
        whole(self.width, "width", low=1, high=19)

    def encode(self, number: int) -> str:
        """The text of a number."""
        text = f"{_checked(number):0{self.width}d}"
        if len(text) > self.width and not self.grow:
            raise ValueError(f"the number {number} must not have more than {self.width} digits")
        return text

    def decode(self, text: str) -> int:
        """The number of a text."""
        if not (text.isascii() and text.isdigit()) or len(text) < self.width:
            raise _not_made_here(text)
        return _same(text, int(text), self)


@dataclass(frozen=True, slots=True)
class Crockford:
    """Crockford's base 32: no I, L, O and U, read without regard to case, 13 characters at most."""

    alphabet = _CROCKFORD
    width: int = 1
    grow: bool = False

    def __post_init__(self) -> None:
        whole(self.width, "width", low=1, high=13)

    def encode(self, number: int) -> str:
        """The text of a number."""
        rest, text = _checked(number), ""
        while rest or not text:
            rest, digit = divmod(rest, 32)
            text = _CROCKFORD[digit] + text
        text = text.rjust(self.width, "0")
        if len(text) > self.width and not self.grow:
            raise ValueError(f"the number {number} must not have more than {self.width} characters in base 32")
        return text

    def decode(self, text: str) -> int:
        """The number of a text; I and L are read as 1, O as 0."""
        plain = text.translate(_READ_AS).upper()
        # Some letters of other alphabets have capitals of this one.
        if not plain or not text.isascii() or any(letter not in _CROCKFORD for letter in plain):
            raise _not_made_here(text)
        number = 0
        for letter in plain:
            number = number * 32 + _CROCKFORD.index(letter)
        return _same(plain, number, self)


@dataclass(frozen=True, slots=True)
class ShortCode:
    """Short codes that do not reveal how many numbers were issued, by Sqids (https://sqids.org): ``Lqj8a0``.

    Shuffle the ``alphabet`` once and keep it: another order cannot decode the codes. It hides the count from readers,
    not from an attacker who collects codes; where that matters, take
    :class:`~tallyglass.allocate.insert.random_ids.RandomIds`.
    """

    alphabet: str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    width: int = 6
    _sqids: Sqids = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole(self.width, "width", low=1, high=255)
        object.__setattr__(self, "_sqids", Sqids(alphabet=self.alphabet, min_length=self.width))

    def encode(self, number: int) -> str:
        """The text of a number."""
        return str(self._sqids.encode([_checked(number)]))

    def decode(self, text: str) -> int:
        """The number of a text."""
        numbers = self._sqids.decode(text)
        if len(numbers) != 1 or numbers[0] > INT64_MAX:
            raise _not_made_here(text)
        return _same(text, int(numbers[0]), self)


def _checked(number: int) -> int:
    return whole(number, "the number", low=0)


def _same(text: str, number: int, body: Body) -> int:
    """The number, if it encodes to the same text again: each number has exactly one text."""
    try:
        same = number <= INT64_MAX and body.encode(number) == text
    except ValueError:
        same = False
    if not same:
        raise _not_made_here(text)
    return number


def _not_made_here(text: str) -> ValueError:
    return ValueError(f"{clean(repr(text), 60)} is not a number in this format")
