"""What the return phase needs on the live set, checked before it begins: privileges, and names that must be free."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from tallyglass.deployment.identity import set_id
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.model.expiry import loaded_without_expiry
from tallyglass.restore.model.plan import Plan, PlanFacts
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.text import clean, clean_name

Needs = tuple[tuple[str, str, tuple[str, ...]], ...]


def needs(returns: Iterable[Return], counters: Iterable[str], expiring: Container[str] = ()) -> Needs:
    """Database, collection ("" for all of the database) and actions. ``counters`` are the namespaces of counters that
    are moved forward, ``expiring`` the collections that are loaded without their own expiry."""
    wanted: dict[tuple[str, str], dict[str, None]] = {}

    def want(db: str, collection: str, *actions: str) -> None:
        wanted.setdefault((db, collection), {}).update(dict.fromkeys(actions))

    for row in returns:
        if row.strategy is not Strategy.WHOLE and not row.beside:
            continue
        db, _, name = row.ns.partition(".")
        target, beside = row.beside.partition(".")[0] or db, row.beside.partition(".")[2]
        for listed in (db, target):
            want(listed, "", "listCollections")
        want(target, beside or name, "createCollection", "insert", "bypassDocumentValidation")
        if beside:
            want(target, beside, "find", "dropCollection")
        if row.strategy is Strategy.MERGE:
            want(db, name, "find", "insert", "update", "bypassDocumentValidation", "listIndexes")
            want(db, beside, "update")
            want("local", "oplog.rs", "find")
            if row.recreated:
                want(db, name, "createIndex", "collMod")
        elif row.strategy in (Strategy.WHOLE, Strategy.REPLACE, Strategy.COPY):
            want(target, beside or name, "createIndex")
            if beside and row.strategy is not Strategy.COPY:
                want(db, "", "renameCollectionSameDB")
            if row.ns in expiring and row.strategy is not Strategy.COPY:
                want(db, beside or name, "find", "collMod")
        if row.strategy is Strategy.REPLACE:
            _want_for_replacement(want, row)
    for ns in counters:
        db, _, name = ns.partition(".")
        want(db, name, "find", "insert", "update")
    return tuple((db, name, tuple(actions)) for (db, name), actions in wanted.items())


def _want_for_replacement(want: Callable[..., None], row: Return) -> None:
    """What it takes besides to replace a collection, and to carry over what others wrote to it."""
    db, _, name = row.ns.partition(".")
    beside, away, repairs, copied = (one.partition(".")[2] for one in (row.beside, row.away, row.repairs, row.copied))
    want(db, name, "find", "insert", "update", "dropCollection", "bypassDocumentValidation", "listIndexes")
    want(db, beside, "insert", "update", "bypassDocumentValidation", "listIndexes")
    for made in (repairs, copied):
        want(db, made, "createCollection", "find", "insert", "update", "remove")
    want(db, repairs, "dropCollection", "bypassDocumentValidation")
    want(db, away, "find")
    want("local", "oplog.rs", "find")


def missing_privileges(info: Mapping[str, Any], wanted: Needs) -> list[str]:
    """What a user lacks of it, in words. ``info`` is the ``authInfo`` of ``connectionStatus`` with privileges."""
    if not info.get("authenticatedUsers"):
        return []
    rows = info.get("authenticatedUserPrivileges", ())
    lacking = []
    for db, collection, actions in wanted:
        held = {action for row in rows if _covers(row["resource"], db, collection) for action in row["actions"]}
        missing = [] if "anyAction" in held else [action for action in actions if action not in held]
        if missing:
            lacking.append(f"{', '.join(missing)} on {clean_name(f'{db}.{collection}' if collection else db, 120)}")
    return lacking


def _covers(resource: Mapping[str, Any], db: str, collection: str) -> bool:
    if resource.get("anyResource"):
        return True
    in_db = resource.get("db") == db or (resource.get("db") == "" and db not in ("local", "config"))
    any_collection = resource.get("collection") == "" and not collection.startswith("system.")
    return in_db and (resource.get("collection") == collection or any_collection)


async def check_set(source: Gateway, facts: PlanFacts) -> bool:
    """Raise InputError where the address of the live set leads to another set than that of the plan: a tunnel that was
    opened again, a name that moved. Two sets may have one name: False where an id is unknown, so that the names alone
    were compared."""
    name, here = str((await source.command("hello")).get("setName", "")), await set_id(source)
    if clean(name) == facts.set_name and (not here or not facts.set_id or here == facts.set_id):
        return bool(here and facts.set_id)
    there, wanted = (
        f"{shown} (id {id_ or 'unknown'})" for shown, id_ in ((clean(name), here), (facts.set_name, facts.set_id))
    )
    raise InputError(
        f"The address of the live set leads to another set, {there}; the plan is for {wanted}.",
        "Check the address in source.yml, and a tunnel behind it. Nothing was written.",
    )


async def check_return(source: Gateway, plan: Plan) -> bool:
    """Raise PrivilegeError where a later step would not be allowed, and InputError where this is another set, or
    what comes back whole or is kept as a copy has a name that was taken since the plan. Nothing is written. Returns
    what :func:`check_set` does."""
    is_known = await check_set(source, plan.facts)
    status = await source.command("connectionStatus", showPrivileges=True)
    lacking = missing_privileges(
        status.get("authInfo", {}), needs(plan.undo.returns, plan.undo.raised, loaded_without_expiry(plan))
    )
    if lacking:
        raise PrivilegeError(f"Missing privileges for the return: {'; '.join(lacking)}.", "Nothing was written.")
    free = {row.ns if row.strategy is Strategy.WHOLE else row.away for row in plan.undo.returns} - {""}
    for db in sorted({ns.partition(".")[0] for ns in free}):
        for info in await source.list_collections(db):
            if str(info.ns) in free:
                shown = clean_name(str(info.ns))
                raise InputError(f"{shown} was created since the plan.", "Plan again. Nothing was written.")
    return is_known
