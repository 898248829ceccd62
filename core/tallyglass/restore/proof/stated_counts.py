"""Document counts that the oplog records: in ``drop``, and in ``renameCollection`` over another collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tallyglass.moment import Ts
from tallyglass.restore.timeline.timeline import Removal


@dataclass(frozen=True, slots=True)
class StatedCount:
    """``ns`` as stored; ``documents`` is the entry's ``numRecords``."""

    ns: str
    documents: int
    ts: Ts

    @classmethod
    def of(cls, removed: Removal, ts: Ts) -> Self | None:
        """The count that the removal of a collection records, if it records one."""
        return None if removed.documents is None else cls(removed.ns, removed.documents, ts)


@dataclass(frozen=True, slots=True)
class CountMismatch:
    """A count recorded in the oplog that differs from what backup and oplog give."""

    stated: StatedCount
    computed: int
