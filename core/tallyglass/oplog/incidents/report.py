"""An incident as a report to pass on: what happened, when, who wrote it and how sure that is, and what lies near it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tallyglass import __version__
from tallyglass.deployment.cluster import Deployment
from tallyglass.evidence.statement import without_values
from tallyglass.moment import iso
from tallyglass.oplog.snapshot import Candidate, Certainty, Harm, Incident
from tallyglass.report.document import Bar, Block, Code, Document, Facts, Paragraph, Section, Table, TimeLine
from tallyglass.text import plural

NEAR = 11
"""How many other incidents the time line shows."""

HIDDEN = "hidden (--values shows it)"
"""In place of a value of a document."""

_HARM = {
    Harm.LOSS: "Data were removed.",
    Harm.CHANGE: "Data were changed.",
    Harm.DEFINITION: "Definitions were changed.",
}
_GRADE = {
    Certainty.EXACT: "exact: a key of the oplog entry is in the server's record",
    Certainty.UNIQUE: "unique: only one client's statements fit",
    Certainty.AMBIGUOUS: "ambiguous: several clients' statements fit",
    Certainty.NONE: "none: the records name nobody",
}


def document_of(
    incident: Incident, others: Sequence[Incident], deployment: Deployment, made: datetime, *, values: bool
) -> Document:
    """The report of one incident among ``others``. Without ``values`` nothing that stands in a document is shown: no
    ``_id``, and statements without their constants."""
    hidden = "" if values else " Values of documents are hidden."
    return Document(
        f"{incident.title}, {iso(incident.began)}",
        [Facts([("deployment", deployment.label), ("server", deployment.server or f"MongoDB {deployment.version}")])],
        list(_sections(incident, others, values=values)),
        f"Made by Tallyglass {__version__}, {iso(made.replace(microsecond=0))}.{hidden}",
    )


def _sections(incident: Incident, others: Sequence[Incident], *, values: bool) -> Iterator[Section]:
    yield Section("What happened", [Paragraph(_HARM[incident.harm]), Facts(_what(incident, values=values))])
    yield Section("When", [TimeLine([_bar(one, incident) for one in _near(incident, others)])])
    yield Section("Who", list(_who(incident, values=values)))


def _what(incident: Incident, *, values: bool) -> list[tuple[str, str]]:
    documents = "unknown" if incident.documents is None else f"{incident.documents:,}"
    if incident.documents is not None and incident.time_series:
        documents = f"{plural(incident.documents, 'bucket')}; how many measurements is unknown"
    if incident.documents is not None and not incident.documents_exact:
        documents += ", among them some of the application's own"
    return [
        ("what", incident.title),
        ("namespace", incident.ns),
        ("documents", documents),
        ("oplog entries", f"{incident.ops:,}"),
        ("first entry", _moment(incident.first_wall, incident.first.time)),
        ("last entry", _moment(incident.last_wall, incident.last.time) + (" (it goes on)" if incident.open else "")),
        ("oplog position", f"{incident.first} to {incident.last}"),
        ("to undo it", f"return to just before {incident.limit}"),
        ("shards", ", ".join(incident.shards)),
        ("some of the _ids", (", ".join(incident.samples) if values else HIDDEN) if incident.samples else ""),
        ("one or several", incident.reading),
        ("note", incident.note),
        ("routine", incident.reason if incident.routine else ""),
    ]


def _moment(wall: datetime | None, cluster: datetime) -> str:
    return iso(wall) if wall else f"{iso(cluster)} (cluster time)"


def _near(incident: Incident, others: Sequence[Incident]) -> list[Incident]:
    """The incident and the surest of those closest to it in time, oldest first."""
    at = incident.first.time
    acts = [one for one in others if one.number != incident.number and not one.routine and one.confidence == "high"]
    acts.sort(key=lambda one: abs((one.first.time - at).total_seconds()))
    return sorted([incident, *acts[:NEAR]], key=lambda one: one.first)


def _bar(one: Incident, chosen: Incident) -> Bar:
    return Bar(one.title, one.began, max(one.began, one.ended), one.number == chosen.number)


def _who(incident: Incident, *, values: bool) -> Iterator[Block]:
    found = incident.evidence
    yield Paragraph(incident.who, strong=True)
    if found is None:
        yield Paragraph("No record of the server was compared with it.")
        return
    yield Facts([("grade of evidence", _GRADE[found.grade]), ("record", found.source), ("why", found.reason)])
    if found.candidates:
        head = ("account", "application", "from", "documents", "statements", "from when", "until")
        yield Table(head, [_candidate(one) for one in found.candidates], frozenset({3, 4}))
    for one in found.candidates:
        if one.statement:
            yield Code([_shown(one.statement, values=values), *([f"plan: {one.plan}"] if one.plan else [])])
        if one.beside:
            yield Paragraph(f"What else {one.name} wrote within ten minutes:")
            yield Code([_shown(line, values=values) for line in one.beside])


def _candidate(one: Candidate) -> tuple[str, ...]:
    return (
        one.user or "unknown",
        one.application or "unknown",
        ", ".join(one.clients) or one.connection or "unknown",
        "unknown" if one.documents is None else f"{one.documents:,}",
        str(one.statements or ""),
        iso(one.began) if one.began else "",
        iso(one.ended) if one.ended else "",
    )


def _shown(statement: str, *, values: bool) -> str:
    return statement if values else without_values(statement)
