"""A plan as one JSON document, and back. Timestamps are ``"t:i"``, times ISO 8601 in UTC, names as designed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from tallyglass.errors import InputError
from tallyglass.moment import Ts, iso, parse_time, parse_ts
from tallyglass.restore.model.plan import Plan
from tallyglass.text import clean

FORMAT = 1
"""The version of the document. It changes with every field that is added, removed or read in another way."""

_ADDED = frozenset({"format", "level"})
"""Fields of the document that are not of the plan."""


def to_json(plan: Plan, indent: int | None = None) -> str:
    """The plan as ASCII JSON: ``format, point, start, limit, checks, commands, loss, reissue`` and all else it
    holds."""
    said = {"format": FORMAT} | _plain(plan) | {"level": plan.level.value}
    return json.dumps(said, ensure_ascii=True, indent=indent)


def from_json(text: str) -> Plan:
    """The plan that :func:`to_json` wrote. Raises InputError for anything else: another format, a field that is missing
    or not known, a value of the wrong type. Nothing is filled in: a plan without its expectations would verify
    nothing."""
    advice = "Write one with tallyglass restore plan --json."
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("That file is not a plan.", advice) from None
    if not isinstance(said, Mapping) or "limit" not in said:
        raise InputError("That file is not a plan.", advice)
    if said.get("format") != FORMAT:
        found = clean(str(said.get("format", "none")), 20)
        raise InputError(f"That plan is of format {found}; this version reads format {FORMAT}.", "Plan again.")
    try:
        plan: Plan = _built(Plan, {name: value for name, value in said.items() if name not in _ADDED}, "plan")
    except _Misfit as error:
        raise InputError(f"That plan is not whole: {error}.", advice) from None
    except (ValueError, TypeError, InputError):
        raise InputError("That plan is not whole: a value cannot be read.", advice) from None
    if said.get("level") != plan.level.value:
        raise InputError("That plan is not whole: its level is not that of its checks.", advice)
    return plan


class _Misfit(Exception):
    """What does not fit, in words."""


def _plain(value: Any) -> Any:
    if isinstance(value, Ts):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _built(kind: Any, said: Any, where: str) -> Any:
    """A value of an annotated type from its JSON form. ``where`` names it in an error."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if said is None and NoneType in arguments:
            return None
        kinds = [one for one in arguments if one is not NoneType]
        return _built(float if float in kinds else kinds[0], said, where) if said is not None else _misfit(where)
    if origin is tuple:
        if not isinstance(said, list):
            _misfit(where)
        return tuple(_built(arguments[0], item, where) for item in said)
    if isinstance(kind, type) and is_dataclass(kind) and kind is not Ts:
        return _object(kind, said, where)
    if kind in _READERS:
        if not isinstance(said, str):
            _misfit(where)
        return _READERS[kind](said)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(said)
    wanted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if not isinstance(said, wanted) or (isinstance(said, bool) and kind is not bool):
        _misfit(where)
    return said


def _object(kind: Any, said: Any, where: str) -> Any:
    if not isinstance(said, Mapping):
        _misfit(where)
    hints = get_type_hints(kind)
    for name in hints:
        if name not in said:
            raise _Misfit(f"{where} lacks {name}")
    for name in said:
        if name not in hints:
            raise _Misfit(f"{where} has {clean(str(name), 40)}, which is not known")
    make: Callable[..., Any] = kind
    return make(**{name: _built(hint, said[name], name) for name, hint in hints.items()})


def _misfit(where: str) -> NoReturn:
    raise _Misfit(f"{where} is not of the right type")


_READERS: dict[Any, Callable[[str], Any]] = {Ts: parse_ts, datetime: parse_time, Path: Path}
