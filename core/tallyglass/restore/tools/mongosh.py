"""Programs for mongosh: database commands that have to succeed, and the connection they run on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from bson import json_util

from tallyglass.mongo.mongosh import call, has_literal, literal

__all__ = [
    "build_indexes", "call", "create_indexes", "define", "drop_like", "empty_marked", "gone", "has_literal", "literal",
    "look", "mark_spare", "merge_repairs", "moved", "must", "must_be_absent", "must_be_allowed", "must_not_be_set",
    "program", "replace_by", "take_name",
]  # fmt: skip


def must(db: str, body: Mapping[str, Any]) -> str:
    """One database command that has to succeed: see :func:`program`."""
    return f"must(db.getSiblingDB({literal(db)}).runCommand({literal(body)}));"


def gone(db: str, body: Mapping[str, Any]) -> str:
    """One command that drops something; that it is not there any more is right too: see :func:`program`."""
    return f"gone({literal(db)}, {literal(body)});"


def must_be_absent(ns: str) -> str:
    """Stop where there is something of this name."""
    return f"mustBeAbsent({literal(ns)});"


def must_not_be_set(name: str) -> str:
    """Stop where the server is a member of the replica set of this name."""
    return f"mustNotBeSet({literal(name)});"


def must_be_allowed(needs: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    """Stop where the user may not do all of it: each a database, a collection or "" for all of it, and actions."""
    return f"mustBeAllowed({literal(needs)});"


def mark_spare(mark: str) -> str:
    """Write on the spare which restore uses it, where :func:`empty_marked` finds it."""
    return f"markSpare({literal(mark)});"


def empty_marked(mark: str, opener: str) -> str:
    """Drop every database of a spare that bears this mark, unless it holds nothing but the view ``opener``."""
    return f"emptyMarked({literal(mark)}, {literal(opener)});"


def build_indexes(beside: str, indexes: Sequence[Mapping[str, Any]]) -> str:
    """Build the indexes of a copy; a TTL index that would remove documents of it at once is built without effect, and
    said. May be run again."""
    return f"buildIndexes({literal(beside)}, {literal(list(indexes))});"


def take_name(ns: str, beside: str, count: int | None) -> str:
    """Rename ``beside``, which must hold ``count`` documents, to ``ns``, which must not be there; may be run again."""
    return f"takeName({literal(ns)}, {literal(beside)}, {_plain(count)});"


def look(ns: str, side: str, indexes: Sequence[Mapping[str, Any]]) -> str:
    """Mark the repairs in ``side`` that would break a rule of ``ns`` or of ``indexes``, which it is to have, and say
    them; nothing live is written. May be run again."""
    return f"look({literal(ns)}, {literal(side)}, {literal(list(indexes))});"


def merge_repairs(ns: str, side: str) -> str:
    """Write the repairs in ``side`` that are not marked into ``ns``. May be run again."""
    return f"mergeRepairs({literal(ns)}, {literal(side)});"


def define(ns: str, indexes: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
    """Build the indexes that a collection lacks, and set the options that ``collMod`` takes."""
    return f"define({literal(ns)}, {literal(list(indexes))}, {literal(options)});"


def replace_by(ns: str, beside: str, kept: str, count: int | None, paths: Sequence[str] = ()) -> str:
    """Rename ``ns`` to ``kept`` and ``beside`` to ``ns``; may be run again wherever it was stopped.

    ``paths`` are the numbers of counters in it: each is moved to the greatest that it has at that moment, before and
    after the change of names, so that an id that was handed out since the plan is not handed out again.
    """
    words = ", ".join(literal(one) for one in (ns, beside, kept))
    return f"replaceBy({words}, {_plain(count)}, {literal(list(paths))});"


def moved(update: str, missing: str = "") -> str:
    """An ``updateOne`` that must find its document, else ``missing`` is said; without it, it need not."""
    return f"moved({update}, {literal(missing)});" if missing else f"{update};"


def _plain(count: int | None) -> str:
    return "null" if count is None else str(count)


def create_indexes(db: str, name: str, specs: Sequence[str]) -> str:
    """Build indexes from their specifications, which are Extended JSON."""
    indexes = [json_util.loads(spec, json_options=json_util.CANONICAL_JSON_OPTIONS) for spec in specs]
    return must(db, {"createIndexes": name, "indexes": indexes})


def drop_like(db: str, pattern: str) -> str:
    """Drop the collections of ``db`` whose names match a regular expression: see :func:`program`."""
    return f"dropLike({literal(db)}, {literal(pattern)});"


_DECLARED = re.compile(r"(?:function|const) (\w+)")


def _blocks(source: str) -> dict[str, str]:
    """The top-level functions and constants of a program by name, without the comments between them."""
    blocks: dict[str, str] = {}
    name = ""
    for line in source.splitlines():
        declared = _DECLARED.match(line)
        name = declared[1] if declared else "" if line.startswith("//") else name
        if name:
            blocks[name] = f"{blocks[name]}\n{line}" if name in blocks else line
    return blocks


_HELPERS = _blocks((files(__package__) / "helpers.js").read_text(encoding="ascii"))
"""What the statements call; see there."""


def _helpers_for(statements: Sequence[str]) -> list[str]:
    """The helpers that the statements use, and those that these use: a program is read before it is run."""
    needed: set[str] = set()
    new = _names_in("\n".join(statements))
    while new:
        needed |= new
        new = {name for one in new for name in _names_in(_HELPERS[one])} - needed
    return [text for name, text in _HELPERS.items() if name in needed]


def _names_in(text: str) -> set[str]:
    return _HELPERS.keys() & set(re.findall(r"\w+", text))


def program(statements: Sequence[str], uri: str, password_file: str = "") -> str:
    """A whole file for ``mongosh --nodb --file``. The password is read from ``password_file`` where that exists, else
    asked for; it is never in the text. ``uri`` is one made by :func:`tallyglass.restore.tools.tool_uri.tool_uri`."""
    return "\n".join([*_connect(uri, password_file), *_helpers_for(statements), *statements, 'print("done");', ""])


def _connect(uri: str, password_file: str) -> list[str]:
    if not password_file:
        return [f"db = connect({literal(uri)});"]
    head, _, tail = uri.partition("@")
    return [
        'const fs = require("fs");',
        f"const held = {literal(password_file)};",
        'const password = fs.existsSync(held) ? fs.readFileSync(held, "utf8").split("\\n")[0] : passwordPrompt();',
        f"db = connect({literal(head + ':')} + encodeURIComponent(password) + {literal('@' + tail)});",
    ]
