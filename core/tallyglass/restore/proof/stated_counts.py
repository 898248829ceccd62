"""Document counts that the oplog records: in ``drop``, and in ``renameCollection`` over another collection."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.moment import Ts


@dataclass(frozen=True, slots=True)
class StatedCount:
    """``ns`` as stored; ``documents`` is the entry's ``numRecords``."""

    ns: str
    documents: int
    ts: Ts


@dataclass(frozen=True, slots=True)
class CountMismatch:
    """A count recorded in the oplog that differs from what backup and oplog give."""

    stated: StatedCount
    computed: int
