"""The first stage of a proof: what was named, before the oplog is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.deployment.cluster import Deployment
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import Contents
from tallyglass.restore.model.undo import Choice
from tallyglass.restore.saved_oplog.joined import Saved
from tallyglass.restore.spare.spare import Spare
from tallyglass.restore.tools.tool_uri import ToolUri
from tallyglass.restore.tools.toolset import Tools
from tallyglass.restore.undo.evidence import KnownStatement


@dataclass(frozen=True, slots=True)
class Inputs:
    """The point, the source, the backup and the spare, before the oplog is looked at.

    ``evidence`` is what a person knows of the incident. ``choice`` is set where one namespace is wanted under another
    name. ``spare`` describes a named spare. ``uri_trouble`` says why a URI cannot be used; ``free_bytes`` are those of
    the work directory, None if not known.
    """

    limit: Ts
    deployment: Deployment
    contents: Contents
    incident: Incident | None = None
    tools: Tools | None = None
    source_uri: ToolUri | None = None
    spare_uri: ToolUri | None = None
    own_spare: int = 0
    spare: Spare | None = None
    uri_trouble: str = ""
    free_bytes: int | None = None
    choice: Choice | None = None
    evidence: KnownStatement | None = None
    saved: Saved | None = None


def is_broken(inputs: Inputs) -> bool:
    """Whether the saved oplog cannot be used for what is asked: an entry that is needed is missing, or it is not one
    oplog with the live one."""
    saved = inputs.saved
    if saved is None:
        return False
    if saved.oplog.differs or saved.join.differs:
        return True
    return saved.hole is not None and (inputs.choice is None or saved.hole.after < inputs.limit)
