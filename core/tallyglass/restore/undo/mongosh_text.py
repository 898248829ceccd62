"""A call as it is typed in mongosh, read as its name and arguments: literals, Extended JSON and the constructors of
types. Nothing is executed; what computes, or depends on the time, is refused."""

from __future__ import annotations

import re
import uuid
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, json_util

_SPACE = re.compile(r"(?:\s+|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity\b|NaN\b)")
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\$])*`', re.DOTALL)
_REGEX = re.compile(r"/((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+)/([a-z]*)")
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\n|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_TYPED = json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL, tz_aware=True)


def read_call(text: str) -> tuple[str, list[Any]]:
    """The method that is called last, and its arguments as BSON types: ``db.orders.deleteMany({a: 1});`` is
    ``("deleteMany", [{"a": 1}])``. Calls before it name a database or a collection. Raises ValueError for anything
    else."""
    reader = _StatementReader(text)
    path = [reader.name()]
    arguments: list[Any] | None = None
    while True:
        if reader.accepts("."):
            path, arguments = [*path, reader.name()], None
        elif reader.accepts("["):
            reader.value()
            reader.expect("]")
            path, arguments = [*path, ""], None
        elif reader.accepts("("):
            arguments = reader.values(")")
            if path[-1] not in ("getSiblingDB", "getCollection", "getDB") or not reader.is_at("."):
                break
        else:
            break
    reader.accepts(";")
    if arguments is None or not reader.is_at_end():
        raise ValueError(text)
    return path[-1], arguments


class _StatementReader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._pass_space()

    def is_at(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def is_at_end(self) -> bool:
        return self._at == len(self._text)

    def accepts(self, text: str) -> bool:
        """Whether a text comes next, which is then read."""
        if not self.is_at(text):
            return False
        self._at += len(text)
        self._pass_space()
        return True

    def expect(self, text: str) -> None:
        if not self.accepts(text):
            raise ValueError(f"{text} is missing")

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
        if self.is_at('"') or self.is_at("'") or self.is_at("`"):
            return self._string()
        if self.is_at("/"):
            found = self._read(_REGEX)
            return Regex(found[1], found[2])
        if (number := _NUMBER.match(self._text, self._at)) is not None:
            self._advance(number)
            return _number(number[0])
        name = self.name()
        if name in _WORDS:
            return _WORDS[name]
        name = self.name() if name == "new" else name
        self.expect("(")
        return _CONSTRUCTORS[name](*self.values(")"))

    def _document(self) -> Any:
        found: dict[str, Any] = {}
        while not self.accepts("}"):
            if self.is_at('"') or self.is_at("'"):
                name = self._string()
            else:
                name = self._read(re.compile(r"\d+|" + _NAME.pattern))[0]
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
            raise ValueError(self._text[self._at : self._at + 20])
        self._advance(found)
        return found

    def _advance(self, found: re.Match[str]) -> None:
        self._at = found.end()
        self._pass_space()

    def _pass_space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "ux" and len(code) > 1:
        return chr(int(code[1:].strip("{}"), 16))
    return _ESCAPES.get(code, code)


def _number(text: str) -> int | float:
    """JavaScript has doubles alone: a long literal is rounded."""
    if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)", text):
        return float(text)
    found = int(text, 16 if "x" in text.lower() else 10)
    return found if abs(found) < 2**53 else float(found)


def _integer(value: int | str) -> int:
    return int(value)


def _date(value: Any) -> datetime:
    """Raises TypeError without a time, which would be that of the call."""
    if isinstance(value, int):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
    found = datetime.fromisoformat(value)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _timestamp(seconds: Any, increment: int = 0) -> Timestamp:
    return Timestamp(seconds["t"], seconds["i"]) if isinstance(seconds, dict) else Timestamp(seconds, increment)


def _decimal(value: Any) -> Decimal128:
    return Decimal128(str(value))


_CONSTRUCTORS: Mapping[str, Callable[..., Any]] = {
    "ObjectId": lambda text: ObjectId(text), "ISODate": _date, "Date": _date,
    "NumberInt": _integer, "Int32": _integer, "NumberLong": lambda value: Int64(int(value)),
    "Long": lambda value: Int64(int(value)), "Double": float, "NumberDecimal": _decimal, "Decimal128": _decimal,
    "UUID": lambda text: Binary.from_uuid(uuid.UUID(text)), "Timestamp": _timestamp,
    "BinData": lambda kind, text: Binary(b64decode(text), kind), "MinKey": MinKey, "MaxKey": MaxKey,
    "RegExp": Regex,
}  # fmt: skip
"""The constructors that mongosh has for types of BSON. None is called without the value that it needs."""
