"""Programs for mongosh: small files of statements over two files of helpers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from bson import json_util

from tallyglass.mongo.mongosh import MAJORITY, call, has_literal, literal, update_one
from tallyglass.restore.tools.files import fold_json

__all__ = [
    "HELPERS", "all_of", "build_index", "build_indexes", "call", "carry_over", "command", "create_indexes",
    "drop_if_there", "drop_like", "empty_spare", "expire_again", "has_literal", "helpers", "literal",
    "merge_repairs", "must", "must_match", "on_live", "on_spare", "program", "replace_by", "reserve",
    "restore_definitions", "review_repairs", "say", "start_set", "take_names", "update_one",
]  # fmt: skip

HELPERS = "helpers.js"

_PRINTED_WIDTH = 78
"""Columns of what a script prints, so that a usual terminal breaks no word of it."""


def on_live(set_id: str) -> str:
    """What follows runs on the live set, which must have this id where it is known."""
    return f"db = await onLive({literal(set_id)});"


def on_spare(live_set: str) -> str:
    """What follows runs on the spare, which must not be a member of the replica set of this name."""
    return f"db = await onSpare({literal(live_set)});"


def command(db: str, body: Mapping[str, Any]) -> str:
    """One database command that writes, to paste into mongosh."""
    concerned = {**body, "writeConcern": MAJORITY}
    return f"db.getSiblingDB({literal(db)}).runCommand({literal(concerned)});"


def must(db: str, body: Mapping[str, Any]) -> str:
    """One database command that has to succeed."""
    return f"must(await {command(db, body)[:-1]});"


def all_of(statements: Sequence[str]) -> str:
    """Statements that are all run, whatever the server refuses, which is then an error."""
    return f"await doAll([{', '.join(f'async () => {{ {one} }}' for one in statements)}]);"


def drop_if_there(db: str, body: Mapping[str, Any]) -> str:
    """One command that drops something, which may be absent already."""
    return f"await dropIfThere({literal(db)}, {literal(body)});"


def empty_spare(mark: str) -> str:
    """Drop every database of a spare, which must bear this mark."""
    return f"await emptySpare({literal(mark)});"


def start_set(name: str, address: str) -> str:
    """Make a replica set of this one member, and wait until it takes writes. May be run again."""
    return f"await startSet({literal(name)}, {literal(address)});"


def reserve(ns: str, file: str) -> str:
    """Make a collection, whose name must be free unless this folder made it, as the ``file`` there tells. May be run
    again."""
    return f"await reserve({literal(ns)}, {literal(file)});"


def build_indexes(staging: str, indexes: Sequence[Mapping[str, Any]], count: int | None) -> str:
    """Build the indexes of a copy; a TTL index that would remove documents of it at once is built without its expiry,
    and reported. Before the first TTL index the copy must hold ``count`` documents; None where that was not computed.
    May be run again."""
    return f"await buildIndexes({literal(staging)}, {literal(list(indexes))}, {_plain(count)});"


def expire_again(copy: str, seconds: int, count: int | None) -> str:
    """Turn on the expiry of a collection by its own option, unless that would remove documents at once, which is
    reported. Before, the copy must hold ``count`` documents; None where that was not computed. May be run again."""
    return f"await expireAgain({literal(copy)}, {seconds}, {_plain(count)});"


def take_names(ending: str, counts: Mapping[str, int | None]) -> str:
    """Rename each collection of ``counts`` from its name with this ending to its name, which must be free.
    Each must hold that many documents; None where the number was not computed. May be run again."""
    rows: dict[str, list[str]] = {}
    for ns, count in counts.items():
        db, dot, name = ns.partition(".")
        rows.setdefault(db, []).append(f"{literal(dot + name)}: {_plain(count)}")  # with its dot, no name is __proto__
    databases = ", ".join(f"[{literal(db)}, {{{', '.join(names)}}}]" for db, names in rows.items())
    return f"await takeNames({literal(ending)}, [{databases}]);"


def say(text: str) -> Iterator[str]:
    """Print a text, in lines that can be pasted."""
    for line in textwrap.wrap(text, _PRINTED_WIDTH, subsequent_indent="  "):
        yield f"print({literal(line)});"


def review_repairs(ns: str, side: str, indexes: Sequence[Mapping[str, Any]]) -> str:
    """Mark the repairs in ``side`` that would break a rule of ``ns`` or of ``indexes``, which it is to have, and report
    them; nothing live is written. May be run again."""
    return f"await reviewRepairs({literal(ns)}, {literal(side)}, {literal(list(indexes))});"


def merge_repairs(ns: str, side: str, indexes: Sequence[Mapping[str, Any]]) -> str:
    """Write the repairs in ``side`` that are not marked into ``ns``. May be run again."""
    return f"await mergeRepairs({literal(ns)}, {literal(side)}, {literal(list(indexes))});"


def restore_definitions(ns: str, indexes: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
    """Build the indexes that a collection lacks, and set the options that ``collMod`` takes."""
    return f"await restoreDefinitions({literal(ns)}, {literal(list(indexes))}, {literal(options)});"


def carry_over(ns: str, staging: str, kept: str, count: int | None, since: str) -> str:
    """Write the documents in ``since`` into ``staging``, or into ``ns`` once the names have changed and ``kept`` is
    there. ``staging`` must hold at least ``count`` documents; None where that was not computed. May be run again."""
    return f"await carryOver({', '.join(literal(one) for one in (ns, staging, kept, since))}, {_plain(count)});"


def replace_by(ns: str, staging: str, kept: str, count: int | None, paths: Sequence[str] = (), seen: str = "") -> str:
    """Copy ``ns`` to ``kept``, and rename ``staging`` over it: no client finds it missing. May be run again wherever it
    was stopped, also where an earlier version renamed twice and the application created ``ns`` again in between.

    ``paths`` are the numbers of counters in it: each is raised beyond those that it hands out until the names change,
    so that no id is handed out again. The file ``seen`` says up to where others' writes were carried over.
    """
    names = ", ".join(literal(one) for one in (ns, staging, kept))
    return f"await replaceBy({names}, {_plain(count)}, {literal(list(paths))}, {literal(seen)});"


def must_match(update: str, missing: str = "") -> str:
    """An ``updateOne`` that must find its document; where it does not, the program stops with ``missing``. Without
    ``missing`` it need not find one."""
    return f"mustMatch(await {update}, {literal(missing)});" if missing else f"await {update};"


def _plain(count: int | None) -> str:
    return "null" if count is None else str(count)


def create_indexes(db: str, name: str, specs: Sequence[str]) -> str:
    """Build indexes from their specifications, which are Extended JSON."""
    indexes = [json_util.loads(spec, json_options=json_util.CANONICAL_JSON_OPTIONS) for spec in specs]
    return must(db, {"createIndexes": name, "indexes": indexes})


def build_index(ns: str, index: Mapping[str, Any]) -> str:
    """Build an index of a collection, which must be there."""
    db, _, name = ns.partition(".")
    return f"await mustExist({literal(ns)}); {must(db, {'createIndexes': name, 'indexes': [index]})}"


def drop_like(db: str, pattern: str) -> str:
    """Drop the collections of ``db`` whose names match a regular expression."""
    return f"await dropLike({literal(db)}, {literal(pattern)});"


_DECLARED = re.compile(r"(?:async function|function|const|let) (\w+)")


def _blocks(source: str) -> dict[str, str]:
    """The top-level functions and constants of a program by name, each with the comment before it."""
    blocks: dict[str, str] = {}
    comment = name = ""
    for line in source.splitlines():
        declared = _DECLARED.match(line)
        if line.startswith("//"):
            comment += f"{line}\n"
        elif declared:
            name = declared[1]
            blocks[name], comment = f"{comment}{line}\n", ""
        elif line:
            blocks[name] += f"{line}\n"
    return blocks


_BLOCKS = {
    name: text
    for source in ("helpers.js", "merge.js")
    for name, text in _blocks((files(__package__) / source).read_text(encoding="ascii")).items()
}


_STATE = frozenset({"fs", "shell", "db"})


def _names_in(text: str) -> set[str]:
    return _BLOCKS.keys() & set(re.findall(r"\w+", text))


def _called(text: str) -> list[str]:
    """The helpers that a program calls, in the order of their files."""
    names = set(re.findall(r"(\w+)\(", text))
    return [name for name in _BLOCKS if name in names]


def helpers(programs: Iterable[str]) -> str:
    """The module :data:`HELPERS`: what these programs call, and what that uses.

    mongosh runs a module as it is; a program is translated first, which takes a second for each 30 kB.
    """
    entries = _called("\n".join(programs))
    needed: set[str] = set(_STATE)
    new = set(entries)
    while new:
        needed |= new
        new = {name for one in new for name in _names_in(_BLOCKS[one])} - needed
    parts = [text for name, text in _BLOCKS.items() if name in needed]
    given = fold_json(f"  return {{{', '.join(entries)}}};")
    return "".join([*parts, f"module.exports = (given) => {{\n  shell = given;\n{given}\n}};\n"])


def program(given: Iterable[str]) -> str:
    """A file for ``mongosh --nodb --file``, which is run in the plan's folder. The first statement is :func:`on_live`
    or :func:`on_spare`."""
    statements = list(given)
    names = fold_json(f"const {{{', '.join(_called(''.join(statements)))}}} =")
    head = f'{names}\n  require("./{HELPERS}")({{connect, print, passwordPrompt, EJSON}});'
    body = "\n".join(fold_json(statement) for statement in statements)
    return f"{head}\n(async () => {{\n{body}\n}})();\n"
