"""What evidence a server keeps of who writes, for how long, and what would keep more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallyglass.errors import TallyglassError
from tallyglass.evidence.log_lines import parse_line
from tallyglass.mongo.gateway import Document, Gateway

SLOWMS = 100
"""The server's default threshold in milliseconds."""

MORE = "db.adminCommand({profile: 0, slowms: 20})"
"""The command that makes the server log more statements, until it is restarted."""

COSTS = ((100, 54, 34, 30), (20, 168, 103, 34), (5, 280, 167, 35), (0, 662, 381, 44))
"""What a threshold costs and gives, measured on a recording of 18 applications: slowms, lines and kB of log for 1,000
writes, and how many of 45 acts of people are named."""


@dataclass(frozen=True, slots=True)
class EvidenceKept:
    """``memory_seconds`` is the time that the newest log lines in the server's memory cover. ``slowms`` and
    ``sample_rate`` decide which statements are logged. None where unknown. ``log`` is where the log goes as configured,
    ``audit`` the same for the audit log, both untrusted; ``redacted`` is whether values are hidden in the log."""

    memory_seconds: float | None = None
    slowms: int | None = None
    sample_rate: float | None = None
    log: str = ""
    audit: str = ""
    redacted: bool = False


async def evidence_kept(gateway: Gateway) -> EvidenceKept:
    """Read what this server keeps; what may not be read is unknown."""
    log = await _answer(gateway, "getLog", "global")
    times = [line.at for text in log.get("log", ()) if (line := parse_line(str(text)))]
    settings = await _answer(gateway, "profile", -1)
    parsed = (await _answer(gateway, "getCmdLineOpts", 1)).get("parsed", {})
    slowms, rate = settings.get("slowms"), settings.get("sampleRate")
    return EvidenceKept(
        (max(times) - min(times)) / 1000 if times else None,
        int(slowms) if isinstance(slowms, (int, float)) else None,
        float(rate) if isinstance(rate, (int, float)) else None,
        str(_within(parsed, "systemLog", "path") or _within(parsed, "systemLog", "destination") or ""),
        str(_within(parsed, "auditLog", "path") or _within(parsed, "auditLog", "destination") or ""),
        _within(parsed, "security", "redactClientLogData") is True,
    )


async def _answer(gateway: Gateway, name: str, value: object) -> Document:
    try:
        return await gateway.command(name, value)
    except TallyglassError:
        return {}


def _within(document: object, *path: str) -> object:
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document
