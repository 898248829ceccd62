"""A plan as one JSON document, and back. Timestamps are ``"t:i"``, times ISO 8601 in UTC, names as designed."""

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

from tallyglass.errors import InputError
from tallyglass.moment import Ts, iso, parse_iso, parse_ts
from tallyglass.restore.model.plan import Plan
from tallyglass.text import clean

FORMAT = 7
"""The version of the document. It changes with every field that is added, removed or read in another way."""

_ADDED = frozenset({"format", "level"})
"""Fields of the document that are not of the plan."""


def to_json(plan: Plan, indent: int | None = None, *, packed: bool = False) -> str:
    """The plan as ASCII JSON: ``format, point, start, limit, checks, commands, loss, reissue`` and all else it
    holds. ``packed`` writes long lists of like objects as tables, for the plan's folder."""
    document = {"format": FORMAT} | _plain(plan, packed) | {"level": plan.level.value}
    return json.dumps(document, ensure_ascii=True, indent=indent, separators=(",", ":") if packed else None)


def from_json(text: str) -> Plan:
    """The plan that :func:`to_json` wrote. Raises InputError for anything else: another format, a field that is missing
    or not known, a value of the wrong type. Nothing is filled in: a plan without its expectations would verify
    nothing."""
    advice = "Write one with tallyglass restore plan --json."
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("That file is not a plan.", advice) from None
    if not isinstance(document, Mapping) or "limit" not in document:
        raise InputError("That file is not a plan.", advice)
    if document.get("format") != FORMAT:
        found = clean(str(document.get("format", "none")), 20)
        raise InputError(f"That plan is of format {found}; this version reads format {FORMAT}.", "Plan again.")
    try:
        plan: Plan = _built(Plan, {name: field for name, field in document.items() if name not in _ADDED}, "plan")
    except _Misfit as error:
        raise InputError(f"That plan is incomplete: {error}.", advice) from None
    except (ValueError, TypeError, InputError):
        raise InputError("That plan is incomplete: a value cannot be read.", advice) from None
    if document.get("level") != plan.level.value:
        raise InputError("That plan is incomplete: its level is not that of its checks.", advice)
    return plan


class _Misfit(Exception):
    """Why a value does not fit."""


def _plain(value: Any, packed: bool = False) -> Any:
    if isinstance(value, Ts):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), packed) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)):
        items = [_plain(item, packed) for item in value]
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
    rest = [{name: item[name][len(item[key]) :] if name in after else item[name] for name in item} for item in items]
    begin = _database(items[0][key])
    if begin and all(str(item[key]).startswith(begin) for item in items):
        rest = [item | {key: item[key][len(begin) :]} for item in rest]
    else:
        begin = ""
    same: dict[str, Any] = {}
    for name in rest[0]:
        value, count = Counter(json.dumps(item[name]) for item in rest).most_common(1)[0]
        if count * 2 > len(rest):
            same[name] = json.loads(value)
    columns = [name for name in rest[0] if name not in same]
    columns += [name for name in same if any(item[name] != same[name] for item in rest)]
    rows = [_row(item, columns, same) for item in rest]
    return {"same": same, "begin": {key: begin} if begin else {}, "after": after, "columns": columns, "rows": rows}


def _database(value: Any) -> str:
    """The database of a namespace, with the dot."""
    return value[: value.find(".") + 1] if isinstance(value, str) else ""


def _continues(item: Mapping[str, Any], name: str, key: str) -> bool:
    value, start = item[name], item[key]
    return isinstance(value, str) and isinstance(start, str) and value.startswith(start) and start != ""


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
            raise _Misfit(f"{where} has a row that is not as long as its columns")
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


def _built(kind: Any, value: Any, where: str) -> Any:
    """A value of an annotated type from its JSON form. ``where`` names it in an error."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        kinds = [one for one in arguments if one is not NoneType]
        return _built(float if float in kinds else kinds[0], value, where) if value is not None else _misfit(where)
    if origin is tuple:
        if isinstance(value, Mapping) and value.keys() == _TABLE:
            value = _from_table(value, where)
        if not isinstance(value, list):
            _misfit(where)
        return tuple(_built(arguments[0], item, where) for item in value)
    if isinstance(kind, type) and is_dataclass(kind) and kind is not Ts:
        return _object(kind, value, where)
    if kind in _READERS:
        if not isinstance(value, str):
            _misfit(where)
        return _READERS[kind](value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    wanted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        _misfit(where)
    return value


def _object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        _misfit(where)
    hints = get_type_hints(kind)
    for name in hints:
        if name not in value:
            raise _Misfit(f"{where} lacks {name}")
    for name in value:
        if name not in hints:
            raise _Misfit(f"{where} has {clean(str(name), 40)}, which is not known")
    make: Callable[..., Any] = kind
    return make(**{name: _built(hint, value[name], name) for name, hint in hints.items()})


def _misfit(where: str) -> NoReturn:
    raise _Misfit(f"{where} is not of the right type")


_READERS: dict[Any, Callable[[str], Any]] = {Ts: parse_ts, datetime: parse_iso, Path: Path}
