"""What accidents had changed that earlier returns undid: a later undo may bring that back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.changes import Path, changes_of
from tallyglass.oplog.read.entries import edge, operations
from tallyglass.restore.undo.accident import Attribution, update_of
from tallyglass.restore.undo.earlier_returns import earlier_returns
from tallyglass.restore.undo.history import OWN, History, HistoryStep
from tallyglass.restore.undo.values import related


@dataclass(frozen=True, slots=True)
class EarlierChange:
    """A change in one document by an accident that was undone by ``undone``: what a later undo brings back from before
    ``undone`` may be what it left."""

    ts: Ts
    undone: Ts
    paths: frozenset[Path]


async def undone_before(source: Gateway, history: History, began: Ts | None) -> dict[bytes, list[EarlierChange]]:
    """What accidents changed that earlier returns since the point undid, by document; all that they may have changed.
    Raises the errors of the gateway, and ReadError where the oplog no longer reaches back to there."""
    found: dict[bytes, list[EarlierChange]] = {}
    async for accident, begun in earlier_returns(source, history.staging(), began):
        attribution = Attribution(accident)
        oldest = await edge(source, 1)
        if oldest is None or oldest.ts > accident.first:
            raise ReadError("The oplog does not reach back to what was undone earlier any more.", "Compare manually.")
        effect = attribution.effect
        async for entry, whole in operations(source, history.ns, accident.first):
            if not attribution.spans(whole.ts):
                break
            changes = changes_of(update_of(entry)) if entry.op == "u" else {}
            touches = bool(changes) and effect is not None and effect.touches(changes)
            may_be_its_own = attribution.owns(entry, whole) or (touches and attribution.may_own_update(whole))
            if entry.ns == history.ns and may_be_its_own:
                change = EarlierChange(whole.ts, begun, frozenset(changes))
                found.setdefault(entry.id_key, []).append(change)
    return found


def comes_back(earlier: Iterable[EarlierChange], steps: list[HistoryStep]) -> bool:
    """Whether the accident wrote over, or removed, what an earlier one had left that is undone: then the undo of that
    did not set it back."""
    for step in steps:
        if step.owner != OWN:
            continue
        paths = changes_of(step.o) if step.op == "u" else ()
        for one in earlier:
            alike = not paths or not one.paths or any(related(path, other) for path in paths for other in one.paths)
            if one.ts < step.ts < one.undone and alike:
                return True
    return False
