"""What a restore undoes, what it leaves as it is, and how each namespace comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tallyglass.moment import Ts, iso
from tallyglass.text import clean

NEVER = Ts(2**32, 0)
"""After every entry."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """What the accident's updates do at one path, given by its names in hexadecimal. ``value`` is the BSON type and
    the bytes that all of them set there, in hexadecimal; empty where they remove the field, None where values differ.
    ``always``: an update that leaves the path as it was is none of them.
    """

    path: tuple[str, ...]
    value: str | None
    always: bool = False


@dataclass(frozen=True, slots=True)
class Accident:
    """Which operations after the point are to be undone.

    ``kind``: ``updates`` or ``deletes`` of the collection ``ns``, a ``removal`` (drop, dropDatabase, emptied), one
    ``transaction``, or ``everything``: all deletes and removals after the point, since no incident was named. ``first``
    and ``last`` bound it, both inclusive; None for no end. ``session`` is the id of the client session as hex
    where it is known that one client did it, ``any`` for several sessions. ``updates`` means that updates of ``ns``
    belong to it, up to ``updates_last``: those with this ``effect``, or those under the transaction number ``command``
    where one command of a session made all of them. ``entries`` is how many operations the plan found to be its own; 0
    where they were not counted. ``statement`` and ``count`` are what a person knows of it: its text, and how many
    documents it reported. ``proven``: all that the statement explains is its own, if it is as many as that.
    """

    kind: str
    ns: str
    first: Ts
    last: Ts | None
    session: str = ""
    updates: bool = False
    updates_last: Ts | None = None
    effect: tuple[FieldChange, ...] = ()
    command: int | None = None
    entries: int = 0
    statement: str = ""
    count: int | None = None
    proven: bool = False

    @property
    def updates_end(self) -> Ts:
        """Where its updates end at the latest."""
        return self.updates_last or self.last or NEVER


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Entries of the oplog that do the same: ``what``, on how many ``documents`` of ``ns``, the first and the last of
    the ``entries``, and ``samples`` of the ``_id``s; all safe to show. Numbers are None where they are not known.
    ``why`` says why they are left out; empty where they are not. ``statement`` is an ``updateMany`` that would leave
    such entries, empty where that cannot be said.
    """

    ns: str
    what: str
    documents: int | None
    first: Ts
    last: Ts
    entries: int | None = None
    samples: tuple[str, ...] = ()
    why: str = ""
    statement: str = ""

    @property
    def line(self) -> str:
        """The row as one line, safe to show."""
        counts = ((self.entries, "entry"), (self.documents, "document"))
        known = [_counted(number, noun) for number, noun in counts if number is not None]
        documents = " on ".join(known) or "documents"
        span = f"{self.first} ({iso(self.first.time)})"
        span += f" to {self.last} ({iso(self.last.time)})" if self.last != self.first else ""
        such = f"; _id {', '.join(self.samples)}" if self.samples else ""
        more = " and others" if such and len(self.samples) not in (self.documents, self.entries) else ""
        left = f"; reason: {self.why}" if self.why else ""
        return f"{self.ns}: {self.what}; {documents}, {span}{such}{more}{left}"

    @property
    def brief(self) -> str:
        """The row in a list of groups of one namespace, safe to show."""
        what = f": {self.what}" if self.what else ""
        such = f", _id {', '.join(self.samples)}" if self.samples else ""
        clock = f"{self.first.time:%H:%M:%S}Z to {self.last.time:%H:%M:%S}Z"
        return f"{_counted(self.entries or 0, 'entry')}{what} ({self.first} to {self.last}, {clock}{such})"


def _counted(number: int, noun: str) -> str:
    plural = "entries" if noun == "entry" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


class Strategy(StrEnum):
    """How one namespace comes back to the live set."""

    WHOLE = "whole"
    """Nothing of its name is live: loaded into a staging collection, which is then renamed."""
    MERGE = "merge"
    """Loaded into a staging collection, then merged: what others wrote after the point stays."""
    REPLACE = "replace"
    """Loaded into a staging collection, which then replaces the live one; a copy of that is kept."""
    COPY = "copy"
    """Restored under another name on request: to compare or to export."""
    BESIDE = "beside"
    """Loaded into a staging collection, for a person to compare; nothing is merged."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One namespace that is wanted as it was at the point, under the name ``target``; ``ids`` are the ``_id``s of the
    documents that are wanted of it, as Extended JSON, empty for all."""

    ns: str
    target: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Return:
    """How one namespace comes back: ``beside`` is its staging collection; ``kept`` counts what others
    wrote after the point, all of which stays; ``note`` states any doubt; ``away`` is the name under
    which a copy of the live collection is kept when that is replaced; ``recreated``: the collection was removed and
    created again, so its indexes and options come back too. ``again`` counts the documents that were removed and whose
    ``_id`` was inserted again since, as far as the oplog shows that: such a document does not come back."""

    ns: str
    strategy: Strategy
    beside: str = ""
    kept: int = 0
    note: str = ""
    away: str = ""
    recreated: bool = False
    again: int = 0

    @property
    def repairs(self) -> str:
        """Where the repairs of the live collection are loaded; of one that is replaced, what others wrote since."""
        return f"{self.beside}_since" if self.strategy is Strategy.REPLACE else self.beside

    @property
    def copied(self) -> str:
        """The name of the copy of a live collection until the names change, as the helpers in JavaScript know it."""
        return f"{self.beside}_kept"


@dataclass(frozen=True, slots=True)
class PlanUndo:
    """What a plan brings back: what undoes the ``accident``, or the ``choice`` of one namespace as it was.

    ``undone`` is one row for each effect on each namespace; ``left_out`` was written there at the time and is left out
    of it, with the reason. ``groups``, where the entries of the incident may be several statements: what was found, for
    a person to choose from. ``raised`` are the namespaces of the counters that are raised on the live set, ``defined``
    those whose indexes and validator a person may set back.
    """

    accident: Accident | None = None
    choice: Choice | None = None
    undone: tuple[WriteGroup, ...] = ()
    left_out: tuple[WriteGroup, ...] = ()
    groups: tuple[WriteGroup, ...] = ()
    returns: tuple[Return, ...] = ()
    raised: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()

    def lines(self, rest: str) -> Iterator[str]:
        """What is undone, and what stays, one row a line, of each 20 at most; ``rest`` says where the others are."""
        for word, rows in (("undone", self.undone), ("stays", self.left_out)):
            yield from (f"{word}: {clean(row.line, 1_000)}" for row in rows[:_MOST_ROWS])
            if len(rows) > _MOST_ROWS:
                yield f"{word}: {len(rows) - _MOST_ROWS} more rows; {rest}"


_MOST_ROWS = 20
"""So that what comes after them is not scrolled away."""
