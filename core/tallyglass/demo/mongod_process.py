"""One mongod process: its port and folder, how it starts and stops, and why it failed to start."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tallyglass.errors import EmbeddedServerError

HOST = "127.0.0.1"
START_SECONDS = 60.0
"""A guard against a server that never answers: it takes about a second, on a busy machine up to twenty."""

POLL_SECONDS = 0.02  # a start takes a second; asking more often costs the server more than it saves

_PORTS = range(12_000, 27_000)
"""Below the ephemeral ports of Linux (from 32768) and others (from 49152), and below MongoDB's default ports."""
_PORT_TRIES = 100  # of 15,000 ports: even where half of them are in use, the chance that all fail is 2**-100
_given: deque[int] = deque(maxlen=1_000)
"""The last ports that were given out: that of a server that was killed is free, until it is started again."""


def free_port() -> int:
    """A TCP port that was free on loopback a moment ago and lies outside the range of ephemeral ports.

    A server that is killed and restarted needs its port to be still free; an ephemeral port may have been given to
    another program by then.
    """
    for _ in range(_PORT_TRIES):
        port = random.choice(_PORTS)
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            _given.append(port)
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def require_free(port: int) -> None:
    """Raise EmbeddedServerError if ``port`` is taken: whatever listens there would be mistaken for our server."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise EmbeddedServerError(
                f"Port {port} on {HOST} cannot be used: {error.strerror}.",
                "Choose another port, or omit the option to have one chosen.",
            ) from error


@dataclass(slots=True)
class MongodProcess:
    """One mongod; ``process`` is None while it is stopped."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    advertised: int | None = None

    @property
    def address(self) -> str:
        """``host:port`` in the configuration of the set: the port of the proxy if there is one in front of it."""
        return f"{HOST}:{self.advertised or self.port}"

    @property
    def log(self) -> Path:
        """The log of mongod, JSON lines."""
        return self.folder / "log"

    @property
    def socket_file(self) -> Path:
        """The Unix socket that mongod creates once it has bound its port."""
        return self.folder / f"mongodb-{self.port}.sock"

    def start(self, binary: Path, set_name: str | None, options: Sequence[str]) -> None:
        """Start the process; call :meth:`await_ready` next. Raises EmbeddedServerError."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        pid_file = self.folder / "pid"
        pid_file.unlink(missing_ok=True)
        self.socket_file.unlink(missing_ok=True)
        argv = [
            str(binary),
            f"--dbpath={self.folder / 'data'}",
            f"--port={self.port}",
            f"--bind_ip={HOST}",
            f"--unixSocketPrefix={self.folder}",
            f"--logpath={self.log}",
            "--logappend",
            f"--pidfilepath={pid_file}",
            *([f"--replSet={set_name}"] if set_name else []),
            *options,
        ]
        try:
            with (self.folder / "stderr").open("wb") as stderr:
                self.process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
        except OSError as error:
            raise EmbeddedServerError(f"{binary} cannot be started: {error.strerror}.") from error

    def await_ready(self) -> None:
        """Wait until it accepts connections. Raises EmbeddedServerError, with the reason, if it exits instead."""
        deadline = time.monotonic() + START_SECONDS
        process = self.process
        assert process is not None
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise EmbeddedServerError(*self._why_ended(process))
            # Its own socket, on which it listens after the port: two programs can bind one port until one of them
            # listens, so that an answer on the port may be another program's.
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as own:
                own.connect(str(self.socket_file))
                return
            time.sleep(POLL_SECONDS)
        raise EmbeddedServerError(f"mongod did not answer within {START_SECONDS:.0f} s.")

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has exited."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def shut_down(self) -> None:
        """Send SIGTERM and wait for a clean shutdown."""
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=60)
            self.process = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process is running."""
        if self.process:
            os.kill(self.process.pid, number)

    def _why_ended(self, process: subprocess.Popen[bytes]) -> tuple[str, str]:
        stderr = (self.folder / "stderr").read_text(errors="replace")
        if "error while loading shared libraries" in stderr:
            library = stderr.split("error while loading shared libraries:")[1].split(":")[0].strip()
            return (
                f"mongod needs the system library {library}, which is not installed.",
                "Install OpenSSL 3 and libcurl 4 (Debian and Ubuntu: apt-get install libssl3 libcurl4), "
                "or choose another mongod with --mongod.",
            )
        tail = self.log.read_text(errors="replace").splitlines()[-1:] if self.log.exists() else []
        return (
            f"mongod exited with status {process.returncode} during startup.",
            (tail[0] if tail else stderr.strip())[:400],
        )
