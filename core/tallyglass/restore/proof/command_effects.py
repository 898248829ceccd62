"""What each command of the oplog does to the collections, views and indexes that a replay has made so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.snapshot import BUCKETS
from tallyglass.restore.model.indexes import as_defined
from tallyglass.restore.proof.catalog import Catalog, Collection, Index
from tallyglass.restore.timeline.chains import Problem
from tallyglass.restore.timeline.timeline import removal
from tallyglass.text import clean, clean_name

KNOWN_COMMANDS = frozenset(
    {
        "renameCollection", "dropDatabase", "applyOps", "dbCheck", "create", "convertToCapped", "emptycapped", "drop",
        "createIndexes", "deleteIndex", "deleteIndexes", "dropIndex", "dropIndexes", "collMod", "startIndexBuild",
        "abortIndexBuild", "commitIndexBuild",
    }
)  # fmt: skip

_BUILDS = ("createIndexes", "commitIndexBuild")
_DROPS = ("dropIndex", "dropIndexes", "deleteIndex", "deleteIndexes")


class Commands:
    """Feed commands with :meth:`apply`: they change ``catalog``, add to ``kinds`` what a check reports,
    and call ``problem`` with its kind, text and entry."""

    def __init__(
        self, catalog: Catalog, kinds: set[str], problem: Callable[[str, str, Entry], None], *, running: bool
    ) -> None:
        self.catalog = catalog
        self.running = running
        self.kinds = kinds
        self.problem = problem
        self.overlaps: list[tuple[Problem, bytes]] = []
        """Renames while the backup was taken, with the collection's UUID: decided at the end of the window."""

    def apply(self, entry: Entry) -> None:
        """Apply one command; the operations of an applyOps arrive one by one."""
        name = entry.command
        if name not in KNOWN_COMMANDS:
            self.problem("unknown-command", f"{clean(name)} at {entry.ts}", entry)
            return
        target = entry.o.get(name)
        ns = f"{entry.db}.{target}" if isinstance(target, str) else entry.ns
        self._record_removal(entry)
        if name == "create":
            self._create(ns, entry)
        elif name == "drop":
            self.catalog.drop(ns)
        elif name == "dropDatabase":
            self.catalog.drop_database(entry.db)
        elif name == "renameCollection":
            self._rename(str(target), entry)
        elif name in _BUILDS:
            self._add_indexes(ns, entry)
        elif name in _DROPS:
            self._drop_indexes(ns, entry)
        elif name == "collMod":
            self._coll_mod(ns, entry)
        elif name == "emptycapped" and ns in self.catalog.collections:
            self.catalog.collections[ns].touched = None
        elif name == "convertToCapped":
            self.problem("unknown-command", f"convertToCapped at {entry.ts}, in the form of servers before 4.4", entry)

    def is_left_to_repair(self, entry: Entry) -> bool:
        """Whether a command changes indexes, and nothing else, in a way that mongorestore does not repeat: the repair
        makes them what they must be.

        mongorestore does not connect the indexes of a time series in the oplog with those in the backup's metadata,
        and knows none that a copy of the data files or a renamed collection has. Of other changes it repeats an expiry
        in place of another, and ``hidden``: tools before 100.15 stop at all else.
        """
        name = entry.command
        ns = f"{entry.db}.{entry.o.get(name)}"
        found = self.catalog.collections.get(ns)
        if found is None:
            return False
        if name == "collMod" and set(entry.o) == {"collMod", "index"}:
            known = _named(found.indexes, _meant(entry))
            return found.kind == "timeseries" or (bool(known) and not self._is_repeated(ns, entry))
        if found.kind == "timeseries":
            return name in (*_BUILDS, *_DROPS)
        return self.running and name in _DROPS

    def _is_repeated(self, ns: str, entry: Entry) -> bool:
        """Whether mongorestore makes the change of an index in its list."""
        listed = self.catalog.listed.get(ns, {})
        specs = [listed[name] for name in _named(listed, _meant(entry))]
        changes = list(_changes(entry.o["index"]))
        return bool(specs) and (
            changes == ["hidden"] or (changes == ["expireAfterSeconds"] and all(changes[0] in spec for spec in specs))
        )

    def _record_removal(self, entry: Entry) -> None:
        """Record how many documents a drop removed, or a rename over another collection."""
        removed = removal(entry)
        found = self.catalog.collections.get(removed.ns) if removed else None
        if removed and removed.documents is not None and found is not None and found.uuid == removed.uuid:
            found.removal = removed

    def _create(self, ns: str, entry: Entry) -> None:
        options = {key: value for key, value in entry.o.items() if key not in ("create", "idIndex", "autoIndexId")}
        if "viewOn" in options:
            self.kinds.add("views")
            self.catalog.views[ns] = options
            return
        if "timeseries" in options:
            self.kinds.add("timeseries")
            if not ns.partition(".")[2].startswith(BUCKETS):
                self.problem("viewless-timeseries", f"{clean_name(ns)} is created at {entry.ts}", entry)
        if options.get("recordIdsReplicated"):
            self.kinds.add("recordIds")
        if "encryptedFields" in options:
            self.kinds.add("encrypted")
        if "validator" in options:
            self.kinds.add("validators")
        self.catalog.create(ns, entry.ui, options, _id_index(entry))

    def _rename(self, source: str, entry: Entry) -> None:
        target = str(entry.o.get("to", ""))
        temporary = source.partition(".")[2].startswith("tmp")
        self.kinds.add("out" if temporary else "rename")
        moving = self.catalog.collections.get(source)
        if moving is not None and target in self.catalog.views:
            text = f"{clean_name(source)} became {clean_name(target)} at {entry.ts}, which was a view in the backup"
            self.problem("rename-overlap", text, entry)
            return
        another = moving is not None and moving.uuid and entry.ui and moving.uuid != entry.ui
        if self.catalog.rename(source, target) and not another:
            return
        there = self.catalog.collections.get(target)
        if another or there is None or not entry.ui or there.uuid != entry.ui:
            text = f"{clean_name(source)} became {clean_name(target)} at {entry.ts}, while the backup was taken"
            self.overlaps.append((Problem("rename-overlap", text, entry.ts), entry.ui))

    def _add_indexes(self, ns: str, entry: Entry) -> None:
        self.catalog.reindexed.add(entry.ui)
        for spec in _specs(entry):
            name = str(spec.get("name"))
            if not isinstance(spec.get("key"), Mapping):
                form = "with a spec (8.2)" if "spec" in spec else "of an unknown form"
                self.problem("unknown-command", f"{entry.command} {form} at {entry.ts}", entry)
                return
            found = self.catalog.collections.get(ns)
            if found is not None and found.kind == "timeseries":
                found.indexes[name] = dict(as_defined(spec, found.options))
                continue
            self.catalog.listed.setdefault(ns, {})[name] = dict(spec)
            if found is not None:
                found.indexes[name] = dict(spec)

    def _drop_indexes(self, ns: str, entry: Entry) -> None:
        self.kinds.add("dropIndexes")
        self.catalog.reindexed.add(entry.ui)
        found = self.catalog.collections.get(ns)
        if found is not None:
            self._drop_before(found, _named(found.built, entry.o.get("index")))
        for indexes in self._changed_by(ns, entry):
            for name in _named(indexes, entry.o.get("index")):
                if name != "_id_":
                    del indexes[name]

    def _drop_before(self, found: Collection, names: Sequence[str]) -> None:
        """Have a unique index of a copy of the data files dropped before the replay: once it is gone, a value may be
        there twice."""
        for name in names:
            if found.built[name].get("unique") and found.base is not None:
                del found.built[name]
                self.catalog.dropped_before.append((found.base.stored_as, name))

    def _changed_by(self, ns: str, entry: Entry) -> list[dict[str, Index]]:
        """The indexes of the collection, and mongorestore's list of them where it gets the command."""
        found = self.catalog.collections.get(ns)
        own = [found.indexes] if found else []
        return own if self.is_left_to_repair(entry) else [self.catalog.listed.get(ns, {}), *own]

    def _coll_mod(self, ns: str, entry: Entry) -> None:
        self.kinds.add("collMod")
        found = self.catalog.collections.get(ns)
        change = entry.o.get("index")
        if isinstance(change, Mapping):
            self._change_index(ns, change, entry)
        if found is not None:
            changed = {key: value for key, value in entry.o.items() if key not in ("collMod", "index")}
            found.options |= _as_options(changed)
            if "validator" in changed:
                self.kinds.add("validators")

    def _change_index(self, ns: str, change: Mapping[str, Any], entry: Entry) -> None:
        if not self.is_left_to_repair(entry) and not self._is_repeated(ns, entry):
            if _named(self.catalog.listed.get(ns, {}), _meant(entry)):
                text = f"collMod changes an index of {clean_name(ns)} at {entry.ts} as the tools cannot repeat"
                self.problem("unknown-command", text, entry)
            else:
                text = f"collMod of {clean_name(ns)} at {entry.ts} names an index it will not find"
                self.problem("collmod-lost-index", text, entry)
        for indexes in self._changed_by(ns, entry):
            for name in _named(indexes, _meant(entry)):
                indexes[name] |= _changes(change)
                if change.get("unique"):
                    indexes[name].pop("prepareUnique", None)


def _id_index(entry: Entry) -> Index | None:
    """The index on ``_id`` that a new collection has. A create that a user sent with applyOps does not name it."""
    named = entry.o.get("idIndex")
    if isinstance(named, Mapping):
        return dict(named)
    without = entry.o.get("clusteredIndex") or entry.o.get("autoIndexId") is False
    return None if without else {"v": 2, "key": {"_id": 1}, "name": "_id_"}


def _as_options(changed: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``collMod`` as the options that the collection has afterwards."""
    options = dict(changed)
    if options.get("expireAfterSeconds") == "off":
        options["expireAfterSeconds"] = None
    if "cappedSize" in options:
        # The server rounds a size up to whole blocks of 256 bytes.
        options["size"] = -(-int(options.pop("cappedSize")) // 256) * 256
    if "cappedMax" in options:
        options["max"] = max(int(options.pop("cappedMax")), 0)
    return options


def _specs(entry: Entry) -> list[Mapping[str, Any]]:
    """The indexes that a command builds."""
    if entry.command != "commitIndexBuild":
        return [{key: value for key, value in entry.o.items() if key != "createIndexes"}]
    specs = entry.o.get("indexes")
    return specs if isinstance(specs, list) else []


def _named(indexes: Mapping[str, Mapping[str, Any]], wanted: object) -> list[str]:
    """The names of the indexes that a command means: one by name, by key pattern, or all."""
    if wanted == "*":
        return list(indexes)
    if isinstance(wanted, str):
        return [wanted] if wanted in indexes else []
    if isinstance(wanted, Mapping):
        return [name for name, spec in indexes.items() if list(spec.get("key", {}).items()) == list(wanted.items())]
    return []


def _meant(entry: Entry) -> object:
    """The name or the key pattern of the index that a collMod changes; None without one."""
    change = entry.o.get("index")
    return change.get("name", change.get("keyPattern")) if isinstance(change, Mapping) else None


def _changes(change: Mapping[str, Any]) -> dict[str, Any]:
    """What a collMod changes of an index."""
    return {key: value for key, value in change.items() if key not in ("name", "keyPattern")}
