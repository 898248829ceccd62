"""What earlier returns wrote into a collection, by the oplog alone: each loads its repairs into a staging collection
before it writes them, so the oplog holds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import UNKNOWN, Fields, Unfit, Value, build, changes_of, get, is_replacement, parse
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import operations

STAGING = "_pitr_"
"""What follows the name of a collection in that of its staging collection, before the time of the point."""


def staging_of(entry: Entry, ns: str) -> str:
    """The staging collection of ``ns`` that a command makes; empty for any other command."""
    db, _, name = ns.partition(".")
    made = entry.o.get("create") if entry.command == "create" and entry.db == db else None
    return f"{db}.{made}" if isinstance(made, str) and made.startswith(name + STAGING) else ""


async def staged_repairs(
    source: Gateway, staging: Iterable[tuple[str, Ts]], until: Ts | None = None
) -> AsyncIterator[Fields]:
    """The repairs that were loaded into staging collections up to ``until``, as the fields of
    :func:`~tallyglass.restore.undo.counterfactual.repair`; each collection comes with when it was first made.

    Raises the errors of the gateway, and Malformed.
    """
    for name, made in staging:
        async for operation, whole in operations(source, name, made):
            if until is not None and whole.ts > until:
                break
            if operation.op == "i" and operation.ns == name and operation.o_raw:
                yield parse(operation.o_raw)


def changed_from(repair: Fields) -> Iterator[tuple[bytes, Value]]:
    """The fields that a repair sets back, each with the value that the accident had left."""
    for _, item in parse(repair[b"f"][1]).values() if b"f" in repair else ():
        fields = parse(item)
        name, left = fields[b"k"][1][4:-1], fields.get(b"l")
        if left is not None and left[0] != walk.NULL:
            yield name, left


def is_written_from(repair: Fields, op: str, o: bytes) -> bool:
    """Whether an operation leaves what a repair says, and nothing else. No repair writes one field name twice."""
    try:
        return _leaves(repair, op, o)
    except Unfit:
        return False


def _leaves(repair: Fields, op: str, o: bytes) -> bool:
    if b"r" not in repair:
        return False  # a document of a copy
    if b"f" not in repair:
        return op == "i" and o == repair[b"r"][1]
    if op != "u":
        return False
    items = [parse(item) for _, item in parse(repair[b"f"][1]).values()]
    names = {one[b"k"][1][4:-1] for one in items}
    wanted = {one[b"k"][1][4:-1]: one[b"r"] for one in items if b"r" in one}
    if is_replacement(o):
        fields = parse(o)
        return all(fields.get(name) == wanted.get(name) for name in names)
    changes, there = changes_of(o), build(wanted)
    return {path[0] for path in changes} <= names and all(
        value == UNKNOWN or get(there, path) == value for path, value in changes.items()
    )
