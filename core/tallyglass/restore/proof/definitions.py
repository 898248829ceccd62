"""Indexes and validators that differ between the live set and the point, and the commands that restore them.

None of them runs by itself: building an index takes time on a live set, and the change may have been intended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.model.indexes import buildable, canonical_index, index_names, is_id_index, same_numbers
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.proof.catalog import Catalog
from tallyglass.restore.tools import mongosh
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.incident_scope import DEFINITIONS
from tallyglass.text import clean, clean_name

_BY_COLL_MOD = frozenset({"expireAfterSeconds", "hidden"})
_VALIDATION = {"validator": {}, "validationLevel": "strict", "validationAction": "error"}


@dataclass(frozen=True, slots=True)
class Definitions:
    """``statements`` for mongosh, which set back definitions of the collections ``compared``.

    ``by_hand`` describes the differences for which there is no safe command. ``unexplained`` are the collections with
    indexes that differ though no command in the oplog changed them.
    """

    statements: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()


async def find_definitions(
    gateway: Gateway,
    catalog: Catalog,
    changed: Mapping[str, Changed],
    live: frozenset[str],
    incident: Incident | None,
    returns: Sequence[Return],
) -> Definitions:
    """Compare every collection of the names in ``live``: those whose definitions were changed after the point, by the
    incident if there is one, for what to restore; all others must have the indexes that backup and oplog give."""
    replaced_whole = {row.ns for row in returns if row.strategy in (Strategy.WHOLE, Strategy.REPLACE)}
    statements: list[str] = []
    by_hand: list[str] = []
    unexplained: list[str] = []
    compared: list[str] = []
    for ns, item in sorted(catalog.collections.items()):
        found = changed.get(ns)
        if ns not in live or ns in replaced_whole or item.kind != "collection" or ns.partition(".")[0] in LEFT_OUT:
            continue
        db, _, name = ns.partition(".")
        if found is None or not found.commands:
            if not await _has_indexes(gateway, Namespace(db, name), index_names(item.indexes.values())):
                unexplained.append(ns)
            continue
        if incident is not None and (incident.kind not in DEFINITIONS or incident.ns != clean_name(ns)):
            continue
        compared.append(ns)
        _compare_indexes(ns, item.indexes, await gateway.list_indexes(Namespace(db, name)), statements, by_hand)
        for info in await gateway.list_collections(db):
            if str(info.ns) == ns and info.options is not None:
                _compare_validation(ns, item.options, info.options, statements, by_hand)
    return Definitions(tuple(statements), tuple(by_hand), tuple(unexplained), tuple(compared))


async def _has_indexes(gateway: Gateway, ns: Namespace, names: set[str]) -> bool:
    """Whether a live collection has just these indexes; also where they may not be listed."""
    try:
        live = await gateway.list_indexes(ns)
        return not live or index_names(live) == names
    except (PrivilegeError, ReadError):
        return True


def _compare_indexes(
    ns: str,
    wanted: Mapping[str, Mapping[str, Any]],
    live: Sequence[Mapping[str, Any]],
    out: list[str],
    by_hand: list[str],
) -> None:
    db, _, name = ns.partition(".")
    by_name = {str(spec.get("name")): spec for spec in live}
    for index, spec in wanted.items():
        now = by_name.get(index)
        if is_id_index(spec) or (now is not None and canonical_index(now) == canonical_index(spec)):
            continue
        shown = f"{clean_name(ns)}, index {clean_name(index)}"
        if now is not None:
            changes = _coll_mod(spec, now)
            if changes is None:
                by_hand.append(f"{shown}: it differs now; drop it and build it again as {_shown(spec)}")
            else:
                out.append(mongosh.must(db, {"collMod": name, "index": {"name": index} | changes}))
        elif any(_key(one) == _key(spec) for one in live):
            by_hand.append(
                f"{shown}: its keys have an index under another name now; at the point it was {_shown(spec)}"
            )
        elif not mongosh.has_literal(spec):
            by_hand.append(f"{shown}: mongosh has no literal for it; build it with a driver as {_shown(spec)}")
        else:
            out.append(mongosh.build_index(ns, buildable(spec)))


def _coll_mod(spec: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any] | None:
    """What ``collMod`` has to change of an index; None where it cannot."""
    rest = [{field: value for field, value in one.items() if field not in _BY_COLL_MOD} for one in (spec, now)]
    if canonical_index(rest[0]) != canonical_index(rest[1]):
        return None
    changes: dict[str, Any] = {}
    if bool(spec.get("hidden")) != bool(now.get("hidden")):
        changes["hidden"] = bool(spec.get("hidden"))
    if same_numbers(spec.get("expireAfterSeconds")) != same_numbers(now.get("expireAfterSeconds")):
        if "expireAfterSeconds" not in spec or "expireAfterSeconds" not in now:
            return None
        changes["expireAfterSeconds"] = spec["expireAfterSeconds"]
    return changes


def _compare_validation(
    ns: str, wanted: Mapping[str, Any], live: Mapping[str, Any], out: list[str], by_hand: list[str]
) -> None:
    at_point, now = (
        {field: same_numbers(options.get(field, default)) for field, default in _VALIDATION.items()}
        for options in (wanted, live)
    )
    if at_point == now:
        return
    db, _, name = ns.partition(".")
    body = {"collMod": name} | {field: wanted.get(field, default) for field, default in _VALIDATION.items()}
    if mongosh.has_literal(body["validator"]):
        out.append(mongosh.must(db, body))
    else:
        by_hand.append(f"{clean_name(ns)}: mongosh has no literal for its validator; set it with a driver")


def _key(spec: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(same_numbers(spec.get("key", {})).items())


def _shown(spec: Mapping[str, Any]) -> str:
    return clean(canonical_index(spec), 300)
