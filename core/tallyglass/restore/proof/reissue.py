"""Counters that would hand out an id twice after the restore: the search through backup, live set and oplog.

:mod:`tallyglass.restore.proof.counter_search` says what is searched for.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from tallyglass.restore.backup.archive import documents as archive_documents
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.backup.bson_file import BrokenFile, decode, documents, id_key
from tallyglass.restore.proof.counter_search import CounterFacts, CounterSearch, result_of
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.counter_paths import counter_paths, may_be_counter
from tallyglass.text import clean_name

MOST_DOCUMENTS = 5_000
"""The most documents that are read of one collection: with more it is rather data that looks like counters."""


class _Documents:
    """The counters of known libraries among the documents of one collection, which are added one after the other."""

    def __init__(self, ns: str) -> None:
        self._ns = ns
        self._count = 0
        self.counters: list[bytes] = []

    @property
    def is_cut(self) -> bool:
        """Whether there are more documents than are searched."""
        return self._count > MOST_DOCUMENTS

    def add(self, raw: bytes) -> bool:
        """Returns whether more are to be added. Raises Malformed."""
        self._count += 1
        if not self.is_cut and counter_paths(self._ns, raw):
            self.counters.append(raw)
        return not self.is_cut


async def find_reissues(
    gateway: Gateway,
    bases: Mapping[str, StoredCollection],
    changed: Mapping[str, Changed],
    start: Ts,
    limit: Ts,
    *,
    names: Mapping[bytes, str] | None = None,
    inserted: Container[str] | None = None,
    renamed: Container[str] = (),
    archive: Path | None = None,
    copy: Gateway | None = None,
) -> CounterFacts:
    """Search every collection that changed after the point and has counters.

    ``bases`` are the collections of the backup by the names that they have at the point, ``names`` these names by UUID.
    ``inserted`` are the namespaces with counters that were inserted since the start, by the names that the entries
    have, None for all; ``renamed`` are the collections whose entries may have another name.
    The backup is in files, or in one ``archive``, or is the ``copy`` of data files that runs already.
    """
    search = CounterSearch(limit, names or {})
    unknown: list[str] = []
    namespaces = []
    at_backup = {ns: _Documents(ns) for ns in sorted(changed) if _may_hold_counters(ns)}
    if archive is not None:
        stored = {base.ns: held for ns, held in at_backup.items() if (base := bases.get(ns)) is not None}
        await asyncio.to_thread(_from_archive, archive, stored)
    for ns, held in at_backup.items():
        if archive is None and (base := bases.get(ns)) is not None:
            unknown += await _from_backup(copy, base, held, f"{clean_name(ns)} cannot be read on the spare")
        live = _Documents(ns)
        unread = await _from_server(gateway, ns, live, f"{clean_name(ns)} cannot be read now")
        unknown += unread if held.counters else []
        has_counters = held.counters or live.counters or inserted is None or ns in inserted
        if held.is_cut or live.is_cut:
            # Nothing is moved: of a part of them some would pass for counters that are not there.
            if has_counters:
                text = f"more than {MOST_DOCUMENTS:,} documents, counters among them, and was not searched"
                unknown.append(f"{clean_name(ns)} has {text}: check after the return that none hands out ids again")
            continue
        if has_counters or ns in renamed:
            _record(search, ns, held, live)
            namespaces.append(ns)
    if namespaces:
        await _through_oplog(gateway, search, namespaces, start)
    return result_of(search, unknown)


def _record(search: CounterSearch, ns: str, stored: _Documents, live: _Documents) -> None:
    """Record the values in the backup and the present ones."""
    for raw in stored.counters:
        document = decode(raw)
        for one in search.observe(ns, id_key(raw), document):
            one.restored = dig(document, one.path)
    for raw in live.counters:
        document = decode(raw)
        for one in search.observe(ns, id_key(raw), document):
            one.live, one.now = True, dig(document, one.path)
            one.issue(one.now)


def _may_hold_counters(ns: str) -> bool:
    db, _, name = ns.partition(".")
    return bool(name) and not name.startswith(("system.", "$")) and db not in ("admin", "config")


async def _from_backup(copy: Gateway | None, base: StoredCollection, held: _Documents, doubt: str) -> list[str]:
    """Add the documents of a collection in the copy of data files, or in its file; as :func:`_from_server` does."""
    if copy is not None:
        return await _from_server(copy, base.ns, held, doubt)
    if base.data is not None:
        await asyncio.to_thread(_from_file, base.data, held)
    return []


def _from_file(path: Path, held: _Documents) -> None:
    """Add the documents of a file of the backup; what is damaged there was reported when it was read whole."""
    with contextlib.suppress(BrokenFile, walk.Malformed):
        all(map(held.add, documents(path)))


def _from_archive(path: Path, held: Mapping[str, _Documents]) -> None:
    """Add the documents of an archive by the name of their collection there, as :func:`_from_file` does."""
    with contextlib.suppress(BrokenFile, walk.Malformed):
        for ns, raw in archive_documents(path):
            if ns in held:
                held[ns].add(raw)


async def _from_server(gateway: Gateway, ns: str, held: _Documents, doubt: str) -> list[str]:
    """Add the documents that a server has now. Returns ``doubt`` with the reason where they may not be read."""
    try:
        async for batch in gateway.find_raw(Namespace.parse(ns), {}, limit=MOST_DOCUMENTS + 1):
            for at, after in walk.split(batch):
                held.add(batch[at:after])
    except (PrivilegeError, ReadError) as error:
        held.counters.clear()
        return [f"{doubt}: {error.title}"]
    return []


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
