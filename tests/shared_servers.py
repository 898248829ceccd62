"""The servers that many tests share. If one of them dies, all later failures are consequences of that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from processes import is_stopped
from tallyglass.demo.server import MongodProcess, Servers

S = TypeVar("S", bound=Servers)

_shared: dict[str, Servers] = {}


@contextmanager
def shared(name: str, servers: S) -> Iterator[S]:
    """Watch servers that several modules share. ``name`` identifies them in the message about a dead server."""
    _shared[name] = servers
    try:
        yield servers
    finally:
        del _shared[name]


def dead_server() -> str | None:
    """Return a sentence about the first shared server that is not running, or None."""
    for name, servers in _shared.items():
        for member in servers.members:
            if ending := _ending(member):
                return f"The server that the fixture {name!r} shares, mongod on port {member.port}, {ending}."
    return None


def _ending(member: MongodProcess) -> str | None:
    if member.process is None:
        return "was stopped by a test and not started again"
    if (status := member.process.poll()) is not None:
        return f"ended with status {status}"
    if is_stopped(member.process.pid):
        return "was stopped (SIGSTOP) and not continued"
    return None
