"""Which incidents of a list are shown: by name, time and text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tallyglass.errors import InputError
from tallyglass.oplog.filter.query import OplogFilter, compile_text, glob_pattern
from tallyglass.oplog.snapshot import Incident
from tallyglass_tui import clock

INCIDENT_FILTER_HELP = "ns:shop.* ns:!*.tmp since:now-2h until:18:06 op:d text /regex/"


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """The words of a filter; all of them must match. ``text`` is the typed text, empty to show all."""

    text: str = ""
    wanted: OplogFilter = field(default_factory=OplogFilter)

    @classmethod
    def parse(cls, text: str) -> IncidentFilter:
        """Parse a typed filter. Raises InputError for a word that does not apply to incidents."""
        wanted = OplogFilter.parse(text, clock.now())
        if wanted.id or wanted.transaction or wanted.noops or wanted.destructive:
            raise InputError(
                "That filter works only on entries.", f"The filter of incidents takes {INCIDENT_FILTER_HELP}."
            )
        return cls(text.strip(), wanted)

    def shows(self, incident: Incident) -> bool:
        """Whether an incident is shown."""
        wanted = self.wanted
        if (wanted.since and incident.last < wanted.since) or (wanted.until and incident.first >= wanted.until):
            return False
        letters = {letter for letter in wanted.ops if len(letter) == 1}
        op = incident.op or "c"
        if (letters and op not in letters) or f"!{op}" in wanted.ops:
            return False
        return self._in_namespaces(incident.ns) and self._holds_text(incident)

    def _in_namespaces(self, ns: str) -> bool:
        # A dropped database is everything in it.
        names = (ns, f"{ns}." if "." not in ns else ns)
        globs = self.wanted.namespaces
        excluded = [glob[1:] for glob in globs if glob.startswith("!")]
        included = [glob for glob in globs if not glob.startswith("!")]
        if any(_matches(names, glob) for glob in excluded):
            return False
        return not included or any(_matches(names, glob) for glob in included)

    def _holds_text(self, incident: Incident) -> bool:
        text = self.wanted.text
        if not text:
            return True
        parts = (
            incident.title,
            incident.kind,
            incident.ns,
            incident.user,
            incident.by,
            incident.note,
            *incident.shards,
        )
        expression = compile_text(text)
        if expression is not None:
            found = any(expression.search(part) for part in parts)
        else:
            found = any(text.removeprefix("!").casefold() in part.casefold() for part in parts)
        return found is not text.startswith("!")


def _matches(names: tuple[str, ...], glob: str) -> bool:
    return any(re.fullmatch(glob_pattern(glob), name, re.DOTALL) for name in names)
