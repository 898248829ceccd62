"""Collections that were renamed, replaced or dropped before the backup read the name that an entry gives."""

from __future__ import annotations

from collections.abc import Iterable

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry


class RemovedCollections:
    """What happened to collections, by UUID. ``begun_after`` is a position before the backup began to read."""

    def __init__(self, stored: Iterable[bytes], begun_after: Ts | None) -> None:
        self._stored = frozenset(uuid for uuid in stored if uuid)
        self._begun_after = begun_after
        self._left: dict[bytes, Ts] = {}
        self._dropped: dict[bytes, Ts] = {}

    def note(self, entry: Entry) -> None:
        """Take a command of the window."""
        if entry.command == "drop":
            self._dropped[entry.ui] = entry.ts
        elif entry.command == "renameCollection":
            self._left[entry.ui] = entry.ts
            if entry.replaced:
                self._dropped[entry.replaced] = entry.ts

    def explains(self, uuid: bytes) -> bool:
        """Whether something in the window, or another name in the backup, explains why the name is missing."""
        return uuid in self._stored or (bool(uuid) and (uuid in self._left or uuid in self._dropped))

    def dropped_before_backup(self, uuid: bytes) -> bool:
        """Whether it was dropped or replaced before the backup began to read."""
        dropped = self._dropped.get(uuid) if uuid else None
        return dropped is not None and self._begun_after is not None and dropped <= self._begun_after

    def left_before_backup(self, uuid: bytes) -> bool:
        """Whether the backup no longer saw it under its old name: it was dropped, or has another name there."""
        return uuid in self._stored or self.dropped_before_backup(uuid)
