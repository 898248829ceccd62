"""Paths and values of documents as text that is safe to show."""

from __future__ import annotations

from tallyglass.oplog.entry import json, walk
from tallyglass.oplog.entry.changes import Path, Value, build
from tallyglass.text import clean_name

VALUE = 200
"""How many characters of one value are shown."""


def path_text(path: Path) -> str:
    """The path; a name that contains a dot is quoted: shop."a.b"."""
    names = (name.decode("utf-8", "replace") for name in path)
    return ".".join(json.quoted(name, VALUE) if "." in name or not name else clean_name(name) for name in names)


def value_text(value: Value | None, limit: int = VALUE) -> str:
    """A value in at most about ``limit`` characters; ``(missing)`` for none."""
    if value is None:
        return "(missing)"
    raw = build({b"v": value})
    element = next(walk.elements(raw))
    if element.type in (walk.DOCUMENT, walk.ARRAY):
        return json.one_line(raw, element, limit)
    return json.scalar(raw, element, limit)
