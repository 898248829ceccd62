"""Which fields decide whether a TTL index removes a document.

The TTL monitor deletes without a session, and so do many clients: an entry does not say which of them it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tallyglass.errors import PrivilegeError
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import Path
from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.values import related


def decisive_fields(indexes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The fields by which some indexes let documents expire: that of each TTL index, and those of its filter."""
    for index in indexes:
        if "expireAfterSeconds" in index:
            yield from index.get("key", ())
            yield from _filtered(index.get("partialFilterExpression", {}))


def _filtered(query: Mapping[str, Any]) -> Iterator[str]:
    for name, value in query.items():
        if name.startswith("$"):
            for part in value:
                yield from _filtered(part)
        else:
            yield name


async def live_expiry(gateway: Gateway, ns: str) -> frozenset[str]:
    """The fields by which documents of a collection expire now. Raises the errors of the gateway."""
    return frozenset(decisive_fields(await gateway.list_indexes(Namespace.parse(ns))))


async def expiry_of(gateway: Gateway, accident: Accident, names: Iterable[str]) -> dict[str, frozenset[str] | None]:
    """The fields by which documents expire, of each collection in which the accident may have updated documents; None
    where this user may not list its indexes. Raises the errors of the gateway."""
    found = dict[str, frozenset[str] | None]()
    for ns in names if accident.updates or accident.kind == "transaction" else ():
        try:
            found[ns] = await live_expiry(gateway, ns)
        except PrivilegeError:
            found[ns] = None
    return found


def defined_expiry(entry: Entry, ns: str) -> Iterator[str]:
    """The fields of the TTL indexes that a command makes or drops, if it is about that collection. Raises Malformed."""
    if entry.command in ("createIndexes", "commitIndexBuild", "dropIndexes") and entry.target == ns:
        specs = [walk.value(entry.raw, one) for one in (*entry.index_specs(), entry.o2_at) if one is not None]
        yield from decisive_fields(one for one in specs if isinstance(one, Mapping))


def lets_go(entry: Entry) -> bool:
    """Whether a command may let the server remove documents of its collection: a ``collMod`` that lets them expire
    earlier, or that makes a capped collection smaller. Raises Malformed."""
    if entry.command != "collMod":
        return False
    before = walk.value(entry.raw, entry.o2_at) if entry.o2_at is not None else {}
    index, options = (before.get(f"{one}Options_old", {}) for one in ("index", "collection"))
    changed = [
        (entry.o.get("index", {}).get("expireAfterSeconds"), index.get("expireAfterSeconds")),
        (entry.o.get("expireAfterSeconds"), options.get("expireAfterSeconds")),
        (entry.o.get("cappedSize"), options.get("size")),
        (entry.o.get("cappedMax"), options.get("max")),
    ]
    return any(_is_less(now, earlier) for now, earlier in changed)


def _is_less(now: object, earlier: object) -> bool:
    """Whether a limit was set, and not to at least what it was before; it may be ``off``, or have been absent."""
    if isinstance(now, str) or now is None:
        return False
    return not isinstance(earlier, (int, float)) or float(str(now)) < earlier


def decides(paths: Iterable[Path], fields: Iterable[str]) -> bool:
    """Whether a change at some paths may decide that a document expires."""
    found = [tuple(one.encode().split(b".")) for one in fields]
    return bool(found) and any(related(path, one) for path in paths for one in found)
