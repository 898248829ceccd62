"""What the user of the live set must be allowed for the return phase: looked at before it begins, not half way."""

from __future__ import annotations

from collections.abc import Iterable

from tallyglass.restore.model.plan import Return, Strategy

Needs = tuple[tuple[str, str, tuple[str, ...]], ...]


def needs(returns: Iterable[Return], counters: Iterable[str]) -> Needs:
    """Database, collection ("" for all of the database) and actions. ``counters`` are the namespaces of counters that
    are moved forward."""
    wanted: dict[tuple[str, str], dict[str, None]] = {}

    def want(db: str, collection: str, *actions: str) -> None:
        wanted.setdefault((db, collection), {}).update(dict.fromkeys(actions))

    for row in returns:
        if row.strategy is not Strategy.WHOLE and not row.beside:
            continue
        db, _, name = row.ns.partition(".")
        beside = row.beside.partition(".")[2]
        want(db, "", "listCollections")
        want(
            row.beside.partition(".")[0] or db, beside or name, "createCollection", "insert", "bypassDocumentValidation"
        )
        if beside:
            want(row.beside.partition(".")[0], beside, "find", "dropCollection")
        if row.strategy is Strategy.MERGE:
            want(db, name, "find", "insert", "update", "bypassDocumentValidation", "listIndexes")
            want(db, beside, "update")
            want("local", "oplog.rs", "find")
            if row.recreated:
                want(db, name, "createIndex", "collMod")
        elif row.strategy in (Strategy.WHOLE, Strategy.REPLACE, Strategy.COPY):
            want(row.beside.partition(".")[0] or db, beside or name, "createIndex")
            if beside and row.strategy is not Strategy.COPY:
                want(db, "", "renameCollectionSameDB")
        if row.strategy is Strategy.REPLACE:
            want(db, name, "find", "insert", "update")
            want(db, row.away.partition(".")[2], "find")
    for ns in counters:
        db, _, name = ns.partition(".")
        want(db, name, "find", "insert", "update")
    return tuple((db, name, tuple(actions)) for (db, name), actions in wanted.items())
