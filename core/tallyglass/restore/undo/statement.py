"""The statement that a person says was run, applied to a document: what its filter finds, and what its update leaves.

What is not evaluated here is said to be unknown; nothing is guessed. Numbers are compared by value: a text as typed
does not tell 1 from 1.0.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import isnan
from typing import Any

import bson
from bson import Decimal128, ObjectId
from bson.datetime_ms import DatetimeMS
from bson.errors import BSONError

from tallyglass.restore.backup.bson_file import decode

_MISSING: Any = object()
_EXACT = 2**53
"""Up to here a double holds every whole number."""
_DATES = (datetime, DatetimeMS)
"""What a date is decoded as: the second after the year 9999."""
Document = dict[str, Any]


class _UnknownError(Exception):
    """A part of a statement that is not evaluated here, or that does not fit a document."""


_UNKNOWN = (
    _UnknownError, BSONError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
)  # fmt: skip
"""What is raised for a statement that no server would run, too."""


@dataclass(frozen=True, slots=True)
class TypedStatement:
    """A filter, and the update of what it finds: operators, or the stages of a pipeline. None for a delete. Where a
    ``collation`` compares texts, whether two are equal is not known here. ``collection`` is the one that the text
    names, empty for none."""

    query: Mapping[str, Any]
    update: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    collation: bool = False
    collection: str = ""

    def explains(self, before: bytes, after: bytes | None) -> bool | None:
        """Whether it leaves ``after`` (None for no document) where there was ``before``; None where that is unknown."""
        bytewise = self.update is None or (isinstance(self.update, Mapping) and self.update.keys() <= _BYTEWISE)
        if self.collation and (_has_text(self.query) or not bytewise):
            return None
        try:
            document = decode(before)
            if not _matches(document, self.query):
                return False
            if self.update is None or after is None:
                return (self.update is None) is (after is None)
            self._update(document)
            return is_equal(document, decode(after), ordered=False)
        except _UNKNOWN:
            return None

    def _update(self, document: Document) -> None:
        assert self.update is not None
        if isinstance(self.update, Mapping):
            for name, fields in self.update.items():
                for path, argument in fields.items():
                    _lookup(_OPERATORS, name)(document, path, argument)
            return
        for stage in self.update:
            ((name, fields),) = stage.items()
            if name == "$unset":
                for path in [fields] if isinstance(fields, str) else fields:
                    _put(document, path, _MISSING)
                continue
            if name not in ("$set", "$addFields"):
                raise _UnknownError(name)
            values = {path: _evaluate(document, how) for path, how in assigned(fields)}
            for path, value in values.items():
                if value is _MISSING and "." in path:
                    raise _UnknownError(path)  # the document around it is made all the same
                _put(document, path, value if value is _MISSING else copy.deepcopy(value))


def assigned(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """What a ``$set`` of a pipeline sets, by path: a document in it does not replace the one that is there, each of its
    fields is set in that."""
    for name, how in fields.items():
        if isinstance(how, Mapping) and how and not any(one.startswith("$") for one in how):
            yield from assigned(how, f"{above}{name}.")
        else:
            yield above + name, how


_BYTEWISE = frozenset({"$set", "$unset", "$inc", "$mul", "$rename", "$push", "$pop", "$setOnInsert"})
"""The operators that compare no values, by a collation or without one."""


def _has_text(value: Any) -> bool:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return isinstance(value, str) or any(map(_has_text, parts))


def _lookup(table: Mapping[Any, Any], name: Any) -> Any:
    if name not in table:
        raise _UnknownError(name)
    return table[name]


def is_equal(one: Any, other: Any, *, ordered: bool = True) -> bool:
    """Whether two values are equal: numbers by value, whatever their types. To the server, documents are only where
    their fields have the same order."""
    if _is_number(one) or _is_number(other):
        if not (_is_number(one) and _is_number(other)):
            return False
        return _is_nan(other) if _is_nan(one) else bool(_exact(one) == _exact(other))
    if isinstance(one, dict) and isinstance(other, dict):
        alike = list(one) == list(other) if ordered else one.keys() == other.keys()
        return alike and all(is_equal(part, other[name], ordered=ordered) for name, part in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(partial(is_equal, ordered=ordered), one, other))
    return one == other if type(one) is type(other) is str else _encoded(one) == _encoded(other)


def _encoded(value: Any) -> bytes:
    return bson.encode({"": value})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal128)) and not isinstance(value, bool)


def _is_nan(value: Any) -> bool:
    return value.to_decimal().is_nan() if isinstance(value, Decimal128) else isinstance(value, float) and isnan(value)


def _exact(value: Any) -> Any:
    """A value that Python compares as the server does, decimals and years after 9999 too. Raises for NaN, which the
    server sorts before all numbers."""
    if _is_nan(value):
        raise _UnknownError("NaN")
    if isinstance(value, datetime):
        return DatetimeMS(value)
    return value.to_decimal() if isinstance(value, Decimal128) else value


def _binary(number: Any) -> Any:
    """A number with which the server computes as Python does. It rounds decimals in its own way."""
    if not _is_number(number) or isinstance(number, Decimal128):
        raise _UnknownError("no number to compute with")
    return number


def _get(document: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(document, list):
            raise _UnknownError(path)
        if not isinstance(document, dict) or name not in document:
            return _MISSING
        document = document[name]
    return document


def _put(document: Document, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    home: Any = document
    for name in parents:
        if value is _MISSING and name not in home:
            return
        home = home.setdefault(name, {})
        if not isinstance(home, dict):
            raise _UnknownError(path)
    if value is _MISSING:
        home.pop(last, None)
    else:
        home[last] = value


# Filters


def _matches(document: Document, query: Mapping[str, Any]) -> bool:
    for name, condition in query.items():
        if name in ("$and", "$or", "$nor"):
            found = [_matches(document, one) for one in condition]
            if (all(found) if name == "$and" else any(found)) is (name == "$nor"):
                return False
        elif name.startswith("$"):
            raise _UnknownError(name)
        elif not _meets(list(_values(document, name.split("."))), condition):
            return False
    return True


def _values(held: Any, names: list[str]) -> Iterator[Any]:
    """The values at a path, of each document in an array on the way; ``_MISSING`` for each that has none."""
    if not names:
        yield held
    elif isinstance(held, list):
        if names[0].isdigit():
            raise _UnknownError(names[0])
        yield from (value for part in held if isinstance(part, dict) for value in _values(part, names))
    elif isinstance(held, dict) and names[0] in held:
        yield from _values(held[names[0]], names[1:])
    else:
        yield _MISSING


def _meets(values: list[Any], condition: Any) -> bool:
    if not (isinstance(condition, dict) and any(name.startswith("$") for name in condition)):
        return _equals_any(values, condition)
    return all(_test(values, name, operand) for name, operand in condition.items())


def _test(values: list[Any], name: str, operand: Any) -> bool:
    match name:
        case "$exists":
            return any(one is not _MISSING for one in values) is bool(operand)
        case "$eq":
            return _equals_any(values, operand)
        case "$ne":
            return not _equals_any(values, operand)
        case "$in":
            return any(_equals_any(values, one) for one in operand)
        case "$nin":
            return not any(_equals_any(values, one) for one in operand)
        case "$not":
            return not _meets(values, operand)
        case "$gt" | "$gte" | "$lt" | "$lte":
            compare, bound = _COMPARE[name], _exact(_ordered(operand))
            alike = (one for one in _parts(values) if _is_alike(one, operand) and not _is_nan(one))
            return any(compare(_exact(one), bound) for one in alike)
    raise _UnknownError(name)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq, "$ne": operator.ne, "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt,
    "$lte": operator.le,
}  # fmt: skip


def _parts(values: list[Any]) -> Iterator[Any]:
    for value in values:
        yield value
        if isinstance(value, list):
            yield from value


def _equals_any(values: list[Any], wanted: Any) -> bool:
    if isinstance(wanted, bson.Regex):
        raise _UnknownError("$regex")
    return any(wanted is None if one is _MISSING else is_equal(one, wanted) for one in _parts(values))


def _is_alike(one: Any, other: Any) -> bool:
    """Whether a filter compares two values."""
    if _is_number(_ordered(other)):
        return _is_number(one)
    return isinstance(one, _DATES) if isinstance(other, _DATES) else type(one) is type(other)


def _ordered(value: Any) -> Any:
    """A value of a type that is put in order here. Raises for another."""
    if _is_number(value) or isinstance(value, (str, *_DATES, ObjectId)):
        return value
    raise _UnknownError(type(value).__name__)


# Updates


def _calculation(calculate: Callable[[Any, Any], Any]) -> Callable[[Document, str, Any], None]:
    def change(document: Document, path: str, number: Any) -> None:
        held = _get(document, path)
        _put(document, path, calculate(0 if held is _MISSING else _binary(held), _binary(number)))

    return change


def _extreme(better: Callable[[Any, Any], bool]) -> Callable[[Document, str, Any], None]:
    def change(document: Document, path: str, value: Any) -> None:
        held = _get(document, path)
        if held is not _MISSING and not _is_alike(held, value):
            raise _UnknownError(path)
        if held is _MISSING or better(_exact(value), _exact(held)):
            _put(document, path, value)

    return change


def _array(document: Document, path: str) -> list[Any]:
    held = _get(document, path)
    if held is not _MISSING and not isinstance(held, list):
        raise _UnknownError(path)
    return [] if held is _MISSING else held


def _push(document: Document, path: str, value: Any) -> None:
    if isinstance(value, dict) and "$each" in value:
        raise _UnknownError("$each")
    _put(document, path, [*_array(document, path), value])


def _add_to_set(document: Document, path: str, value: Any) -> None:
    if not any(is_equal(one, value) for one in _array(document, path)):
        _push(document, path, value)


def _pull(document: Document, path: str, value: Any) -> None:
    if isinstance(value, (dict, list, bson.Regex)):
        raise _UnknownError("$pull")
    if _get(document, path) is not _MISSING:
        rest = [one for one in _array(document, path) if not is_equal(one, value)]
        _put(document, path, rest)


def _pop(document: Document, path: str, end: Any) -> None:
    if _get(document, path) is not _MISSING:
        held = _array(document, path)
        _put(document, path, held[:-1] if end > 0 else held[1:])


def _rename(document: Document, path: str, to: str) -> None:
    held = _get(document, path)
    if held is not _MISSING:
        _put(document, path, _MISSING)
        _put(document, to, held)


_OPERATORS: dict[str, Callable[[Document, str, Any], None]] = {
    "$set": lambda document, path, value: _put(document, path, copy.deepcopy(value)),
    "$unset": lambda document, path, _: _put(document, path, _MISSING),
    "$inc": _calculation(operator.add), "$mul": _calculation(operator.mul),
    "$min": _extreme(operator.lt), "$max": _extreme(operator.gt), "$push": _push, "$addToSet": _add_to_set,
    "$pull": _pull, "$pop": _pop, "$rename": _rename, "$setOnInsert": lambda *_: None,
}  # fmt: skip


# Expressions of pipelines


def _evaluate(document: Document, how: Any) -> Any:
    if isinstance(how, str) and how.startswith("$"):
        if how.startswith("$$"):
            raise _UnknownError(how)
        return _get(document, how[1:])
    if isinstance(how, list):
        return [None if (value := _evaluate(document, one)) is _MISSING else value for one in how]
    if not isinstance(how, dict):
        return how
    if not any(name.startswith("$") for name in how):
        fields = {name: _evaluate(document, part) for name, part in how.items()}
        return {name: value for name, value in fields.items() if value is not _MISSING}
    ((name, argument),) = how.items()
    if name == "$literal":
        return argument
    if name == "$cond":
        chosen = argument if isinstance(argument, list) else [argument[one] for one in ("if", "then", "else")]
        return _evaluate(document, chosen[1 if _is_true(_evaluate(document, chosen[0])) else 2])
    values = [_evaluate(document, one) for one in (argument if isinstance(argument, list) else [argument])]
    return _lookup(_EXPRESSIONS, name)(values)


def _is_true(value: Any) -> bool:
    if _is_number(value):
        return _is_nan(value) or bool(_exact(value) != 0)
    return not _is_null(value) and value is not False


def _of_numbers(calculate: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    def evaluate(values: list[Any]) -> Any:
        result, *rest = numbers = [_binary(value) for value in values]
        if any(isinstance(one, float) for one in numbers) and (rest[1:] or any(abs(one) > _EXACT for one in numbers)):
            raise _UnknownError("a sum that the server rounds in its own way")
        for value in rest:
            result = calculate(result, value)
        return result

    return _unless_null(evaluate)


def _unless_null(evaluate: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: None if any(map(_is_null, values)) else evaluate(values)


def _is_null(value: Any) -> bool:
    return value is _MISSING or value is None


_TYPES: dict[type, str] = {
    type(_MISSING): "missing", str: "string", bool: "bool", float: "double", list: "array", dict: "object",
    ObjectId: "objectId",
}  # fmt: skip


def _comparison(name: str) -> Callable[[list[Any]], bool]:
    def evaluate(values: list[Any]) -> bool:
        one, other = values
        if name in ("$eq", "$ne"):
            alike = one is other if _MISSING in (one, other) else is_equal(one, other)
            return alike is (name == "$eq")
        if not _is_alike(one, other):
            raise _UnknownError("values of two types")
        return _COMPARE[name](_exact(one), _exact(other))

    return evaluate


_EXPRESSIONS: dict[str, Callable[[list[Any]], Any]] = {
    "$add": _of_numbers(operator.add), "$subtract": _of_numbers(operator.sub), "$multiply": _of_numbers(operator.mul),
    "$concat": _unless_null("".join), "$isNumber": lambda values: _is_number(values[0]),
    "$type": lambda values: _lookup(_TYPES, type(values[0])),
    "$ifNull": lambda values: next((one for one in values if not _is_null(one)), values[-1]),
    "$and": lambda values: all(map(_is_true, values)), "$or": lambda values: any(map(_is_true, values)),
    "$not": lambda values: not _is_true(values[0]), **{name: _comparison(name) for name in _COMPARE},
}  # fmt: skip
