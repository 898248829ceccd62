"""What an update changes, as a person would write it: ``total: 8, -note, lines.1: 9``.

Reads the ``$v: 2`` diffs of MongoDB 5.0 and later (fields inserted, updated and deleted, subdocuments, arrays
by index and by length, binary patches) and the ``$set``/``$unset`` form of 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tallyglass.oplog.decode import render, walk
from tallyglass.oplog.decode.head import Head
from tallyglass.oplog.decode.walk import Element
from tallyglass.text import clean, clean_name

DEPTH_LIMIT = 200


class ChangeKind(StrEnum):
    """What happens to one path."""

    SET = "set"
    ADD = "add"
    REMOVE = "remove"
    LENGTH = "length"
    PATCH = "patch"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an update. ``path`` is safe to show; ``value`` is where the new value lies, None for a removal."""

    kind: ChangeKind
    path: str
    value: Element | None = None


def changes(head: Head) -> Iterator[Change] | None:
    """The changes of an update, in stored order; None where the whole document is replaced. Raises Malformed."""
    version = head.within(head.o, b"$v")
    diff = head.within(head.o, b"diff")
    if diff is not None and version is not None and walk.whole_number(head.raw, version) == 2:
        return _diff(head, diff, "", 0)
    modifiers = [field for field in head.fields(head.o) if field.name.startswith(b"$") and field.name != b"$v"]
    return _modifiers(head, modifiers) if modifiers else None


def summary(head: Head, limit: int = 160) -> str:
    """``update`` and the changes, on one line of at most about ``limit`` characters; ``replace`` for a whole one."""
    found = changes(head)
    if found is None:
        return "replace"
    words: list[str] = []
    length = 0
    for change in found:
        words.append(change_text(head, change))
        length += len(words[-1]) + 2
        if length > limit:
            words.append("…")
            break
    return "update " + clean(", ".join(words) or "nothing", limit + 2)


def change_text(head: Head, change: Change) -> str:
    """One change as text, safe to show: ``total: 8``, ``+note: "x"``, ``-note``, ``lines cut to 2``."""
    if change.kind is ChangeKind.REMOVE:
        return f"-{change.path}"
    if change.value is None or change.value.name in head.secrets:
        return f"{change.path} changed"
    if change.kind is ChangeKind.LENGTH:
        return f"{change.path} cut to {walk.whole_number(head.raw, change.value)}"
    if change.kind is ChangeKind.PATCH:
        return f"{change.path} patched"
    sign = "+" if change.kind is ChangeKind.ADD else ""
    return f"{sign}{change.path}: {short_value(head.raw, change.value)}"


def short_value(raw: bytes, element: Element) -> str:
    """One value in at most about 60 characters, safe to show."""
    if element.type in (walk.DOCUMENT, walk.ARRAY):
        return render.one_line(raw, element, 60)
    if element.type in (walk.OBJECT_ID, walk.BINARY):
        return render.id_text(raw, element, 60)
    if element.type == walk.DATE:
        return render.date_text(raw, element.start).strip('"')
    return render.scalar(raw, element, 60)


def _diff(head: Head, holder: Element, path: str, depth: int) -> Iterator[Change]:
    sections = list(head.fields(holder))
    array = next((s for s in sections if s.name == b"a" and s.type == walk.BOOL), None) is not None
    for section in sections:
        name = section.name
        if array:
            yield from _array_section(head, section, path, depth)
        elif name == b"d":
            yield from (Change(ChangeKind.REMOVE, _join(path, field.name)) for field in head.fields(section))
        elif name in (b"u", b"i"):
            act = ChangeKind.ADD if name == b"i" else ChangeKind.SET
            yield from (Change(act, _join(path, field.name), field) for field in head.fields(section))
        elif name == b"b":
            yield from (Change(ChangeKind.PATCH, _join(path, field.name), field) for field in head.fields(section))
        elif name.startswith(b"s"):
            yield from _below(head, section, _join(path, name[1:]), depth)


def _array_section(head: Head, section: Element, path: str, depth: int) -> Iterator[Change]:
    name = section.name
    if name == b"l":
        yield Change(ChangeKind.LENGTH, path, section)
    elif name.startswith(b"u"):
        yield Change(ChangeKind.SET, _join(path, name[1:]), section)
    elif name.startswith(b"s"):
        yield from _below(head, section, _join(path, name[1:]), depth)


def _below(head: Head, section: Element, path: str, depth: int) -> Iterator[Change]:
    if depth >= DEPTH_LIMIT or section.type != walk.DOCUMENT:
        yield Change(ChangeKind.SET, path)
    else:
        yield from _diff(head, section, path, depth + 1)


def _modifiers(head: Head, modifiers: list[Element]) -> Iterator[Change]:
    for modifier in modifiers:
        act = ChangeKind.REMOVE if modifier.name == b"$unset" else ChangeKind.SET
        for field in head.fields(modifier):
            yield Change(act, _join("", field.name), None if act is ChangeKind.REMOVE else field)


def _join(path: str, name: bytes) -> str:
    word = clean_name(name.decode("utf-8", "replace"), 80)
    return f"{path}.{word}" if path else word
