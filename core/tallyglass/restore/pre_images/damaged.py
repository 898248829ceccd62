"""What an incident damaged, as its entries and the live collections show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.read.entries import read_effects, stamp
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.evidence import KnownStatement
from tallyglass.restore.undo.expiry import expiry_of
from tallyglass.restore.undo.infer import Inferred, find_accident
from tallyglass.restore.undo.renamed import renamed_to
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
    names = [found.accident.ns] if found.accident.ns else await _of_transaction(gateway, found.accident)
    renamed = {name: there for name in names if name in live and (there := await renamed_to(gateway, name, limit))}
    return IncidentDamage(found, names, live, renamed, await expiry_of(gateway, found.accident, names))


async def live_collections(gateway: Gateway, incident: Incident) -> dict[str, CollectionInfo]:
    """The live collections that the incident may refer to: its own namespace is sanitised for display."""
    found: dict[str, CollectionInfo] = {}
    for db in await gateway.list_databases():
        if db in LEFT_OUT or (incident.kind != "transaction" and not incident.ns.startswith(f"{clean_name(db)}.")):
            continue
        found |= {str(info.ns): info for info in await gateway.list_collections(db) if info.kind == "collection"}
    return found


async def _of_transaction(gateway: Gateway, accident: Accident) -> list[str]:
    """The namespaces that a transaction wrote."""
    if accident.kind != "transaction":
        return []
    names = dict[str, None]()
    async for _, parts in read_effects(gateway, {"ts": stamp(accident.first)}):
        for part in parts:
            names |= {one.ns: None for one in part.inner() if one.op in ("i", "u", "d")}
    return list(names)
