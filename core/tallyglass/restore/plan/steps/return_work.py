"""What the return of a plan writes, as far as the plan itself does not say it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Accident, Strategy
from tallyglass.restore.proof.findings import Assessed
from tallyglass.restore.proof.speed import DOCUMENTS_A_SECOND


@dataclass(frozen=True, slots=True)
class Damage:
    """How many operations of the accident hit a namespace, and how many documents others wrote there since."""

    by_accident: int = 0
    by_others: int = 0

    def of(self, accident: Accident | None, ns: str) -> Damage:
        """The damage of a namespace if as many operations are the accident's as were found to be, where they were."""
        if accident is None or accident.ns != ns or not accident.entries:
            return self
        return Damage(accident.entries, self.by_accident + self.by_others - accident.entries)


@dataclass(frozen=True, slots=True)
class ReturnWork:
    """A proven ``plan``, and by namespace the ``damage``, how many ``documents`` come back (None if that was not
    computed), and the ``paths`` of the counter values in them.

    ``fixes`` and ``live_fixes`` are the mongosh statements for counters on the spare and on the live set,
    ``definitions`` those for indexes and validators that a person decides on.
    """

    plan: Plan
    damage: dict[str, Damage] = field(default_factory=dict)
    documents: dict[str, int | None] = field(default_factory=dict)
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fixes: tuple[str, ...] = ()
    live_fixes: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """An estimate for one pass over the damaged documents; None where their number is not known."""
        written = [row.ns for row in self.plan.undo.returns if row.strategy in (Strategy.MERGE, Strategy.REPLACE)]
        hit = [self.damage.get(ns, Damage()).by_accident or self.documents.get(ns) for ns in written]
        return sum(filter(None, hit)) / DOCUMENTS_A_SECOND if hit and None not in hit else None


def return_work(plan: Plan, assessed: Assessed) -> ReturnWork:
    """The return from a spare."""
    returns, changed, counters = plan.undo.returns, assessed.loss.changed, assessed.counters
    loaded = {row.ns for row in returns if row.strategy is Strategy.WHOLE or row.beside}
    expected = {item.ns: item.documents for item in plan.proof.expected}
    # A counter that was raised on the spare earlier may be new there.
    made = Counter(ns for ns, _ in {(fix.ns, fix.row.id) for fix in counters.fixes if fix.makes})
    counts = {row.ns: expected.get(row.ns) for row in returns}
    return ReturnWork(
        plan,
        {
            row.ns: Damage(changed[row.ns].by_incident, changed[row.ns].others).of(plan.undo.accident, row.ns)
            for row in returns
            if row.ns in changed
        },
        {ns: None if count is None else count + made[ns] for ns, count in counts.items()},
        {row.ns: tuple(counters.paths.get(row.ns, ())) for row in returns},
        tuple(fix.on_spare() for fix in counters.fixes if fix.ns in loaded),
        tuple(fix for fixes in live_fixes(assessed).values() for fix in fixes),
        assessed.definitions.statements,
    )


def live_fixes(assessed: Assessed) -> dict[str, list[str]]:
    """The statements that move counters forward on the live set, by namespace."""
    back = {row.ns for row in assessed.returns if row.strategy is not Strategy.BESIDE}
    fixes: dict[str, list[str]] = {}
    for fix in assessed.counters.fixes:
        statement = fix.on_source(comes_back=fix.ns in back)
        if statement:
            fixes.setdefault(fix.ns, []).append(statement)
    return fixes
