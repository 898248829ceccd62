"""The servers that many tests share. Once one of them has died, every later failure is only an echo of that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from processes import is_stopped
from tallyglass.demo.server import Member, Servers

S = TypeVar("S", bound=Servers)

_shared: dict[str, Servers] = {}


@contextmanager
def shared(name: str, servers: S) -> Iterator[S]:
    """Run servers for more than one module; ``name`` is what the sentence about their death calls them."""
    with servers:
        _shared[name] = servers
        try:
            yield servers
        finally:
            del _shared[name]


def dead_server() -> str | None:
    """A sentence about the first shared server that no longer runs, or None."""
    for name, servers in _shared.items():
        for member in servers.members:
            if ending := _ending(member):
                return f"The server that the fixture {name!r} shares, mongod on port {member.port}, {ending}."
    return None


def _ending(member: Member) -> str | None:
    if member.process is None:
        return "was stopped by a test and not started again"
    if (status := member.process.poll()) is not None:
        return f"ended with status {status}"
    if is_stopped(member.process.pid):
        return "was stopped (SIGSTOP) and not continued"
    return None
