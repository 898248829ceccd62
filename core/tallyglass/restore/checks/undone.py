"""Is it known what the return undoes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.wording import path_text
from tallyglass.oplog.snapshot import Incident, time_series_of
from tallyglass.restore.model.check import LETS_GO, STAYS, Checks, block, warn
from tallyglass.restore.model.undo import Accident, Return, Strategy, WriteGroup
from tallyglass.restore.proof.findings import Assessed, Findings
from tallyglass.restore.undo.accident import UpdateEffect
from tallyglass.restore.undo.evidence import as_options, logged_statement
from tallyglass.restore.undo.expiry import decides, lets_go
from tallyglass.restore.undo.incident_scope import DEFINITIONS
from tallyglass.text import clean, clean_name, plural

_SHOWN = 8
"""Groups in one check; plan.json and the page list all."""
_ADVICE = (
    "Say what was run and how many documents it reported, with --statement and --count. Or, to undo one of them alone, "
    "plan with --before and its first entry instead of the incident: that undoes the updates which do the same from "
    "there on, and every delete from there on. To compare first, add --only NS."
)

_AGAIN = (
    "Such a document is not brought back. The run lists those that differ from what was removed as unclear, and then "
    "ends with 3."
)
_COMPARED = (
    "The run compares each with the document before it. If not as many as reported fit, it stops before it writes."
)


def undone(found: Findings) -> Checks:
    """Are the entries of the incident one statement, and can each document be set back?"""
    assessed, incident = found.assessed, found.inputs.incident
    if assessed is None or assessed.inferred is None:
        return
    inferred, accident = assessed.inferred, assessed.inferred.accident
    if incident is None:
        yield from stays(assessed.covered.located.at_limit)
    yield from removed(assessed)
    merged = {row.ns for row in assessed.returns if row.strategy is Strategy.MERGE}
    large = assessed.replayed.base.large
    yield from large_documents(accident, {ns: large[ns] for ns in large if ns in merged})
    yield from expired(accident, assessed.expiring)
    yield from unclear(accident, inferred.doubts, inferred.groups, incident)
    yield from inserted_again(assessed.returns)


def stays(at_limit: Entry | None) -> Checks:
    """Does the entry at the point do what only an incident's plan undoes?"""
    if at_limit is None:
        return
    more = at_limit.txn is not None and (at_limit.previous is not None or at_limit.command != "applyOps")
    updates = more or any(one.op == "u" for one in at_limit.inner())
    replaces = at_limit.command == "renameCollection" and bool(at_limit.replaced)
    if updates or replaces:
        what = "a transaction: what it updated" if updates else "a rename over another collection: what is live there"
        title = f"The entry at the point is {what} stays, since no incident is named. The run ends with 3."
        yield warn(STAYS, title, "Plan with --incident N: see tallyglass incidents.")


def removed(assessed: Assessed) -> Checks:
    """Did the incident let the server remove documents? A plan for a definition brings none back."""
    at, incident = assessed.covered.located.at_limit, assessed.inputs.incident
    if at is None or incident is None or incident.kind not in DEFINITIONS or not lets_go(at):
        return
    changed, name = assessed.loss.changed.get(at.target), clean_name(time_series_of(at.target) or at.target)
    count = plural(changed.deletes if changed else 0, "document was", "documents were")
    title = f"{name}: it lets the server remove documents, and {count} deleted there since. This plan "
    title += "brings none back. The run lists those that were deleted without a session as unclear, and ends with 3."
    yield warn(LETS_GO, title, "Set the limit back, and plan for the incident of the deletes.")


def large_documents(accident: Accident, large: Mapping[str, int]) -> Checks:
    """The limit of a repair, where there are documents for which it may count; ``large`` is how many by namespace."""
    for ns, count in large.items() if accident.updates or accident.kind == "transaction" else ():
        if count:
            more = plural(count, "document has", "documents have")
            title = (
                f"{clean_name(ns)}: {more} more than 8 MB. One in which the accident put a long value over another is "
                "left and listed, if both together have more than 16 MB."
            )
            yield warn("large-documents", title, "Replace such documents manually, from the images or the spare.")


def expired(accident: Accident, expiring: Mapping[str, frozenset[str] | None]) -> Checks:
    """May documents have expired by what the accident wrote? ``expiring`` are the fields by which they do, None where
    that could not be read."""
    effect = UpdateEffect.of(accident.effect)
    for ns, fields in expiring.items():
        if fields is None:
            title = (
                f"{clean_name(ns)}: whether it has a TTL index could not be read (listIndexes), which the run needs."
            )
            yield warn("expired-unknown", title)
            continue
        names = sorted(one for one in fields if effect is None or decides(effect.paths, (one,)))
        if names:
            title = (
                f"{clean_name(ns)}: a TTL index removes documents by {clean(', '.join(names), 200)}, which the "
                "accident wrote. Those that were deleted without a session while its value stood there may have "
                "expired by it: they are left and listed as unclear, and the run then ends with 3."
            )
            yield warn(
                "expired-by-accident",
                title,
                "Insert those that should be there manually, from the images or the spare.",
            )


def inserted_again(returns: Sequence[Return]) -> Checks:
    """Were the ``_id``s of removed documents inserted again?"""
    for row in returns:
        if row.again:
            ids = plural(row.again, "removed _id was", "removed _ids were")
            yield warn("inserted-again", f"{clean_name(row.ns)}: {ids} inserted again after the point.", _AGAIN)


def computed(accident: Accident) -> Checks:
    """Did the accident compute what it wrote? Nobody said how, so the run has to find it."""
    effect = UpdateEffect.of(accident.effect)
    if effect is not None and effect.computed:
        paths = ", ".join(map(path_text, sorted(effect.computed)[:_SHOWN]))
        title = f"{clean_name(accident.ns)}: different values were written to {paths}. The run stops before it writes, "
        title += "unless one sum or one product explains all of them."
        yield warn("values-differ", title, "If you know what was run, add --statement or --count.")


def unclear(
    accident: Accident, doubts: Sequence[str], groups: Sequence[WriteGroup], incident: Incident | None = None
) -> Checks:
    """The check that blocks where the entries may be several statements, or others', and the one that warns where the
    documents before the entries decide. What the server's records say of the incident is given as the options that
    confirm it."""
    if incident is not None and incident.open and not accident.proven:
        title = f"{incident.title} may still go on: it was seconds old when it was read. What it writes after "
        title += f"{incident.last} stays."
        yield warn("incident-open", title, "Plan again once it has ended.")
    if not doubts:
        if accident.count is not None and accident.entries > accident.count:
            title = f"{accident.entries:,} entries may be of the statement, which reported {accident.count:,}."
            yield warn("incident-compared", title, _COMPARED)
        elif not (accident.statement or accident.proven):
            yield from computed(accident)
        return
    more = f"; and {len(groups) - _SHOWN} more groups" if len(groups) > _SHOWN else ""
    shown = f" Found: {'; '.join(row.brief for row in groups[:_SHOWN])}{more}." if groups else ""
    title = f"{clean_name(accident.ns)}: these may be several statements. {' '.join(doubts)}{shown}"
    options = as_options(*logged_statement(incident))
    logged = f" The server's log has it; if that is right, add {options}." if options else ""
    yield block("incident-unclear", title, _ADVICE + logged)
