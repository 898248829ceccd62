"""Frozen dataclasses as JSON, and back. Timestamps are ``"t:i"``, times ISO 8601 in UTC, names those of the fields."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from tallyglass.moment import Ts, iso, parse_iso, parse_ts
from tallyglass.text import clean


class Misfit(Exception):
    """Why a value does not fit."""


def plain(value: Any, packed: bool = False) -> Any:
    """A value as JSON can write it. ``packed`` makes tables of lists of like objects."""
    if isinstance(value, Ts):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), packed) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        items = [plain(item, packed) for item in value]
        return _table(items) if packed and len(items) > 1 and is_dataclass(value[0]) else items
    return value


_TABLE = frozenset({"same", "begin", "after", "columns", "rows"})


def _table(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Objects with the same fields, as rows.

    A field that most of them have alike is in ``same``: a row is cut short where the rest of it is as there. Where all
    begin with the same database in their first field, it is in ``begin``. A text that begins with the first field is
    stored without it: ``after`` says which field it continues.
    """
    key, *others = items[0]
    after = {name: key for name in others if all(_continues(item, name, key) for item in items)}
    begin = _common_database(items, key)
    rest = [_without_starts(item, begin, after) for item in items]
    same = _most_common_values(rest)
    columns = [name for name in rest[0] if name not in same]
    columns += [name for name in same if any(item[name] != same[name] for item in rest)]
    rows = [_row(item, columns, same) for item in rest]
    return {"same": same, "begin": begin, "after": after, "columns": columns, "rows": rows}


def _common_database(items: Sequence[Mapping[str, Any]], key: str) -> dict[str, str]:
    """By ``key``, the database of all namespaces there, with the dot; empty if there are several, or other values."""
    first = items[0][key]
    begin = first[: first.find(".") + 1] if isinstance(first, str) else ""
    return {key: begin} if begin and all(str(item[key]).startswith(begin) for item in items) else {}


def _continues(item: Mapping[str, Any], name: str, key: str) -> bool:
    value, start = item[name], item[key]
    return isinstance(value, str) and isinstance(start, str) and value.startswith(start) and start != ""


def _without_starts(item: Mapping[str, Any], begin: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Any]:
    """The fields without the starts of their texts that a table has in ``begin`` and ``after``."""
    starts = {**begin, **{name: item[key] for name, key in after.items()}}
    return {name: value[len(starts[name]) :] if name in starts else value for name, value in item.items()}


def _most_common_values(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By field, the value that more than half of them have."""
    counts = {name: Counter(json.dumps(item[name]) for item in items).most_common(1)[0] for name in items[0]}
    return {name: json.loads(value) for name, (value, count) in counts.items() if count * 2 > len(items)}


def _row(item: Mapping[str, Any], columns: Sequence[str], same: Mapping[str, Any]) -> list[Any]:
    length = len(columns)
    while length and columns[length - 1] in same and item[columns[length - 1]] == same[columns[length - 1]]:
        length -= 1
    return [item[name] for name in columns[:length]]


def _from_table(table: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    same, begin, after, columns, rows = (table[name] for name in ("same", "begin", "after", "columns", "rows"))
    if not all(isinstance(one, Mapping) for one in (same, begin, after)) or not isinstance(columns, list):
        _misfit(where)
    if not (isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
        _misfit(where)
    found = []
    for row in rows:
        if len(row) > len(columns) or any(name not in same for name in columns[len(row) :]):
            raise Misfit(f"{where} has a row that is not as long as its columns")
        item = {**same, **dict(zip(columns, row, strict=False))}
        for name, start in begin.items():
            item[name] = _joined(start, item.get(name), where)
        for name, start in after.items():
            item[name] = _joined(item.get(start), item.get(name), where)
        found.append(item)
    return found


def _joined(start: Any, end: Any, where: str) -> str:
    if not (isinstance(start, str) and isinstance(end, str)):
        _misfit(where)
    return start + end


def built(kind: Any, value: Any, where: str) -> Any:
    """A value of an annotated type from its JSON form; nothing is filled in. ``where`` names it in an error.

    Raises Misfit, ValueError, TypeError or InputError where it does not fit.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of(arguments, value, where)
    if origin is frozenset:
        return frozenset(_items(arguments[0], value, where))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(_each(arguments, value, where))
    if origin is tuple:
        is_table = isinstance(value, Mapping) and value.keys() == _TABLE
        return tuple(_items(arguments[0], _from_table(value, where) if is_table else value, where))
    if kind in _READERS:
        return _READERS[kind](value) if isinstance(value, str) else _misfit(where)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*_each(tuple(get_type_hints(kind).values()), value, where))
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    wanted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        _misfit(where)
    return value


def _one_of(kinds: Sequence[Any], value: Any, where: str) -> Any:
    if value is None:
        return None if NoneType in kinds else _misfit(where)
    present = [one for one in kinds if one is not NoneType]
    if isinstance(value, Mapping):  # records are told apart by the names of their fields
        present.sort(key=lambda one: not (is_dataclass(one) and get_type_hints(one).keys() == value.keys()))
    return built(float if float in present else present[0], value, where)


def _items(kind: Any, value: Any, where: str) -> list[Any]:
    return [built(kind, item, where) for item in (value if isinstance(value, list) else _misfit(where))]


def _each(kinds: Sequence[Any], value: Any, where: str) -> list[Any]:
    """The items of a tuple of fixed length, each of its own type."""
    if not isinstance(value, list) or len(value) != len(kinds):
        _misfit(where)
    return [built(kind, item, where) for kind, item in zip(kinds, value, strict=True)]


def _object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        _misfit(where)
    hints = get_type_hints(kind)
    for name in hints:
        if name not in value:
            raise Misfit(f"{where} lacks {name}")
    for name in value:
        if name not in hints:
            raise Misfit(f"{where} has {clean(str(name), 40)}, which is not known")
    make: Callable[..., Any] = kind
    return make(**{name: built(hint, value[name], name) for name, hint in hints.items()})


def _misfit(where: str) -> NoReturn:
    raise Misfit(f"{where} is not of the right type")


_READERS: dict[Any, Callable[[str], Any]] = {Ts: parse_ts, datetime: parse_iso, Path: Path, bytes: bytes.fromhex}
