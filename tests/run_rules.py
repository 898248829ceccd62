"""A pytest plugin that holds tests to rules: no test forks its process, no process outlives the test or fixture that
started it, and the death of a shared server ends the run with one message."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

import processes
from shared_servers import dead_server

_SECONDS_TO_END = 2.0
"""How long processes may take to exit after a test before they count as left running."""

_shared: set[processes.Key] = set()
"""Processes started by fixtures that several tests share."""


def begin() -> None:
    """Prepare this process. Restore the handlers of SIGINT and SIGHUP, and handle SIGTERM like SIGINT.

    The children of a background job or of nohup inherit ignored signals. They do not inherit handlers.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    processes.adopt_orphans()
    sys.addaudithook(_refuse_fork)


def _refuse_fork(event: str, _: tuple[object, ...]) -> None:
    """Refuse a fork: a signal or an error in a copy of the test run would run the teardown and stop shared servers."""
    if event in ("os.fork", "os.forkpty"):
        raise RuntimeError("A test must not fork the test process: start a program with subprocess instead.")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """Record the processes that a shared fixture starts."""
    if fixturedef.scope == "function":
        return (yield)
    before = processes.children()
    try:
        return (yield)
    finally:
        if started := processes.children() - before:
            below = processes.descendants(*started)
            _shared.update(key for key in processes.descendants() if key[0] in started or key in below)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Fail a test that leaves a process running, and end the run if a shared server has died."""
    try:
        yield
    finally:
        if (sentence := dead_server()) and not item.session.shouldfail:
            item.session.shouldfail = f"{sentence} It still ran before {item.nodeid}."
        left = _kill_all_but(set() if nextitem is None else _shared)
    if left:
        pytest.fail("left running, now killed:\n" + "\n".join(left), pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Kill everything that the run started, however it ended."""
    try:
        yield
    finally:
        if left := _kill_all_but(set()):
            print("\nLeft running by the tests, now killed:", *left, sep="\n  ", file=sys.stderr)
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def _kill_all_but(kept: set[processes.Key]) -> list[str]:
    """Kill every descendant that is not in ``kept`` and return their descriptions."""
    deadline = time.monotonic() + _SECONDS_TO_END
    while (left := _not_kept(kept)) and time.monotonic() < deadline:
        time.sleep(0.02)
    descriptions = [str(process) for process in left]
    if left:
        processes.kill(left)
    return descriptions


def _not_kept(kept: set[processes.Key]) -> list[processes.Process]:
    if processes.children() <= {pid for pid, _ in kept}:
        return []
    running = processes.descendants()
    guards = {process.pid: process for process in running.values() if process.is_guard}
    # A test may restart a member of a shared set: its new process uses a folder of a kept guard.
    folders = tuple(f"--dbpath={guard.argv[-1]}/" for guard in guards.values() if guard.key in kept)
    roots = [process.pid for process in running.values() if process.key in kept]
    below = processes.descendants(*roots, *guards) if roots or guards else {}
    return [
        process
        for process in running.values()
        if process.key not in kept | below.keys()
        and process.pid not in guards
        and not any(word.startswith(folders) for word in process.argv)
    ]
