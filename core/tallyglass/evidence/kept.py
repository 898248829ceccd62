"""What evidence a server keeps of who writes, for how long, and what would keep more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tallyglass.evidence.facts import within
from tallyglass.evidence.log_lines import lines_in_memory, parse_line
from tallyglass.evidence.profile import DATABASES_LIMIT, PROFILE
from tallyglass.mongo.codec import whole_number
from tallyglass.mongo.gateway import Document, Gateway, Namespace
from tallyglass.tasks import answer_or

SLOWMS = 100
"""The server's default threshold in milliseconds."""

COSTS = ((100, 54, 34, 30), (20, 168, 103, 34), (5, 280, 167, 35), (0, 662, 381, 44))
"""What a threshold costs and gives, measured on a recording of 18 applications: slowms, lines and kB of log for 1,000
writes, and how many of 45 acts of people are named."""

_NOTHING: Document = {}


@dataclass(frozen=True, slots=True)
class ProfileKept:
    """The profiler of one database: its level, 1 for slow statements and 2 for all, None if this user may not know, and
    the seconds from its oldest document to its newest, None without any."""

    level: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class EvidenceKept:
    """``memory_seconds`` is the time that the newest log lines in the server's memory cover. ``slowms`` and
    ``sample_rate`` decide which statements are logged. None where unknown. ``log`` is where the log goes as configured,
    ``audit`` the same for the audit log, both untrusted; ``redacted`` is whether values are hidden in the log.
    ``profiles`` are the databases whose profiler is on or has documents, names as stored; ``not_looked_at`` is how many
    databases there are beyond the :data:`~tallyglass.evidence.profile.DATABASES_LIMIT` whose profile is read."""

    memory_seconds: float | None = None
    slowms: int | None = None
    sample_rate: float | None = None
    log: str = ""
    audit: str = ""
    redacted: bool = False
    profiles: Mapping[str, ProfileKept] = field(default_factory=dict)
    not_looked_at: int = 0


def command_for_more(kept: EvidenceKept) -> str:
    """The mongosh command that makes a server log more statements, all of those above a threshold, until it is
    restarted; each member has its own setting."""
    slowms = 20 if kept.slowms is None else min(kept.slowms, 20)
    return f"db.adminCommand({{profile: 0, slowms: {slowms}, sampleRate: 1}})"


async def evidence_kept(gateway: Gateway) -> EvidenceKept:
    """Read what this server keeps; what may not be read is unknown."""
    log = await answer_or(_NOTHING, gateway.command("getLog", "global"))
    times = [line.at for text in lines_in_memory(log) if (line := parse_line(text))]
    settings = await answer_or(_NOTHING, gateway.command("profile", -1))
    parsed = (await answer_or(_NOTHING, gateway.command("getCmdLineOpts"))).get("parsed", {})
    rate = settings.get("sampleRate")
    names = [name for name in await answer_or([], gateway.list_databases()) if name != "local"]
    profiles = {name: await _profile(gateway, name) for name in names[:DATABASES_LIMIT]}
    return EvidenceKept(
        (max(times) - min(times)) / 1000 if times else None,
        whole_number(settings.get("slowms")),
        float(rate) if isinstance(rate, (int, float)) else None,
        str(within(parsed, "systemLog", "path") or within(parsed, "systemLog", "destination") or ""),
        str(within(parsed, "auditLog", "path") or within(parsed, "auditLog", "destination") or ""),
        within(parsed, "security", "redactClientLogData") is True,
        {name: one for name, one in profiles.items() if one.level or one.seconds is not None},
        max(len(names) - DATABASES_LIMIT, 0),
    )


async def _profile(gateway: Gateway, db: str) -> ProfileKept:
    level = (await answer_or(_NOTHING, gateway.command("profile", -1, db=db))).get("was")
    times = []
    for order in (1, -1):
        found = gateway.find_one(Namespace(db, PROFILE), {}, projection={"ts": 1}, sort=(("$natural", order),))
        row = await answer_or(None, found)
        times += [row["ts"]] if row and isinstance(row.get("ts"), datetime) else []
    return ProfileKept(
        level if isinstance(level, int) else None,
        max((times[-1] - times[0]).total_seconds(), 0.0) if len(times) > 1 else None,
    )
