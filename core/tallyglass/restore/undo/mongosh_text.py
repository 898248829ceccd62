"""A call as it is typed in mongosh, read as its name and arguments: literals, Extended JSON and the constructors of
types. Nothing is executed; what computes, or depends on the time, is refused."""

from __future__ import annotations

import re
import uuid
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, encode, json_util
from bson.errors import BSONError

_SPACE = re.compile(r"(?:\s+|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_KEY = re.compile(r"\d+|" + _NAME.pattern)
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?!0\d)(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity\b|NaN\b)")
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\$])*`', re.DOTALL)
_REGEX = re.compile(r"/((?:\\.|\[(?:\\.|[^\]\\\n])*+\]|[^/\\\n\[])++)/([a-z]*)")
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-9]+|\n|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_TYPED = json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL, tz_aware=True)


class MongoshCall(NamedTuple):
    """What is called on which collection, with arguments as BSON types. ``collection`` is empty where the text does not
    begin with ``db``: a variable may be any collection."""

    collection: str
    method: str
    arguments: list[Any]


def read_call(text: str) -> MongoshCall:
    """A call as typed, such as ``db.orders.deleteMany({a: 1});``. Raises ValueError for anything else, with the text
    from where it cannot be read."""
    reader = _StatementReader(text)
    try:
        found = _read_path(reader)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, BSONError):
        raise ValueError(reader.rest) from None
    try:
        encode({"": found.arguments})
    except (ValueError, OverflowError, RecursionError, BSONError):
        raise ValueError(text) from None  # BSON has no such value or name
    return found


def _read_path(reader: _StatementReader) -> MongoshCall:
    names, arguments = [reader.name()], None
    while arguments is None:
        if reader.accepts("."):
            names.append(reader.name())
        elif reader.accepts("["):
            names.append(_text(reader.value()))
            reader.expect("]")
        else:
            reader.expect("(")
            given = reader.values(")")
            if names[-1] in ("getSiblingDB", "getDB"):
                names.pop()
            elif names[-1] == "getCollection":
                names[-1] = _text(*given)
            else:
                arguments = given
    reader.accepts(";")
    if reader.rest:
        raise ValueError(reader.rest)
    return MongoshCall(".".join(names[1:-1]) if names[0] == "db" else "", names[-1], arguments)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


class _StatementReader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._go_to(0)

    def is_at(self, *texts: str) -> bool:
        """Whether one of some texts comes next."""
        return self._text.startswith(texts, self._at)

    @property
    def rest(self) -> str:
        """What is not read yet."""
        return self._text[self._at :]

    def accepts(self, text: str) -> bool:
        """Whether a text comes next, which is then read."""
        if not self.is_at(text):
            return False
        self._go_to(self._at + len(text))
        return True

    def expect(self, text: str) -> None:
        if not self.accepts(text):
            raise ValueError(self.rest)

    def name(self) -> str:
        return self._read(_NAME)[0]

    def values(self, end: str) -> list[Any]:
        """Values up to a bracket; a comma may follow the last."""
        found = []
        while not self.accepts(end):
            found.append(self.value())
            if not self.accepts(","):
                self.expect(end)
                break
        return found

    def value(self) -> Any:
        if self.accepts("{"):
            return self._document()
        if self.accepts("["):
            return self.values("]")
        if self.is_at('"', "'", "`"):
            return self._string()
        if self.is_at("/"):
            found = self._read(_REGEX)
            return Regex(found[1], found[2])
        if (number := _NUMBER.match(self._text, self._at)) is not None:
            self._go_to(number.end())
            return _number(number[0])
        begin, name = self._at, self.name()
        if name in _WORDS:
            return _WORDS[name]
        try:
            name = f"new {self.name()}" if name == "new" else name
            self.expect("(")
            return (_CONSTRUCTORS.get(name) or _CONSTRUCTORS[name.removeprefix("new ")])(*self.values(")"))
        except (ValueError, TypeError, LookupError, ArithmeticError, BSONError):
            self._at = begin  # the value as a whole is what cannot be read
            raise

    def _document(self) -> Any:
        found: dict[str, Any] = {}
        while not self.accepts("}"):
            name = self._string() if self.is_at('"', "'") else self._read(_KEY)[0]
            self.expect(":")
            found[name] = self.value()
            if not self.accepts(","):
                self.expect("}")
                break
        return json_util.object_hook(found, _TYPED)

    def _string(self) -> str:
        text = _ESCAPE.sub(_unescaped, self._read(_STRING)[0][1:-1])
        return text.encode("utf-16", "surrogatepass").decode("utf-16")  # of a pair of escapes one character

    def _read(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(self.rest)
        self._go_to(found.end())
        return found

    def _go_to(self, at: int) -> None:
        """To a place in the text, and past the space and the comments there."""
        space = _SPACE.match(self._text, at)
        self._at = space.end() if space else at


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "ux":
        return chr(int(code[1:].strip("{}"), 16))
    if code.isdigit() and code != "0":
        raise ValueError(code)  # an octal number
    return _ESCAPES.get(code, code)


def _number(text: str) -> int | float:
    """JavaScript has doubles alone: a long literal is rounded. One that begins with 0 may be octal: it is refused."""
    if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)", text):
        return float(text)
    found = int(text, 16 if "x" in text.lower() else 10)
    return found if abs(found) < 2**53 else float(found)


def _utc(text: str) -> datetime:
    """A time, in UTC unless it says otherwise."""
    found = datetime.fromisoformat(text)
    found = found.replace(microsecond=found.microsecond // 1_000 * 1_000)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _date(value: Any) -> datetime:
    """A ``new Date`` of milliseconds, or of a text. A day is in UTC; a time without a zone is local to whoever typed
    it, which is not known: raises ValueError."""
    if isinstance(value, int):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
    if len(value) > len("2026-01-02") and datetime.fromisoformat(value).tzinfo is None:
        raise ValueError(value)
    return _utc(value)


def _timestamp(seconds: Any, increment: int = 0) -> Timestamp:
    return Timestamp(seconds["t"], seconds["i"]) if isinstance(seconds, dict) else Timestamp(seconds, increment)


_CONSTRUCTORS: Mapping[str, Callable[..., Any]] = {
    "ObjectId": lambda text: ObjectId(text), "ISODate": _utc, "new Date": _date,
    **dict.fromkeys(("NumberInt", "Int32"), lambda value: int(value)), "Double": lambda value: float(value),
    **dict.fromkeys(("NumberLong", "Long"), lambda value: Int64(int(value))),
    **dict.fromkeys(("NumberDecimal", "Decimal128"), lambda value: Decimal128(str(value))),
    "UUID": lambda text: Binary.from_uuid(uuid.UUID(text)), "Timestamp": _timestamp,
    "BinData": lambda kind, text: Binary(b64decode(text), kind), "MinKey": MinKey, "MaxKey": MaxKey,
    "RegExp": Regex,
}  # fmt: skip
"""The constructors that mongosh has for types of BSON. None is called without the value that it needs; without ``new``,
``Date`` is the time of the call, whatever is given."""
