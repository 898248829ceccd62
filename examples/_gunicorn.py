"""Runs a recipe under gunicorn and sends it requests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.request import Request, urlopen


@contextmanager
def served(app: str, uri: str, *options: str, workers: int = 3) -> Iterator[str]:
    """The address of an application in a running gunicorn, which gets its MongoDB from the environment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Requests that arrive before the workers are ready wait in the queue of this socket.
        argv = [sys.executable, "-m", "gunicorn", "--bind", f"fd://{listener.fileno()}", "--workers", str(workers)]
        with subprocess.Popen(
            [*argv, "--log-level", "error", *options, app],
            env={**os.environ, "TALLYGLASS_URI": uri},
            pass_fds=[listener.fileno()],
        ) as server:
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
            finally:
                server.terminate()


def post(address: str, requests: int) -> list[str]:
    """Send requests from several threads; the bodies of the answers."""

    def one(_: int) -> str:
        with urlopen(Request(address, method="POST"), timeout=60) as answer:
            body: bytes = answer.read()
        return body.decode()

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, range(requests)))


def summary(what: str, numbers: Sequence[int], processes: int) -> str:
    """One line about the numbers that a recipe got."""
    repeated = len(numbers) - len(set(numbers))
    return f"{len(numbers)} {what} from {processes} worker processes, {repeated} of them twice."
