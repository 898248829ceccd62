"""The collections of the spare as a replay changes them, and mongorestore's own list of indexes.

The two differ on purpose. mongorestore builds indexes at the very end, from a list that it keeps by name; a rename
moves the collection but not its entry in that list, so the indexes are built under the old name. What has that name by
then may not take them: it is a view, has such keys under another name, or holds a value twice where one is unique.
mongorestore stops there, so it builds none in such a window, and the repair builds all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tallyglass.restore.backup.backup import LEFT_OUT, StoredCollection
from tallyglass.restore.model.indexes import canonical_index, is_id_index
from tallyglass.restore.model.proof import stored_as
from tallyglass.restore.proof.id_states import IdStates, IdStore
from tallyglass.restore.timeline.timeline import Removal

Index = dict[str, Any]


@dataclass(slots=True)
class Collection:
    """One collection under the name it is stored by; ``indexes`` are as its user defines them. ``base`` is what the
    backup holds of it; None when it was created by the replay. ``touched`` are the documents that the replay writes;
    None when they are not counted."""

    kind: str
    uuid: bytes
    options: dict[str, Any]
    indexes: dict[str, Index]
    base: StoredCollection | None = None
    touched: IdStates | None = None
    built: dict[str, Index] = field(default_factory=dict)
    """Indexes that already exist: on a spare that runs on a copy of the data files."""
    removal: Removal | None = None
    """What the entry that dropped it records, with the document count."""

    @property
    def is_capped(self) -> bool:
        """Whether the server removes its oldest documents to make room."""
        return bool(self.options.get("capped"))


class Catalog:
    """All collections by stored name, and mongorestore's index list by name."""

    def __init__(
        self, stored: Mapping[str, StoredCollection], *, running: bool = False, counts_capped: bool = True
    ) -> None:
        """``running`` means that the collections and their indexes are already on the spare. Without ``counts_capped``
        nothing tells what capped collections removed to make room, before the window, in it, and after it."""
        self.ids = IdStore()
        self._counts_capped = counts_capped
        self.collections: dict[str, Collection] = {}
        self.listed: dict[str, dict[str, Index]] = {}
        self.builds_indexes = True
        """Whether mongorestore builds those of its list; without, the repair builds all. Known at the :meth:`end`."""
        self.views: dict[str, dict[str, Any]] = {}
        self.leftovers: list[str] = []
        self.dropped_before: list[tuple[str, str]] = []
        """Indexes that already exist and are dropped before the replay, with what the collection is called then."""
        self.reindexed: set[bytes] = set()
        """The UUIDs of the collections whose indexes were built or dropped during the replay."""
        self.removed: list[Collection] = []
        """Collections that were dropped or replaced during the replay."""
        for item in stored.values():
            if item.ns.partition(".")[0] in LEFT_OUT:
                continue
            if item.kind in ("view", "timeseries"):
                self.views[item.ns] = item.options
                self._open_views(item.ns.partition(".")[0])
            if item.kind != "view":
                indexes = {str(spec.get("name")): dict(spec) for spec in item.indexes}
                self.collections[item.stored_as] = Collection(
                    item.kind,
                    item.uuid_bytes,
                    dict(item.options),
                    indexes,
                    item,
                    self._touched(item.options),
                    built={name: dict(spec) for name, spec in indexes.items()} if running else {},
                )
                if running:
                    continue
                self.listed[item.ns if item.kind == "timeseries" else item.stored_as] = {
                    name: dict(spec) for name, spec in indexes.items() if not is_id_index(spec)
                }

    def _touched(self, options: Mapping[str, Any]) -> IdStates | None:
        return None if options.get("capped") and not self._counts_capped else self.ids.new()

    def _open_views(self, db: str) -> None:
        self.collections.setdefault(f"{db}.system.views", Collection("views", b"", {}, {}, touched=self.ids.new()))

    def create(self, ns: str, uuid: bytes, options: dict[str, Any], id_index: Index | None) -> None:
        """``create``: if the name already exists, the server accepts it and changes nothing."""
        if ns in self.collections:
            return
        kind = "timeseries" if "timeseries" in options else "collection"
        indexes = {"_id_": dict(id_index)} if id_index else {}
        self.collections[ns] = Collection(kind, uuid, options, indexes, touched=self._touched(options))

    def drop(self, ns: str) -> None:
        """``drop``: also from the index list. A missing collection is accepted."""
        self._remove(ns)
        self.listed.pop(ns, None)

    def drop_database(self, db: str) -> None:
        """``dropDatabase``: all collections of the database."""
        for name in [name for name in self.collections if name.startswith(f"{db}.")]:
            self._remove(name)
        for name in [name for name in self.listed if name.startswith(f"{db}.")]:
            del self.listed[name]
        for name in [name for name in self.views if name.startswith(f"{db}.")]:
            del self.views[name]

    def rename(self, source: str, target: str) -> bool:
        """``renameCollection``, replacing any target. False if the source does not exist.

        The server does not know the UUID of the target that is to be dropped, since mongorestore takes UUIDs out: it
        renames that collection away and leaves it.
        """
        moving = self.collections.pop(source, None)
        if moving is None:
            return False
        if target in self.collections:
            self._remove(target)
            self.leftovers.append(f"{target.partition('.')[0]}.tmp?????.rename")
        self.collections[target] = moving
        return True

    def _remove(self, ns: str) -> None:
        removed = self.collections.pop(ns, None)
        if removed is not None:
            self.removed.append(removed)

    def end(self) -> None:
        """End the replay: decide who builds the indexes."""
        self.builds_indexes = not any(self._misfits(ns, indexes) for ns, indexes in self.listed.items())

    def _misfits(self, ns: str, indexes: Mapping[str, Index]) -> bool:
        """Whether these indexes would be built on what must not have them; a name that is free does no harm."""
        is_series = "timeseries" in self.views.get(ns, {})
        item = self.collections.get(stored_as(ns, "timeseries" if is_series else "collection"))
        if item is None:
            return bool(indexes) and ns in self.views
        return any(_unlike(indexes, item.indexes))

    def missing_indexes(self, ns: str, stored: str) -> list[Index]:
        """The indexes that ``ns``, stored by that name, must have and that are not there after the replay."""
        item = self.collections[stored]
        there = {**item.built, **(self.listed.get(ns, {}) if self.builds_indexes else {})}
        return [spec for _, spec in _unlike(item.indexes, there) if not is_id_index(spec)]

    def surplus_indexes(self, stored: str) -> list[str]:
        """The names of indexes that the collection stored by that name has after the replay and must not have."""
        item = self.collections.get(stored)
        return [] if item is None else [name for name, _ in _unlike(item.built, item.indexes)]

    def phantoms(self) -> list[str]:
        """Collections that mongorestore creates by building indexes under a name that no longer exists."""
        known = set(self.collections) | set(self.views)
        return sorted(ns for ns, indexes in self.listed.items() if indexes and self.builds_indexes and ns not in known)


def _unlike(some: Mapping[str, Index], others: Mapping[str, Index]) -> Iterator[tuple[str, Index]]:
    """Those of some indexes that the others lack by their name, or have otherwise."""
    for name, spec in some.items():
        other = others.get(name)
        if other is None or canonical_index(other) != canonical_index(spec):
            yield name, spec
