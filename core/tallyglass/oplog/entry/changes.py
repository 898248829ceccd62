"""What an update changes, and the document after it, on undecoded BSON: what is not changed keeps its bytes.

Reads the server's document diffs (``$v: 2``: ``d`` removed, ``u`` set in place, ``i`` appended, ``s<field>`` a part,
``b`` patched; of an array, which has ``a: true``, ``l`` its length, ``u<n>`` and ``s<n>``), the ``$set`` and ``$unset``
of ``$v: 1`` (4.4), and replacements, which are the whole new document.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.walk import Element

Value = tuple[int, bytes]
"""A BSON type and the bytes of a value."""

Fields = dict[bytes, Value]
"""The elements of a document, in order."""

Path = tuple[bytes, ...]
"""The names that lead to a value; names may hold dots."""

Changes = dict[Path, Value | None]
"""The paths that an update changes, and the value that it leaves at each, None where it removes it; the path of the
whole document is empty."""

WHOLE: Path = ()

UNKNOWN: Value = (0, b"")
"""The value of an array of which parts are changed."""

_REMEMBERED = 64
"""Documents whose elements are kept: the few that are compared with each other, path by path."""

_SMALL = 4_096
"""Bytes of a document whose elements may be kept."""

_MOST_ITEMS = 2_000_000
"""More items than an array has room for in a document of 16 MB."""

_NULL: Value = (walk.NULL, b"")
_INT = struct.Struct("<i")
_MODIFIERS = (b"$set", b"$unset")


class Unfit(ValueError):
    """The update does not fit the document: a part that it changes is not there, is of another type, or is there
    twice."""


class ChangeKind(StrEnum):
    """What happens to one path."""

    SET = "set"
    ADD = "add"
    REMOVE = "remove"
    LENGTH = "length"
    PATCH = "patch"


class Change(NamedTuple):
    """One change of an update. ``path`` is as stored; that of a ``$set`` is one name, which may hold dots.

    ``value`` is where the new value lies in the bytes, None for a removal and for what is nested too deeply. ``array``
    is how many names lead to the outermost array that the change is in, -1 outside of arrays.
    """

    kind: ChangeKind
    path: Path
    value: Element | None
    array: int = -1


def is_replacement(o: bytes) -> bool:
    """Whether an update's ``o`` is the whole new document."""
    return not any(one.name == b"$v" or one.name in _MODIFIERS for one in walk.elements(o))


def each_change(raw: bytes, start: int = 0, end: int | None = None) -> Iterator[Change] | None:
    """The changes of the update whose ``o`` lies between ``start`` and ``end``, one by one and in stored order; None
    where it is the whole new document. Raises Malformed."""
    fields = {one.name: one for one in walk.elements(raw, start, end) if one.name in _FORM}
    if not fields:
        return None
    diff = fields.get(b"diff")
    if diff is not None and b"$v" in fields and diff.type == walk.DOCUMENT:
        return _in_diff(raw, diff, WHOLE, -1)
    modifiers = [one for name, one in fields.items() if name in _MODIFIERS]
    return _in_modifiers(raw, modifiers) if modifiers or b"$v" in fields else None


_FORM = frozenset({b"$v", b"diff", *_MODIFIERS})


def _in_diff(raw: bytes, holder: Element, path: Path, array: int) -> Iterator[Change]:
    sections = list(walk.elements(raw, holder.start, holder.end))
    if any(one.name == b"a" for one in sections):
        array = len(path) if array < 0 else array
        for section in sections:
            name, below = section.name, (*path, section.name[1:])
            if name == b"l":
                yield Change(ChangeKind.LENGTH, path, section, array)
            elif name.startswith(b"u"):
                yield Change(ChangeKind.SET, below, section, array)
            elif name.startswith(b"s"):
                yield from _in_part(raw, section, below, array)
        return
    for section in sections:
        kind = _SECTIONS.get(section.name)
        if kind is ChangeKind.REMOVE:
            yield from (Change(kind, (*path, one.name), None, array) for one in _elements(raw, section))
        elif kind is not None:
            yield from (Change(kind, (*path, one.name), one, array) for one in _elements(raw, section))
        elif section.name.startswith(b"s"):
            yield from _in_part(raw, section, (*path, section.name[1:]), array)


_SECTIONS = {b"d": ChangeKind.REMOVE, b"u": ChangeKind.SET, b"i": ChangeKind.ADD, b"b": ChangeKind.PATCH}


def _in_part(raw: bytes, section: Element, path: Path, array: int) -> Iterator[Change]:
    if len(path) > walk.DEPTH_LIMIT or section.type != walk.DOCUMENT:
        yield Change(ChangeKind.SET, path, None, array)
    else:
        yield from _in_diff(raw, section, path, array)


def _in_modifiers(raw: bytes, modifiers: list[Element]) -> Iterator[Change]:
    for modifier in modifiers:
        kind = ChangeKind.REMOVE if modifier.name == b"$unset" else ChangeKind.SET
        for field in _elements(raw, modifier):
            yield Change(kind, (field.name,), None if kind is ChangeKind.REMOVE else field)


def _elements(raw: bytes, holder: Element) -> Iterator[Element]:
    """The elements of a document or array; none of another value."""
    return walk.elements(raw, holder.start, holder.end) if holder.type in (walk.DOCUMENT, walk.ARRAY) else iter(())


def changes_of(o: bytes) -> Changes:
    """The values that an update leaves, by path. Raises Malformed.

    A change inside an array counts as one of the whole array, whose value is :data:`UNKNOWN`. The result is shared: the
    updates of one statement are mostly the same bytes. Nobody changes it.
    """
    return _remembered_changes(o) if len(o) <= _SMALL else _read_changes(o)


def _read_changes(o: bytes) -> Changes:
    found: Changes = {}
    changes = each_change(o)
    if changes is None:
        return {WHOLE: (walk.DOCUMENT, o)}
    is_diff = walk.find(o, b"diff") is not None
    for kind, path, value, array in changes:
        if not is_diff:
            path = tuple(path[0].split(b"."))
            array = next((at for at, step in enumerate(path) if at and step.isdigit()), -1)
        if array >= 0:
            found[path[:array]] = UNKNOWN
        elif kind is ChangeKind.PATCH:
            found[path[:-1]] = UNKNOWN
        else:
            found[path] = None if value is None else (value.type, o[value.start : value.end])
    return found


_remembered_changes = lru_cache(_REMEMBERED)(_read_changes)


def apply_update(document: bytes, o: bytes) -> bytes:
    """The document after an update whose ``o`` is given. Raises Unfit, and Malformed for broken BSON."""
    change = _fields(o)
    version, diff = change.get(b"$v"), change.get(b"diff")
    if version is not None and diff is not None and diff[0] == walk.DOCUMENT:
        return _apply_diff(document, diff[1])
    if is_replacement(o):
        return o
    if not set(change) <= {b"$v", *_MODIFIERS}:
        raise Unfit("an update of a form that is not known")
    for operator, (_, fields) in change.items():
        for name, value in _fields(fields).items() if operator in _MODIFIERS else ():
            document = put(document, tuple(name.split(b".")), value if operator == b"$set" else None)
    return document


def _apply_diff(document: bytes, diff: bytes) -> bytes:
    sections = _fields(diff)
    if b"a" in sections:
        return _apply_to_array(document, sections)
    fields = parse(document)
    for name, (_, content) in sections.items():
        if name == b"d":
            for field in _fields(content):
                fields.pop(field, None)
        elif name == b"u":
            fields.update(_fields(content))
        elif name == b"i":
            for field, value in _fields(content).items():
                fields.pop(field, None)
                fields[field] = value
        elif name.startswith(b"s"):
            fields[name[1:]] = _apply_below(fields.get(name[1:]), content)
        else:
            raise Unfit("a binary diff")
    return build(fields)


def _apply_to_array(array: bytes, sections: Mapping[bytes, Value]) -> bytes:
    items = list(_fields(array).values())
    for name, (kind, content) in sections.items():
        if name == b"l" and kind == walk.INT32:
            length = _within_limit(_INT.unpack(content)[0])
            items = items[:length] + [_NULL] * (length - len(items))
        elif name.startswith(b"u"):
            at = _item(name[1:])
            items += [_NULL] * (at + 1 - len(items))
            items[at] = (kind, content)
        elif name.startswith(b"s"):
            at = _item(name[1:])
            items[at : at + 1] = [_apply_below(items[at] if at < len(items) else None, content)]
    return build({str(at).encode(): item for at, item in enumerate(items)})


def _item(name: bytes) -> int:
    """Which item of an array has that name."""
    if not name.isdigit() or (name.startswith(b"0") and name != b"0"):
        raise Unfit("an item of an array is not named by its number")
    return _within_limit(int(name[:10]))  # more digits are beyond the limit whatever they are


def _within_limit(items: int) -> int:
    if not 0 <= items <= _MOST_ITEMS:
        raise Unfit("an array would have more items than a document can hold")
    return items


def _apply_below(value: Value | None, diff: bytes) -> Value:
    kind = walk.ARRAY if b"a" in _fields(diff) else walk.DOCUMENT
    if value is None or value[0] != kind:
        raise Unfit("a part that the update changes is missing")
    return kind, _apply_diff(value[1], diff)


def parse(raw: bytes) -> Fields:
    """The elements of a document. Raises Unfit where two have one name, and Malformed."""
    return dict(_fields(raw))


def _fields(raw: bytes) -> Mapping[bytes, Value]:
    return _remembered(raw) if len(raw) <= _SMALL else _read_fields(raw)


def _read_fields(raw: bytes) -> Mapping[bytes, Value]:
    found = walk.values(raw)
    fields = dict(found)
    if len(fields) != len(found):
        raise Unfit("a document has one field name twice")
    return fields


_remembered = lru_cache(_REMEMBERED)(_read_fields)


def repeats_name(value: Value) -> bool:
    """Whether a value is or contains a document with one field name twice. Raises Malformed."""
    kind, raw = value
    if kind not in (walk.DOCUMENT, walk.ARRAY):
        return False
    try:
        return any(map(repeats_name, _fields(raw).values()))
    except Unfit:
        return True


def build(fields: Fields) -> bytes:
    """The document with these elements."""
    body = b"".join([b"%c%b\0%b" % (kind, name, value) for name, (kind, value) in fields.items()])
    return _INT.pack(len(body) + 5) + body + b"\0"


def get(document: bytes, path: Path) -> Value | None:
    """The value at a path; None where there is none."""
    return value_at(_fields(document), path)


def value_at(fields: Mapping[bytes, Value], path: Path) -> Value | None:
    """What :func:`get` gives for the document with these elements."""
    value = fields.get(path[0])
    if len(path) == 1 or value is None:
        return value
    return get(value[1], path[1:]) if value[0] in (walk.DOCUMENT, walk.ARRAY) else None


def put(document: bytes, path: Path, value: Value | None, *, is_array: bool = False) -> bytes:
    """The document with a value at a path, or without one for None. Parents are made as the server makes them, and the
    items of an array before one beyond its end; an item that is removed leaves a null."""
    fields = parse(document)
    name = path[0]
    held = fields.get(name)
    if held is None and value is None:
        return document
    if is_array and held is None:
        fields |= {str(at).encode(): _NULL for at in range(len(fields), _item(name))}
    if len(path) > 1:
        if held is not None and held[0] not in (walk.DOCUMENT, walk.ARRAY):
            raise Unfit("a parent of what the update changes is no document")
        kind, content = held or (walk.DOCUMENT, build({}))
        fields[name] = (kind, put(content, path[1:], value, is_array=kind == walk.ARRAY))
    elif value is None and not is_array:
        del fields[name]
    else:
        fields[name] = value or _NULL
    return build(fields)


def differing(one: bytes, other: bytes, path: Path = ()) -> Iterator[Path]:
    """The paths at which two documents differ: documents are descended into, arrays are one value each."""
    fields, others = _fields(one), _fields(other)
    for name in fields if fields.keys() == others.keys() else dict.fromkeys((*fields, *others)):
        here, there = fields.get(name), others.get(name)
        if here == there:
            continue
        if here is not None and there is not None and here[0] == there[0] == walk.DOCUMENT:
            yield from differing(here[1], there[1], (*path, name))
        else:
            yield (*path, name)
