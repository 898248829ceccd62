"""Everything that was found out for one plan, before it is judged. Filled by the planner, read by the checks."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallyglass.deployment.cluster import Deployment
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import Contents
from tallyglass.restore.impact.definitions import Definitions
from tallyglass.restore.impact.loss import LossCount
from tallyglass.restore.impact.reissue import Found as CounterFacts
from tallyglass.restore.model.plan import Return
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.replay.base import BaseFacts
from tallyglass.restore.replay.chains import Chain, is_left_out
from tallyglass.restore.replay.coverage import Start
from tallyglass.restore.replay.replay import Replay
from tallyglass.restore.spare.spare import Spare
from tallyglass.restore.tools.tool_uri import ToolUri
from tallyglass.restore.tools.toolset import Tools


@dataclass(slots=True)
class Facts:
    """One restore's facts. None means not looked at, since something before it already blocks."""

    limit: Ts
    deployment: Deployment
    contents: Contents
    incident: Incident | None = None
    fcv: str | None = None
    majority: Ts | None = None
    start: Start | None = None
    at_limit: Entry | None = None
    before_limit: Entry | None = None
    replay: Replay | None = None
    moved_for_transaction: bool = False
    lost_beginning: Ts | None = None
    open_at_limit: list[Chain] = field(default_factory=list)
    cut_off_in_group: bool = False
    base: BaseFacts | None = None
    loss: LossCount | None = None
    hours_left: float | None = None
    source_uri: ToolUri | None = None
    spare_uri: ToolUri | None = None
    spare: Spare | None = None
    own_spare: int = 0
    uri_trouble: str = ""
    unreadable: str = ""
    tools: Tools | None = None
    returns: tuple[Return, ...] = ()
    definitions: Definitions = field(default_factory=Definitions)
    counters: CounterFacts = field(default_factory=CounterFacts)
    free_bytes: int | None = None

    @property
    def limit_is_left_out(self) -> bool:
        """Whether the query of the oplog dump leaves out the very entry at the limit."""
        return self.at_limit is not None and is_left_out(self.at_limit.ns)
