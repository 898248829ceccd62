"""Changes of one kind of which nobody can be sure, behind one row: an application that starts makes one on each of its
collections. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tallyglass.oplog.snapshot import Incident
from tallyglass_tui.shell.incidents import Urgency, urgency_of

_NAMED = 3
"""How many collections the row names."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The row in place of several incidents, which are counted one by one wherever incidents are."""

    incidents: tuple[Incident, ...]

    @property
    def key(self) -> str:
        """What names the row while it grows; no incident has such a key."""
        return f"\0{self.incidents[0].kind}/{self.incidents[0].op}"

    @property
    def title(self) -> str:
        """How many it stands for, and of what."""
        first = self.incidents[0]
        return f"not sure: {len(self.incidents):,} rows of {first.title.removesuffix(f' on {first.ns}')}"

    @property
    def where(self) -> str:
        """Their collections, in a few words."""
        names = [*dict.fromkeys(one.ns for one in self.incidents)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"on {', '.join(names[:_NAMED])}{more}"


def fold(incidents: Iterable[Incident], unfolded: Collection[str] = ()) -> list[Incident | Fold]:
    """The rows of incidents in their order: several that are not sure and of one kind in one row, at the place of the
    first, and themselves below it where its key is ``unfolded``."""
    families: defaultdict[tuple[str, str], list[Incident]] = defaultdict(list)
    rows: list[Incident | tuple[str, str]] = []
    for one in incidents:
        if urgency_of(one) is not Urgency.UNSURE:
            rows.append(one)
            continue
        family = (one.kind, one.op)
        if family not in families:
            rows.append(family)
        families[family].append(one)
    found: list[Incident | Fold] = []
    for row in rows:
        if isinstance(row, Incident):
            found.append(row)
            continue
        folded, own = Fold(tuple(families[row])), families[row]
        if len(own) > 1:
            found.append(folded)
        if len(own) == 1 or folded.key in unfolded:
            found += own
    return found
