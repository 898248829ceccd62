"""Apply the update entries of an oplog to documents, on undecoded BSON: what is not changed keeps its bytes.

Follows the server's document diffs (``$v: 2``: ``d`` removed, ``u`` set in place, ``i`` appended, ``s<field>`` a part;
arrays ``a: true`` with ``l``, ``u<n>``, ``s<n>``) and the ``$set`` and ``$unset`` of ``$v: 1`` (4.4).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tallyglass.oplog.decode import walk

Value = tuple[int, bytes]
"""A BSON type and the bytes of a value."""

Fields = dict[bytes, Value]
"""The elements of a document, in order."""

Path = tuple[bytes, ...]
"""The names that lead to a value; names may hold dots."""

_NULL: Value = (walk.NULL, b"")
_INT = struct.Struct("<i")


class Unfit(ValueError):
    """The update does not fit the document: a part that it changes is not there, or is of another type."""


def parse(raw: bytes) -> Fields:
    """The elements of a document. Raises Malformed."""
    return {one.name: (one.type, raw[one.start : one.end]) for one in walk.elements(raw)}


def build(fields: Fields) -> bytes:
    """The document with these elements."""
    body = b"".join(bytes((kind,)) + name + b"\0" + value for name, (kind, value) in fields.items())
    return _INT.pack(len(body) + 5) + body + b"\0"


def apply_update(document: bytes, o: bytes) -> bytes:
    """The document after an update whose ``o`` field is given. Raises Unfit, and Malformed for broken BSON."""
    change = parse(o)
    version, diff = change.get(b"$v"), change.get(b"diff")
    if version is not None and diff is not None and diff[0] == walk.DOCUMENT:
        return _apply_diff(document, diff[1])
    if version is None and not any(name.startswith(b"$") for name in change):
        return o
    if not set(change) <= {b"$v", b"$set", b"$unset"}:
        raise Unfit("an update of a form that is not known")
    return _apply_modifiers(document, change)


def is_replacement(o: bytes) -> bool:
    """Whether an update's ``o`` is the whole new document."""
    return not any(one.name == b"$v" or one.name in (b"$set", b"$unset") for one in walk.elements(o))


def changed_paths(o: bytes) -> Iterator[tuple[Path, Value | None]]:
    """The paths that an update sets, with the value, or removes, with None.

    Anything inside an array is a change of the whole array, whose value is not known: it is given as an empty value of
    type 0. A replacement has none.
    """
    if is_replacement(o):
        return
    change = parse(o)
    if b"diff" in change:
        yield from _diff_paths(change[b"diff"][1], ())
        return
    for operator, (_, fields) in change.items():
        for name, value in parse(fields).items() if operator in (b"$set", b"$unset") else ():
            path = tuple(name.split(b"."))
            index = next((at for at, step in enumerate(path) if at and step.isdigit()), 0)
            yield (path[:index], (0, b"")) if index else (path, value if operator == b"$set" else None)


def _diff_paths(diff: bytes, path: Path) -> Iterator[tuple[Path, Value | None]]:
    sections = parse(diff)
    if b"a" in sections or b"b" in sections:
        yield path, (0, b"")
        return
    for name, (_, content) in sections.items():
        if name == b"d":
            yield from (((*path, field), None) for field in parse(content))
        elif name in (b"u", b"i"):
            yield from (((*path, field), value) for field, value in parse(content).items())
        else:
            yield from _diff_paths(content, (*path, name[1:]))


def _apply_diff(document: bytes, diff: bytes) -> bytes:
    sections = parse(diff)
    if b"a" in sections:
        return _apply_to_array(document, sections)
    fields = parse(document)
    for name, (_, content) in sections.items():
        if name == b"d":
            for field in parse(content):
                fields.pop(field, None)
        elif name == b"u":
            fields |= parse(content)
        elif name == b"i":
            for field, value in parse(content).items():
                fields.pop(field, None)
                fields[field] = value
        elif name.startswith(b"s"):
            fields[name[1:]] = _apply_below(fields.get(name[1:]), content)
        else:
            raise Unfit("a binary diff")
    return build(fields)


def _apply_to_array(array: bytes, sections: Fields) -> bytes:
    items = list(parse(array).values())
    for name, (kind, content) in sections.items():
        if name == b"l":
            length = _INT.unpack(content)[0]
            items = items[:length] + [_NULL] * (length - len(items))
        elif name.startswith(b"u"):
            at = int(name[1:])
            items += [_NULL] * (at + 1 - len(items))
            items[at] = (kind, content)
        elif name.startswith(b"s"):
            at = int(name[1:])
            items[at : at + 1] = [_apply_below(items[at] if at < len(items) else None, content)]
    return build({str(at).encode(): item for at, item in enumerate(items)})


def _apply_below(value: Value | None, diff: bytes) -> Value:
    kind = walk.ARRAY if b"a" in parse(diff) else walk.DOCUMENT
    if value is None or value[0] != kind:
        raise Unfit("a part that the update changes is missing")
    return kind, _apply_diff(value[1], diff)


def _apply_modifiers(document: bytes, change: Fields) -> bytes:
    for operator, (_, fields) in change.items():
        if operator == b"$v":
            continue
        for name, value in parse(fields).items():
            document = put(document, tuple(name.split(b".")), value if operator == b"$set" else None)
    return document


def get(document: bytes, path: Path) -> Value | None:
    """The value at a path; None where there is none."""
    fields = parse(document)
    value = fields.get(path[0])
    if len(path) == 1 or value is None:
        return value
    return get(value[1], path[1:]) if value[0] in (walk.DOCUMENT, walk.ARRAY) else None


def put(document: bytes, path: Path, value: Value | None) -> bytes:
    """The document with a value at a path, or without one for None. Parents are made as the server makes them."""
    fields = parse(document)
    name = path[0]
    if len(path) > 1:
        held = fields.get(name)
        if held is None and value is None:
            return document
        if held is not None and held[0] not in (walk.DOCUMENT, walk.ARRAY):
            raise Unfit("a parent of what the update changes is no document")
        kind, content = held or (walk.DOCUMENT, build({}))
        fields[name] = (kind, put(content, path[1:], value))
    elif value is None:
        fields.pop(name, None)
    else:
        fields[name] = value
    return build(fields)


def differing(one: bytes, other: bytes, path: Path = ()) -> Iterator[Path]:
    """The paths at which two documents differ: documents are descended into, arrays are one value each."""
    fields, others = parse(one), parse(other)
    for name in dict.fromkeys((*fields, *others)):
        here, there = fields.get(name), others.get(name)
        if here == there:
            continue
        if here is not None and there is not None and here[0] == there[0] == walk.DOCUMENT:
            yield from differing(here[1], there[1], (*path, name))
        else:
            yield (*path, name)
