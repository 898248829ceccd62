"""A plan as one JSON document, and back. Timestamps are ``"t:i"``, times ISO 8601 in UTC, names as designed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from tallyglass.errors import InputError
from tallyglass.moment import Ts, iso, parse_time, parse_ts
from tallyglass.restore.model.plan import Plan


def to_json(plan: Plan, indent: int | None = None) -> str:
    """The plan as ASCII JSON: ``point, start, limit, checks, commands, loss, reissue`` and all else it holds."""
    return json.dumps(_plain(plan) | {"level": plan.level.value}, ensure_ascii=True, indent=indent)


def from_json(text: str) -> Plan:
    """The plan that :func:`to_json` wrote. Raises InputError for anything else."""
    try:
        plan: Plan = _built(Plan, json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, InputError):
        raise InputError("That file is not a plan.", "Write one with tallyglass restore plan --json.") from None
    return plan


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


def _built(kind: Any, said: Any) -> Any:
    """A value of an annotated type from its JSON form."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if said is None and NoneType in arguments:
            return None
        return _built(next(one for one in arguments if one is not NoneType), said)
    if origin is tuple:
        return tuple(_built(arguments[0], item) for item in said)
    if kind is Ts:
        return parse_ts(said)
    if kind is datetime:
        return parse_time(said)
    if kind is Path:
        return Path(said)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(said)
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(said, Mapping):
            raise TypeError(f"{kind.__name__} is written as an object")
        hints = get_type_hints(kind)
        make: Callable[..., Any] = kind
        return make(**{name: _built(hint, said[name]) for name, hint in hints.items() if name in said})
    return said
