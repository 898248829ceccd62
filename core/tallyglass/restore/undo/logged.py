"""What the server's own records say of the statement behind an incident: what a person is asked to confirm."""

from __future__ import annotations

from tallyglass.errors import InputError
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.undo.evidence import read_evidence
from tallyglass.text import shell_quote


def logged_statement(incident: Incident | None) -> tuple[str, int | None]:
    """The text of the one statement that wrote an incident, and how many documents of it that wrote: empty and None
    where that is not known, or was several statements. A text that cannot be read as evidence is left out."""
    who = incident.evidence.who if incident is not None and incident.evidence is not None else None
    if who is None or who.server or who.statements != 1:
        return "", None
    try:
        read_evidence(who.statement, who.documents)
    except InputError:
        return "", who.documents
    return who.statement, who.documents


def as_options(statement: str, count: int | None) -> str:
    """Evidence as options of ``restore plan``; empty for none."""
    words = [f"--statement={shell_quote(statement)}"] if statement else []
    return " ".join([*words, *([f"--count={count}"] if count is not None else [])])
