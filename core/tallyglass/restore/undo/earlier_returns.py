"""What earlier returns wrote into a collection, by the oplog alone: each loads its repairs into a staging collection
before it writes them, so the oplog holds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import (
    UNKNOWN,
    Fields,
    Path,
    Unfit,
    build,
    changes_of,
    get,
    is_replacement,
    parse,
)
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import operations
from tallyglass.restore.model.document import accident_from_json, accident_to_json
from tallyglass.restore.model.undo import Accident

STAGING = "_pitr_"
"""What follows the name of a collection in that of its staging collection, before the time of the point."""


def staging_of(entry: Entry, ns: str) -> str:
    """The staging collection of ``ns`` that a command makes; empty for any other command."""
    db, _, name = ns.partition(".")
    made = entry.o.get("create") if entry.command == "create" and entry.db == db else None
    return f"{db}.{made}" if isinstance(made, str) and made.startswith(name + STAGING) else ""


async def staged_repairs(source: Gateway, name: str, made: Ts) -> AsyncIterator[tuple[Ts, bytes]]:
    """The repairs that were loaded into a staging collection from ``made`` on, as
    :func:`~tallyglass.restore.undo.counterfactual.repair` makes them, and no bytes each time when a run began to write
    them.

    Raises the errors of the gateway, and Malformed.
    """
    async for operation, whole in operations(source, name, made):
        if operation.ns == name and operation.op == "i" and operation.o_raw:
            yield whole.ts, operation.o_raw
        elif operation.ns == name and operation.op == "u" and BEGUN in changes_of(operation.o_raw):
            yield whole.ts, b""


BEGUN: Path = (b"b",)
"""What a run sets in one document of its staging collection before it writes the repairs."""


@dataclass(frozen=True, slots=True)
class EarlierReturn:
    """A return that wrote repairs: what it undid, and when it began to write."""

    accident: Accident
    begun: Ts


def with_accident(repair: bytes, accident: Accident) -> bytes:
    """A repair that also says what is undone."""
    text = accident_to_json(accident).encode() + b"\0"
    return build(parse(repair) | {b"a": (walk.STRING, len(text).to_bytes(4, "little") + text)})


async def earlier_returns(
    source: Gateway, staging: Iterable[tuple[str, Ts]], until: Ts | None
) -> AsyncIterator[EarlierReturn]:
    """The returns that began to write up to ``until``, by their staging collections, each with when it was first made:
    points of one second share its name. Raises the errors of the gateway, Malformed, and InputError where another
    version wrote it in another form."""
    for name, made in staging:
        accident, begun = None, set[Accident]()
        async for ts, repair in staged_repairs(source, name, made):
            if until is not None and ts > until:
                break
            if repair and (undone := get(repair, (b"a",))):
                accident = accident_from_json(undone[1][4:-1].decode())
            elif not repair and accident is not None and accident not in begun:
                begun.add(accident)
                yield EarlierReturn(accident, ts)


def undone_by(repair: bytes) -> list[Ts]:
    """When the operations took effect that a repair undoes; empty where it does not say."""
    held = get(repair, (b"w",))
    stamps = parse(held[1]).values() if held else ()
    return [Ts.of_number(int.from_bytes(value, "little")) for _, value in stamps]


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
    items = [parse(item) for _, item in parse(repair[b"f"][1]).values()]
    if op != "u" or not items:
        return False
    names = {one[b"k"][1][4:-1] for one in items}
    wanted = {one[b"k"][1][4:-1]: one[b"r"] for one in items if b"r" in one}
    if is_replacement(o):
        fields = parse(o)
        return all(fields.get(name) == wanted.get(name) for name in names)
    changes, there = changes_of(o), build(parse(repair[b"r"][1]) | wanted)
    moved = {path for path in changes if path[0] not in names}  # a field that comes behind one that is set back
    return len(moved) < len(changes) and all(
        value == get(there, path) if path in moved else value in (UNKNOWN, get(there, path))
        for path, value in changes.items()
    )
