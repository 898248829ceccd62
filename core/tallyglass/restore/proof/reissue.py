"""Counters that would hand out an id twice after the restore: the search through backup, live set and oplog.

:mod:`tallyglass.restore.proof.counter_search` says what is searched for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from pathlib import Path

from bson import Binary

from tallyglass.counters.recognise.shapes import dig
from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.operations import Transactions
from tallyglass.oplog.read.entries import stamp, walk_oplog
from tallyglass.restore.backup.archive import small_collections
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.backup.bson_file import BrokenFile, decode, documents, id_key
from tallyglass.restore.proof.counter_search import CounterFacts, CounterSearch, result_of
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.counter_paths import may_be_counter
from tallyglass.text import clean_name

MOST_DOCUMENTS = 5_000
"""A collection with more documents holds no counters: its backup file is not read for them."""


async def find_reissues(
    gateway: Gateway,
    bases: Mapping[str, StoredCollection],
    changed: Mapping[str, Changed],
    start: Ts,
    limit: Ts,
    *,
    names: Mapping[bytes, str] | None = None,
    inserted: Container[str] | None = None,
    archive: Path | None = None,
    copy: Gateway | None = None,
) -> CounterFacts:
    """Search every collection that changed after the point and has counters.

    ``bases`` are the collections of the backup by the names that they have at the point, ``names`` these names by UUID.
    ``inserted`` are the namespaces, by either name, with documents since the start that may be counters; None for all.
    The backup is in files, or in one ``archive``, or is the ``copy`` of data files that runs already.
    """
    search = CounterSearch(limit, names or {})
    unknown: list[str] = []
    namespaces = []
    candidates = [ns for ns in sorted(changed) if _may_hold_counters(ns)]
    packed: dict[str, list[bytes]] = {}
    if archive is not None:
        stored = [base.ns for ns in candidates if (base := bases.get(ns)) is not None]
        packed = await asyncio.to_thread(small_collections, archive, stored, MOST_DOCUMENTS)
    for ns in candidates:
        base = bases.get(ns)
        if base is None:
            by_key = False
        elif archive is not None:
            by_key = _record_backup(search, ns, packed.get(base.ns, []))
        elif copy is not None:
            by_key = await _from_copy(search, copy, ns, base.ns, unknown)
        else:
            by_key = await asyncio.to_thread(_from_files, search, ns, base)
        is_live = await _record_live(gateway, search, ns, unknown if by_key else [])
        if by_key or is_live or inserted is None or ns in inserted:
            namespaces.append(ns)
    if namespaces:
        await _through_oplog(gateway, search, namespaces, start)
    return result_of(search, unknown)


async def _record_live(gateway: Gateway, search: CounterSearch, ns: str, unknown: list[str]) -> bool:
    """Record the present values of a collection. Returns whether it has counters."""
    try:
        now = await _from_server(gateway, ns)
    except (PrivilegeError, ReadError) as error:
        unknown.append(f"{clean_name(ns)} cannot be read now: {error.title}")
        return False
    found = False
    for key, raw in now.items():
        document = decode(raw) if may_be_counter(ns, raw) else {}
        for one in search.observe(ns, key, document) if document else ():
            found = one.live = True
            one.now = dig(document, one.path)
            one.issue(one.now)
    return found


def _may_hold_counters(ns: str) -> bool:
    db, _, name = ns.partition(".")
    return bool(name) and not name.startswith(("system.", "$")) and db not in ("admin", "config")


def _from_files(search: CounterSearch, ns: str, stored: StoredCollection) -> bool:
    """Record the values in the backup. Returns whether it has counters."""
    if stored.data is None:
        return False
    held: list[bytes] = []
    try:
        for raw in documents(stored.data):
            if len(held) == MOST_DOCUMENTS:
                return False
            held.append(raw)
    except BrokenFile:
        return False
    return _record_backup(search, ns, held)


async def _from_copy(search: CounterSearch, copy: Gateway, ns: str, stored: str, unknown: list[str]) -> bool:
    try:
        return _record_backup(search, ns, list((await _from_server(copy, stored)).values()))
    except (PrivilegeError, ReadError) as error:
        unknown.append(f"{clean_name(ns)} cannot be read on the spare: {error.title}")
        return False


def _record_backup(search: CounterSearch, ns: str, held: list[bytes]) -> bool:
    """Record the values in whole documents of the backup. Returns whether there are counters among them."""
    found = False
    try:
        for raw in held:
            if not may_be_counter(ns, raw):
                continue
            document = decode(raw)
            for one in search.observe(ns, id_key(raw), document):
                one.restored = dig(document, one.path)
                found = True
    except walk.Malformed:
        return found
    return found


async def _from_server(gateway: Gateway, ns: str) -> dict[bytes, bytes]:
    """The documents there are now, by id; nothing for a collection that is too large to hold counters."""
    held: list[bytes] = []
    async for batch in gateway.find_raw(Namespace.parse(ns), {}, limit=MOST_DOCUMENTS + 1):
        held += (batch[at:after] for at, after in walk.split(batch))
    return {id_key(raw): raw for raw in held} if len(held) <= MOST_DOCUMENTS else {}


async def _through_oplog(gateway: Gateway, search: CounterSearch, namespaces: list[str], start: Ts) -> None:
    commands = sorted({f"{ns.partition('.')[0]}.$cmd" for ns in namespaces})
    query: dict[str, object] = {"ts": {"$gte": stamp(start)}}
    by_name = {"ns": {"$in": [*namespaces, *commands, "admin.$cmd"]}}
    uuids = [Binary(uuid, 4) for uuid, ns in search.names.items() if ns in namespaces]
    query |= {"$or": [by_name, {"ui": {"$in": uuids}}]} if uuids else by_name
    await walk_oplog(gateway, query, _Follower(search, frozenset(namespaces)))


class _Follower:
    """The sink of the entries of the window: those that may be about a counter go to the search."""

    def __init__(self, search: CounterSearch, wanted: frozenset[str]) -> None:
        self._search, self._wanted = search, wanted
        self._transactions = Transactions()

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        """Return True for a write that cannot be about a counter; else the entry is fed."""
        search = self._search
        ns = search.names.get(ui, ns)
        if ns not in self._wanted:
            return True
        if op == "i" and may_be_counter(ns, batch, o, walk.document_end(batch, o)):
            return False
        return not any((ns, key, path) in search.seen for path in search.paths.get(ns, ()))

    def feed(self, entry: Entry) -> None:
        search = self._search
        for operation, whole in self._transactions.feed(entry):
            if operation.op == "c" or search.names.get(operation.ui, operation.ns) in self._wanted:
                search.apply(operation, whole)
