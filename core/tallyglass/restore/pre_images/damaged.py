"""What an incident damaged, as its entries and the live collections show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.read.entries import WRITES, read_effects, stamp
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.undo.evidence import KnownStatement
from tallyglass.restore.undo.expiry import expiry_of
from tallyglass.restore.undo.infer import Inferred, find_accident
from tallyglass.text import clean_name


@dataclass(frozen=True, slots=True)
class IncidentDamage:
    """What was ``found`` of the accident, the ``names`` of the namespaces that it wrote, and the ``live`` collections
    that those may be. ``renamed`` says where the collections are by now of which others have the name, and ``expiring``
    is what :func:`expiry_of` says of these names."""

    found: Inferred
    names: list[str]
    live: dict[str, CollectionInfo]
    renamed: Mapping[str, str]
    expiring: Mapping[str, frozenset[str] | None]


async def find_damaged(gateway: Gateway, incident: Incident, limit: Ts, known: KnownStatement | None) -> IncidentDamage:
    """Read the entries of the incident. ``known`` is what a person knows of it. Raises the errors of the gateway."""
    live = await live_collections(gateway, incident)
    found = await find_accident(gateway, incident, limit, incident.last, None, live, known)
    wrote = await _written_at(gateway, found.accident.first)
    of_transaction = [*wrote] if found.accident.kind == "transaction" else []
    names = [found.accident.ns] if found.accident.ns else of_transaction
    by_uuid = {info.uuid: name for name, info in live.items() if info.uuid}
    now = {name: by_uuid.get(wrote.get(name, b""), name) for name in names if name in live}
    renamed = {name: there for name, there in now.items() if there != name}
    return IncidentDamage(found, names, live, renamed, await expiry_of(gateway, found.accident, names))


async def live_collections(gateway: Gateway, incident: Incident) -> dict[str, CollectionInfo]:
    """The live collections that the incident may refer to: its own namespace is sanitised for display."""
    found: dict[str, CollectionInfo] = {}
    for db in await gateway.list_databases():
        if db in LEFT_OUT or (incident.kind != "transaction" and not incident.ns.startswith(f"{clean_name(db)}.")):
            continue
        found |= {str(info.ns): info for info in await gateway.list_collections(db) if info.kind == "collection"}
    return found


async def _written_at(gateway: Gateway, ts: Ts) -> dict[str, bytes]:
    """The UUIDs of the collections that an entry, or its transaction, wrote, by their names."""
    found: dict[str, bytes] = {}
    async for _, parts in read_effects(gateway, {"ts": stamp(ts)}):
        for one in chain.from_iterable(map(operations_of, parts)):
            if one.op in WRITES:
                found.setdefault(one.ns, one.ui)
    return found
