"""Where a restore keeps its files, as paths in the plan's folder, and how its text files are broken into lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from tallyglass.text import shell_join, shell_quote

SOURCE, SPARE = "source.yml", "spare.yml"
"""The tools' ``--config`` files. A run adds the passwords for as long as it lasts."""

PLAN = "plan.json"
QUERY = "query.json"
SLICE_FOLDER = "slice"
SLICE = f"{SLICE_FOLDER}/local/oplog.rs.bson"
"""The oplog as mongodump wrote it."""

LIVE_FOLDER, LIVE_QUERY = "live", "live-query.json"
"""What a saved oplog lacks up to the point, and the query that dumps it."""

OPLOG = "oplog/oplog.bson"
"""The oplog as mongorestore reads it."""

MANIFEST = "manifest.sha256"
"""The checksum of :data:`OPLOG`."""

BASE = "base"
"""The staged copy of the backup."""

PLAIN_ARCHIVE = "base.archive"
"""The archive of the backup without its compression, where mongorestore cannot read that."""

MARK = "mark"
"""The document that marks a spare, as a dump."""

REPAIRS = "repairs"
HISTORY = "history"
"""The folder of what the steps of the return have read of the oplog, so that each reads only what is new."""
SPARE_WRITES = f"{HISTORY}/spare-writes.json"
"""How often what comes back had been written to on the spare when that was compared with the plan."""
NULL_IDS = f"{HISTORY}/null-ids.jsonl"
"""The documents whose ``_id`` is null, which ``merge.js`` writes; mongorestore does not look there."""

BACK = "back"

RAISE_SPARE = "raise-spare.js"
"""The program that moves counters forward on the spare."""

LOADED = "loaded"
"""Exists while catch-up.sh has repairs in the staging collections, which it drops at its end."""

RESERVED = "reserved"
"""What tells a staging collection that a run of this folder made from that of another folder with the same plan."""

OUTCOME = "outcome.txt"
"""The account of what came back; it names documents."""

UNDECIDED = "undecided.txt"
"""The definitions that differed from those at the point when the account was made, one a line; no file where none did.
A person decides on them."""

INCOMPLETE = "incomplete"
"""There is such a file until the account finds nothing damaged or unclear."""

WIDTH = 120
"""Longest line of an emitted file, where it can be broken at all."""

_JSON_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[^",]+|,')


def config_text(uri: str) -> str:
    """The text of a ``--config`` file: a JSON string is a YAML string."""
    return f"uri: {json.dumps(uri, ensure_ascii=True)}\n"


def read_config(text: str) -> tuple[str, str]:
    """URI and password of a ``--config`` file; the password is empty where it has none. Raises ValueError."""
    uri = password = ""
    for line in text.split("\n"):
        name, _, value = line.partition(": ")
        if name == "uri":
            uri = json.loads(value)
        elif name == "password":
            password = json.loads(value) if value.startswith('"') else value[1:-1].replace("''", "'")
    if not isinstance(uri, str) or not uri:
        raise ValueError("no uri")
    return uri, password


def without_password(text: str) -> str:
    """The text of a ``--config`` file as it was written, without what a run adds."""
    return "\n".join(line for line in text.split("\n") if not line.startswith("password: "))


def lines(*parts: str) -> str:
    """A shell program of several commands that stops at the first one that fails."""
    return "\n".join(("set -eu -o pipefail", "umask 077", *(part for part in parts if part), ""))


def fold_command(argv: Sequence[str]) -> str:
    """A command line that is broken before options alone, so that it still can be pasted."""
    return fold_shell(shell_join(argv), [shell_quote(word) for word in argv])


def fold_shell(shell: str, words: Sequence[str], width: int = WIDTH) -> str:
    """``shell`` as it is where it is short, else its quoted ``words`` in lines that end in a backslash."""
    return shell if len(shell) <= width or not words else " \\\n  ".join(fill(words, width - 4, " "))


def fold_json(text: str) -> str:
    """JSON, or JavaScript with JSON's strings, broken behind commas outside of strings."""
    return "\n".join(_fold_line(line) for line in text.splitlines())


def _fold_line(line: str) -> str:
    if len(line) <= WIDTH:
        return line
    parts, current = [], ""
    for piece in _JSON_PART.findall(line):
        current += piece
        if piece == ",":
            parts.append(current)
            current = ""
    return "\n  ".join(one.strip() for one in fill([*parts, current], WIDTH - 2, ""))


def fill(words: Iterable[str], width: int, between: str) -> Iterator[str]:
    """Words as lines of at most ``width`` characters, where no word is longer."""
    line = ""
    for word in words:
        if line and len(line) + len(between) + len(word) > width:
            yield line
            line = word
        else:
            line = f"{line}{between}{word}" if line else word
    yield line
