"""What evidence a server keeps: what may not be read is unknown, not absent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from builders.evidence import MILLIS, login, metadata, remove
from tallyglass.errors import PrivilegeError
from tallyglass.evidence.kept import EvidenceKept, ProfileKept, command_for_more, evidence_kept
from tallyglass.evidence.profile import DATABASES_LIMIT
from tallyglass.moment import from_seconds

OPTIONS = {
    "systemLog": {"destination": "file", "path": "/var/log/mongod.log"}, "auditLog": {"destination": "syslog"},
    "security": {"redactClientLogData": True},
}  # fmt: skip


class Server:
    """A server that refuses what ``refused`` names."""

    def __init__(self, *refused: str, databases: Sequence[str] = ("admin", "local", "old", "shop")) -> None:
        self.refused = refused
        self.databases = list(databases)

    async def command(self, name: str, *_: Any, db: str = "admin", **__: Any) -> Any:
        self._check(name)
        return {
            "getLog": {"log": [metadata(), login(), "no line", remove(900, 1)], "totalLinesWritten": 4},
            "profile": {"was": 2 if db == "shop" else 0, "slowms": 50, "sampleRate": 0.5},
            "getCmdLineOpts": {"parsed": OPTIONS},
        }[name]

    async def list_databases(self) -> list[str]:
        self._check("listDatabases")
        return self.databases

    async def find_one(self, ns: Any, *_: Any, sort: Any, **__: Any) -> Any:
        self._check("find")
        at = from_seconds(MILLIS / 1000) + timedelta(seconds=90 * (sort[0][1] < 0))
        return {"ts": at} if ns.db == "old" else None

    def _check(self, name: str) -> None:
        if name in self.refused:
            raise PrivilegeError("no")


async def kept(*refused: str) -> EvidenceKept:
    return await evidence_kept(Server(*refused))  # type: ignore[arg-type]


async def test_everything_may_be_read() -> None:
    assert await kept() == EvidenceKept(
        0.899, 50, 0.5, "/var/log/mongod.log", "syslog", True, {"old": ProfileKept(0, 90.0), "shop": ProfileKept(2)}
    )


async def test_what_may_not_be_read_is_unknown() -> None:
    assert await kept("getLog", "profile", "getCmdLineOpts", "listDatabases") == EvidenceKept()
    assert (await kept("profile")).profiles == {"old": ProfileKept(None, 90.0)}
    assert (await kept("find")).profiles == {"shop": ProfileKept(2)}


async def test_databases_that_are_too_many_are_counted() -> None:
    server = Server(databases=[f"a{n}" for n in range(DATABASES_LIMIT)] + ["local", "old", "shop"])
    found = await evidence_kept(server)  # type: ignore[arg-type]
    assert (found.profiles, found.not_looked_at) == ({}, 2)


def test_the_command_that_keeps_more_ends_sampling_and_raises_no_threshold() -> None:
    assert command_for_more(EvidenceKept(slowms=100)) == "db.adminCommand({profile: 0, slowms: 20, sampleRate: 1})"
    sampled = EvidenceKept(slowms=5, sample_rate=0.5)
    assert command_for_more(sampled) == "db.adminCommand({profile: 0, slowms: 5, sampleRate: 1})"
