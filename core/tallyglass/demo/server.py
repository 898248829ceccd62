"""Real mongod servers on loopback, in a temporary folder: one member, several, or a plain standalone.

A guard process removes servers and folder after the process that started them exits for any reason.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from tallyglass.demo.mongod_process import HOST, POLL_SECONDS, START_SECONDS, MongodProcess, free_port, require_free
from tallyglass.errors import EmbeddedServerError
from tallyglass.restore.tools.find_mongod import find_mongod

__all__ = ["HOST", "MongodProcess", "ReplicaSet", "Servers", "Standalone", "free_port"]

# Reads until the parent's end of the pipe closes, then kills the processes in the pid files and removes the folder.
_GUARD = """
cat >/dev/null
for f in "$1"/*/pid; do [ -s "$f" ] && kill -9 "$(cat "$f")" 2>/dev/null; done
n=0; while [ $n -lt 50 ]; do rm -rf "$1" 2>/dev/null && break; n=$((n+1)); sleep 0.1; done
"""

Document = dict[str, Any]


class Servers:
    """Some mongod processes under one folder and one guard. A context manager; :meth:`stop` ends all."""

    def __init__(
        self,
        members: int,
        *,
        set_name: str | None,
        mongod: str | None = None,
        options: Sequence[str] = (),
        ports: Sequence[int] = (),
        advertised: Sequence[int] = (),
        cache_gb: float = 0.25,
    ) -> None:
        for port in ports:
            require_free(port)
        self._binary = find_mongod(mongod)
        self.set_name = set_name
        """The replica set's name; None for a standalone."""
        # Diagnostic data is not needed here: without it an idle server uses a third less CPU.
        quiet = ["--setParameter", "diagnosticDataCollectionEnabled=false"]
        self._options = [*options, *quiet, "--wiredTigerCacheSizeGB", str(cache_gb)]
        self.members: list[MongodProcess] = []
        self._guard: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="tallyglass-"))
        try:
            self._guard = self._start_guard()
            self.members = [
                MongodProcess(
                    ports[n] if ports else free_port(),
                    self.folder / str(n),
                    advertised=advertised[n] if advertised else None,
                )
                for n in range(members)
            ]
            for member in self.members:
                member.start(self._binary, self.set_name, self._options)
            for member in self.members:
                member.await_ready()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def uri(self) -> str:
        """A URI that names every member."""
        hosts = ",".join(member.address for member in self.members)
        return f"mongodb://{hosts}/" + (f"?replicaSet={self.set_name}" if self.set_name else "")

    def direct_uri(self, index: int = 0) -> str:
        """A URI to one member alone."""
        return f"mongodb://{HOST}:{self.members[index].port}/?directConnection=true"

    def kill(self, index: int) -> None:
        """SIGKILL one member: a crash."""
        self.members[index].kill()

    def freeze(self, index: int) -> None:
        """SIGSTOP one member: it keeps its connections and does not answer."""
        self.members[index].signal(signal.SIGSTOP)

    def thaw(self, index: int) -> None:
        """SIGCONT a frozen member."""
        self.members[index].signal(signal.SIGCONT)

    def shut_down(self, index: int) -> None:
        """SIGTERM one member and wait for a clean shutdown."""
        self.members[index].shut_down()

    def restart(self, index: int) -> None:
        """Start a member that was killed or shut down, on its own data."""
        member = self.members[index]
        if member.process is None:
            member.start(self._binary, self.set_name, self._options)
            member.await_ready()

    def stop(self) -> None:
        """End every process and remove the folder. May be called twice."""
        for member in self.members:
            member.kill()
        if self._guard:
            if self._guard.stdin and not self._guard.stdin.closed:
                self._guard.stdin.close()
            self._guard.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, index: int | None = None, **options: Any) -> MongoClient[Document]:
        """A synchronous client for the whole set, or for one member. The caller closes it."""
        uri = self.uri if index is None else self.direct_uri(index)
        majority = {"w": "majority"} if self.set_name else {}  # which is the default only from MongoDB 5.0 on
        return MongoClient(uri, **({"serverSelectionTimeoutMS": 30_000} | majority | options))

    def _start_guard(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", _GUARD, "tallyglass-guard", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


class ReplicaSet(Servers):
    """A replica set, initiated and with a primary when the constructor returns."""

    def __init__(
        self,
        members: int = 1,
        *,
        set_name: str = "tally",
        election_ms: int = 2000,
        settings: Mapping[str, Any] | None = None,
        before: Callable[[Servers], None] | None = None,
        **how: Any,
    ) -> None:
        """``before`` is called with the servers as they run without ``--replSet``, before the set is initiated."""
        super().__init__(members, set_name=None if before else set_name, **how)
        try:
            if before:
                before(self)
                self._become(set_name)
            config: Document = {
                "_id": set_name,
                "members": [{"_id": n, "host": member.address, "priority": 1} for n, member in enumerate(self.members)],
                "settings": {"electionTimeoutMillis": election_ms, "heartbeatIntervalMillis": 500}
                | dict(settings or {}),
            }
            with self.client(0) as client:
                client.admin.command("replSetInitiate", config)
            self.await_primary()
        except BaseException:
            self.stop()
            raise

    def _become(self, set_name: str) -> None:
        self.set_name = set_name
        for index in range(len(self.members)):
            self.shut_down(index)
            self.restart(index)

    def primary(self) -> int | None:
        """The index of the member that currently reports itself as primary, or None."""
        for index, member in enumerate(self.members):
            if member.process is None:
                continue
            try:
                with self.client(index, serverSelectionTimeoutMS=500, socketTimeoutMS=500) as client:
                    if client.admin.command("hello").get("isWritablePrimary"):
                        return index
            except (ConnectionFailure, OperationFailure):
                continue
        return None

    def await_primary(self) -> int:
        """Wait until the set has a primary that takes majority writes; returns its index."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            index = self.primary()
            if index is not None:
                return index
            time.sleep(POLL_SECONDS)
        raise EmbeddedServerError(f"The replica set has no primary after {START_SECONDS:.0f} s.")

    def step_down(self, seconds: int = 5) -> None:
        """Ask the primary to step down for some seconds. It may refuse when no other member is ready."""
        index = self.primary()
        if index is not None:
            with self.client(index) as client, contextlib.suppress(PyMongoError):
                client.admin.command("replSetStepDown", seconds, secondaryCatchUpPeriodSecs=2)


class Standalone(Servers):
    """A plain mongod without a replica set: a spare to restore onto."""

    def __init__(self, **how: Any) -> None:
        options = [*how.pop("options", ()), "--setParameter", "ttlMonitorEnabled=false"]
        super().__init__(1, set_name=None, options=options, **how)
