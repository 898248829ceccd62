"""What a statement does to one document, in plain Python, and the entry that a 6.0 server writes for it.

Documents are dicts: an int is an int32, an Int64 an int64, a float a double. Nothing here is shared with the code under
test, except that it also reads BSON with the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import bson
from bson import Int64

Document = dict[str, Any]
Effect = tuple[str, str, Any]
"""One assignment of an update: the operator, the path, and its argument. ``$expr`` is one field of a pipeline."""


class StatementError(Exception):
    """The server would end the statement at this document."""


def add(one: Any, other: Any) -> Any:
    """A sum with the type that the server gives it."""
    return _typed(one + other, one, other)


def multiply(one: Any, other: Any) -> Any:
    """A product with the type that the server gives it."""
    return _typed(one * other, one, other)


def _typed(result: Any, one: Any, other: Any) -> Any:
    if isinstance(one, float) or isinstance(other, float):
        return float(result)
    if isinstance(one, Int64) or isinstance(other, Int64) or not -(2**31) <= result < 2**31:
        return Int64(result)
    return int(result)


def is_number(value: Any) -> bool:
    """Whether the server counts a value as a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same bytes."""
    return bson.encode({"": one}) == bson.encode({"": other})


def copied(value: Any) -> Any:
    """A value that shares no document and no array with another; several times as quick as ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


MISSING = object()
"""In place of a value that is not there."""


def value_at(document: Document, path: str) -> Any:
    """The value at a path; MISSING where there is none."""
    found: Any = document
    for name in path.split("."):
        if isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif not isinstance(found, dict) or name not in found:
            return MISSING
        else:
            found = found[name]
    return found


def put(document: Document, path: str, value: Any) -> None:
    """Set a value, or remove it with MISSING. Raises StatementError where a parent is no document."""
    *parents, last = path.split(".")
    home: Any = document
    for name in parents:
        if isinstance(home, list):
            if not name.isdigit() or int(name) >= len(home):
                raise StatementError(path)
            home = home[int(name)]
        elif name not in home and value is MISSING:
            return
        else:
            home = home.setdefault(name, {})
        if not isinstance(home, (dict, list)):
            if value is MISSING:
                return
            raise StatementError(path)
    if isinstance(home, list):
        raise StatementError(path)
    if value is MISSING:
        home.pop(last, None)
    else:
        home[last] = copied(value)


def apply(document: Document, effects: Sequence[Effect]) -> Document:
    """The document after an update. Raises StatementError."""
    result = copied(document)
    for effect in _in_order(effects):
        for operator, path, argument in each_element(document, effect):
            _APPLY[operator](document, result, path, argument)
    return result


def each_element(document: Document, effect: Effect) -> Sequence[Effect]:
    """An assignment to ``items.$[].v`` as one to each element. Raises StatementError where there is no array."""
    operator, path, argument = effect
    home, _, below = path.partition(".$[]")
    if not below:
        return [effect]
    held = value_at(document, home)
    if not isinstance(held, list):
        raise StatementError(path)
    return [(operator, f"{home}.{at}{below}", argument) for at in range(len(held))]


def _in_order(effects: Sequence[Effect]) -> Sequence[Effect]:
    """As the server applies them: by path, and those of a pipeline as written."""
    return effects if any(one[0] == "$expr" for one in effects) else sorted(effects, key=lambda one: one[1])


def _set(_: Document, result: Document, path: str, value: Any) -> None:
    held = value_at(result, path)
    if held is MISSING or not same(held, value):
        put(result, path, value)


def _unset(_: Document, result: Document, path: str, __: Any) -> None:
    put(result, path, MISSING)


def _calculate(result: Document, path: str, argument: Any, begin: Any, how: Any) -> None:
    held = value_at(result, path)
    if held is MISSING:
        put(result, path, how(begin, argument))
    elif not is_number(held):
        raise StatementError(path)
    else:
        put(result, path, how(held, argument))


def _inc(_: Document, result: Document, path: str, by: Any) -> None:
    _calculate(result, path, by, 0, add)


def _mul(_: Document, result: Document, path: str, by: Any) -> None:
    _calculate(result, path, by, 0, multiply)


def _push(_: Document, result: Document, path: str, value: Any) -> None:
    held = value_at(result, path)
    if held is not MISSING and not isinstance(held, list):
        raise StatementError(path)
    put(result, path, [*([] if held is MISSING else held), value])


def _pull(_: Document, result: Document, path: str, value: Any) -> None:
    held = value_at(result, path)
    if held is MISSING:
        return
    if not isinstance(held, list):
        raise StatementError(path)
    put(result, path, [one for one in held if one != value])


def _add_to_set(_: Document, result: Document, path: str, value: Any) -> None:
    held = value_at(result, path)
    if isinstance(held, list) and any(_equals(one, value) for one in held):
        return
    _push(_, result, path, value)


def _pop(_: Document, result: Document, path: str, end: int) -> None:
    held = value_at(result, path)
    if held is MISSING:
        return
    if not isinstance(held, list):
        raise StatementError(path)
    put(result, path, held[:-1] if end > 0 else held[1:])


def _min(_: Document, result: Document, path: str, value: Any) -> None:
    held = value_at(result, path)
    if held is MISSING or (held is not None and (not is_number(held) or value < held)):
        put(result, path, value)


def _max(_: Document, result: Document, path: str, value: Any) -> None:
    held = value_at(result, path)
    if held is MISSING or held is None or (is_number(held) and value > held):
        put(result, path, value)


def _now(_: Document, result: Document, path: str, at: Any) -> None:
    put(result, path, at)


def _rename(_: Document, result: Document, path: str, to: str) -> None:
    held = value_at(result, path)
    if held is not MISSING:
        put(result, path, MISSING)
        result.pop(to, None)
        put(result, to, held)


def _expression(document: Document, result: Document, path: str, how: Any) -> None:
    """``how`` is ``["literal", v]``, ``["copy", path, otherwise]``, ``["linear", path, factor, summand]``,
    ``["product", path, path]``, ``["sum", path, path]`` (0 where one is no number), ``["concat", path, text]`` or
    ``["prefix", path, text]`` ("" where it is no text)."""
    kind, *rest = how
    if kind == "literal":
        put(result, path, rest[0])
        return
    held = value_at(document, rest[0])
    if kind == "copy":
        put(result, path, rest[1] if held is MISSING or held is None else held)
    elif kind == "linear":
        put(result, path, add(multiply(held, rest[1]), rest[2]) if is_number(held) else 0)
    elif kind in ("product", "sum"):
        other = value_at(document, rest[1])
        both = is_number(held) and is_number(other)
        put(result, path, (multiply if kind == "product" else add)(held, other) if both else 0)
    elif not isinstance(held, str):
        put(result, path, "")
    else:
        put(result, path, held + rest[1] if kind == "concat" else rest[1] + held)


_APPLY = {
    "$set": _set, "$unset": _unset, "$inc": _inc, "$mul": _mul, "$min": _min, "$max": _max, "$push": _push,
    "$addToSet": _add_to_set, "$pop": _pop, "$pull": _pull, "$rename": _rename, "$expr": _expression,
    "$currentDate": _now,
}  # fmt: skip


def paths_of(effect: Effect) -> tuple[str, ...]:
    """The paths that an assignment writes."""
    operator, path, argument = effect
    return (path, argument) if operator == "$rename" else (path,)


def changed_at(before: Document, after: Document, path: str) -> bool:
    """Whether what is at a path is not the same bytes as before."""
    one, other = value_at(before, path), value_at(after, path)
    return (one is MISSING) != (other is MISSING) or (one is not MISSING and not same(one, other))


def visible(document: Document, effects: Sequence[Effect]) -> list[Effect]:
    """The assignments that leave a trace in an entry on this document."""
    after = apply(document, effects)
    return [
        effect
        for effect in _in_order(effects)
        if any(changed_at(document, after, path) for one in each_element(document, effect) for path in paths_of(one))
    ]


def update_entry(before: Document, after: Document, effects: Sequence[Effect]) -> Document:
    """The ``o`` of an update."""
    if any(operator == "$expr" for operator, _, _ in effects):
        return difference_entry(before, after)
    diff: Document = {}
    for effect in visible(before, effects):
        for one in _logged(before, after, effect):
            for path in paths_of(one):
                _note(diff, before, after, one[0], path)
    return {"$v": 2, "diff": _ordered(diff)}


def _logged(before: Document, after: Document, effect: Effect) -> Sequence[Effect]:
    """An assignment to several elements of an array is logged as the whole array, that of one as this one."""
    parts = [one for one in each_element(before, effect) if changed_at(before, after, one[1])]
    if ".$[]" not in effect[1]:
        return [effect]
    return parts if len(parts) == 1 else [(effect[0], effect[1].partition(".$[]")[0], effect[2])]


def difference_entry(before: Document, after: Document) -> Document:
    """The ``o`` that a pipeline leaves: the difference, or the whole document where that is shorter."""
    diff = {"$v": 2, "diff": _difference(before, after)}
    return diff if len(bson.encode(diff)) <= len(bson.encode(after)) else after


def _note(diff: Document, before: Document, after: Document, operator: str, path: str) -> None:
    name, _, below = path.partition(".")
    at, _, rest = below.partition(".")
    if rest and isinstance(before.get(name), list):
        element, part = int(at), {}
        _note(part, before[name][element], after[name][element], operator, rest)
        if part:
            diff.setdefault(f"s{name}", {"a": True})[f"s{at}"] = _ordered(part)
        return
    if below and isinstance(before.get(name), dict):
        _note(diff.setdefault(f"s{name}", {}), before[name], after[name], operator, below)
        return
    if name not in after:
        if name in before:
            diff.setdefault("d", {})[name] = False
    elif name not in before:
        diff.setdefault("i", {})[name] = after[name]
    elif operator == "$push" and before[name]:
        diff[f"s{name}"] = {"a": True, f"u{len(after[name]) - 1}": after[name][-1]}
    elif not same(before[name], after[name]):
        diff.setdefault("u", {})[name] = after[name]


_SECTIONS = ("d", "u", "i")


def _ordered(diff: Document) -> Document:
    """The sections in the order in which the server writes them."""
    result = {name: diff[name] for name in _SECTIONS if name in diff}
    for name, part in diff.items():
        if name not in _SECTIONS:
            result[name] = part if "a" in part else _ordered(part)
    return result


def _difference(before: Document, after: Document) -> Document:
    """Both are walked in the order of their fields: one that moved is inserted again, behind the others."""
    diff: Document = {}
    removed = dict.fromkeys(before, False)
    held, rest = list(before), list(after)
    while held and rest:
        name = held.pop(0)
        if name != rest[0]:
            continue
        value = after[rest.pop(0)]
        del removed[name]
        if isinstance(value, dict) and isinstance(before[name], dict) and not same(before[name], value):
            diff[f"s{name}"] = _difference(before[name], value)
        elif not same(before[name], value):
            diff.setdefault("u", {})[name] = value
    for name in rest:
        removed.pop(name, None)
        diff.setdefault("i", {})[name] = after[name]
    if removed:
        diff["d"] = removed
    return _ordered(diff)


def matches(document: Document, query: Document) -> bool:
    """Whether a filter finds a document: equality, comparisons, ``$ne``, ``$in``, ``$exists``, ``$and`` and ``$or``."""
    for name, condition in query.items():
        if name in ("$and", "$or"):
            found = [matches(document, one) for one in condition]
            if not (all(found) if name == "$and" else any(found)):
                return False
        elif not _meets(value_at(document, name), condition):
            return False
    return True


def _meets(held: Any, condition: Any) -> bool:
    if not (isinstance(condition, dict) and any(name.startswith("$") for name in condition)):
        condition = {"$eq": condition}
    for operator, operand in condition.items():
        if operator == "$exists":
            if (held is not MISSING) is not bool(operand):
                return False
        elif operator == "$in":
            if not any(_equals(held, one) for one in operand):
                return False
        elif operator in ("$eq", "$ne"):
            if _equals(held, operand) is not (operator == "$eq"):
                return False
        elif not _compares(held, operator, operand):
            return False
    return True


def _equals(held: Any, value: Any) -> bool:
    if isinstance(held, list) and not isinstance(value, list):
        return any(_equals(one, value) for one in held)
    if value is None:
        return held is MISSING or held is None
    if is_number(held) and is_number(value):
        return bool(held == value)
    return held is not MISSING and same(held, value)


def _compares(held: Any, operator: str, value: Any) -> bool:
    alike = (is_number(held) and is_number(value)) or (isinstance(held, str) and isinstance(value, str))
    if not alike:
        return False
    return bool({"$gt": held > value, "$gte": held >= value, "$lt": held < value, "$lte": held <= value}[operator])


@dataclass(frozen=True, slots=True)
class Write:
    """One command. ``kind`` is update, delete, insert, replace or rewrite (a document that a client read, changed and
    writes back). A command of many documents finds them by ``query``; one of single writes names them in ``ids``, and
    each has its part of ``effects`` in turn."""

    kind: str
    effects: tuple[tuple[Effect, ...], ...] = ((),)
    query: Document | None = None
    ids: tuple[Any, ...] = ()
    document: Document | None = None
    upsert: bool = False

    @property
    def many(self) -> bool:
        """Whether it is one statement on all documents that a filter finds."""
        return self.query is not None

    @property
    def text(self) -> str:
        """The command as a person types it; empty for what a person would not."""
        from bson import json_util

        if not self.many:
            return ""
        query = json_util.dumps(self.query, json_options=json_util.RELAXED_JSON_OPTIONS)
        if self.kind == "delete":
            return f"deleteMany({query})"
        update = operators(self.effects[0])
        return f"updateMany({query}, {json_util.dumps(update, json_options=json_util.CANONICAL_JSON_OPTIONS)})"


def operators(effects: Sequence[Effect]) -> Any:
    """The update as a server takes it."""
    if any(operator == "$expr" for operator, _, _ in effects):
        return [{"$set": {path: _as_expression(how) for _, path, how in effects}}]
    result: Document = {}
    for operator, path, argument in effects:
        result.setdefault(operator, {})[path] = argument
    return result


def _as_expression(how: Any) -> Any:
    kind, *rest = how
    if kind == "literal":
        return {"$literal": rest[0]}
    field = f"${rest[0]}"
    if kind == "copy":
        return {"$ifNull": [field, {"$literal": rest[1]}]}
    if kind == "linear":
        return {"$cond": [{"$isNumber": field}, {"$add": [{"$multiply": [field, rest[1]]}, rest[2]]}, 0]}
    if kind in ("product", "sum"):
        fields = [field, f"${rest[1]}"]
        both = {"$and": [{"$isNumber": one} for one in fields]}
        return {"$cond": [both, {"$multiply" if kind == "product" else "$add": fields}, 0]}
    parts = [field, rest[1]] if kind == "concat" else [rest[1], field]
    return {"$cond": [{"$eq": [{"$type": field}, "string"]}, {"$concat": parts}, ""]}


@dataclass(frozen=True, slots=True)
class Statement:
    """What one client sends: its commands, one after the other, from ``start`` on, with ``step`` milliseconds between
    two documents and a ``pause`` before document number ``pause_at``. ``session`` marks a client with retryable
    writes; ``order`` is that of a scan: 1, -1, or 0 for an order of its own."""

    name: str
    start: int
    writes: tuple[Write, ...]
    accident: bool = False
    session: int | None = None
    transaction: bool = False
    step: int = 2
    pause_at: int = 0
    pause: int = 0
    order: int = 1

    @property
    def one_command(self) -> Write | None:
        """Its command, if it has one alone."""
        return self.writes[0] if len(self.writes) == 1 else None


def each_effect(write: Write) -> Iterator[tuple[Effect, ...]]:
    """The effects of a command of single writes, in turn and without end."""
    while True:
        yield from write.effects
