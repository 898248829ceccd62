"""Which incidents ``tallyglass watch`` prints, and how."""

from __future__ import annotations

from tallyglass.moment import Ts, iso
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan
from tallyglass_tui.cli.headless import as_json
from tallyglass_tui.cli.incident_facts import counted, facts


class IncidentJournal:
    """Which incidents of a growing list are to be printed: each once it is seen, known by whom, and ended. Pure.

    Left out are those that ended before ``since``, what is routine, and changes of low confidence: nobody reads a list
    of what may well be an application's.
    """

    def __init__(self, since: Ts) -> None:
        self._since = since
        self._told: dict[object, tuple[str, bool, int | None]] = {}

    def news(self, scan: IncidentScan) -> list[Incident]:
        """What is to be printed now, oldest first."""
        found = []
        for one in scan.incidents if scan.done else ():
            if one.last <= self._since or one.routine or (one.confidence == "low" and one.harm is not Harm.LOSS):
                continue
            key = (one.kind, one.ns, one.first, one.session)
            known, said = self._told.get(key), (one.by, one.open, one.documents)
            # That it has grown and goes on is nothing new.
            if known is None or (known[0] != one.by if one.open else known != said):
                self._told[key] = said
                found.append(one)
        return sorted(found, key=lambda one: one.number)


def line_of(incident: Incident, wants_json: bool) -> str:
    """One incident as a line, or as a JSON document; its number means nothing here."""
    if wants_json:
        return as_json(facts(incident) | {"number": None})
    grade = incident.evidence.grade if incident.evidence else "none"
    who = f"{incident.by} ({grade})" if incident.by else "nobody known"
    goes_on = ", goes on" if incident.open else ""
    unsure = "  (low confidence)" if incident.confidence == "low" else ""
    what = f"{incident.title}  {counted(incident)}{goes_on}"
    return f"{iso(incident.first.time)}  {what}  by {who}  --before {incident.limit}{unsure}"
