"""What is wanted of a restore: the point, the backup, and how to reach the servers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.undo import Choice
from tallyglass.restore.undo.evidence import KnownStatement


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What is wanted: back to just before ``before``, or before ``incident``; one of the two is given.

    ``backup`` is a mongodump directory, an archive or data files, or a folder of backups; None to undo an incident from
    pre-images alone. ``way`` is the way that was asked for, empty for the best possible one. ``source_uri`` is the
    operator's own URI; it may hold a password, which is not passed on. ``spare`` is host:port, ``spare_uri`` its whole
    URI where it needs more than that. ``backup_start`` is an oplog position known to lie before the backup began.
    ``work_dir`` is where the commands keep their files, a new folder in the home directory if empty.
    ``own_spare_port`` is where they start a spare of their own if none is named, 0 for a free port. ``choice`` asks for
    one namespace under another name, and for nothing else. ``oplog`` is a saved oplog, a file or a folder of slices,
    that is read before the live one. ``evidence`` is what a person knows of the incident.
    """

    backup: Path | None
    source_uri: str
    before: Ts | None = None
    incident: Incident | None = None
    spare: str = ""
    spare_uri: str = ""
    backup_start: Ts | None = None
    work_dir: str = ""
    own_spare_port: int = 0
    choice: Choice | None = None
    oplog: Path | None = None
    evidence: KnownStatement | None = None
    way: str = ""

    @property
    def limit(self) -> Ts:
        """The exclusive limit. Raises InputError where neither a moment nor an incident is given."""
        if self.before is not None:
            return self.before
        if self.incident is not None:
            return self.incident.limit
        raise InputError("A restore needs a point.", "Name the moment to return to, or an incident.")

    @property
    def named_incident(self) -> Incident:
        """The incident. Raises InputError where none is named."""
        if self.incident is None:
            raise InputError("Pre-images undo an incident, and none is named.", "Name an incident.")
        return self.incident

    @property
    def only_from_backup(self) -> bool:
        """Whether it asks for what only a restore from a backup gives."""
        return bool(self.incident is None or self.choice or self.spare or self.spare_uri or self.oplog)

    @property
    def full_spare_uri(self) -> str:
        """The URI of the spare that was named."""
        return self.spare_uri or f"mongodb://{self.spare}/?directConnection=true"
