"""A pytest plugin: no test forks the process that runs it, no process outlives the test or the fixture that started it,
and the death of a shared server ends the run with one sentence."""

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
"""How long a process that was told to end may take before it counts as left running."""

_shared: set[processes.Key] = set()
"""Processes that belong to fixtures which more than one test shares."""


def begin() -> None:
    """Prepare this process. Ctrl-C and a hang-up mean the same in every run, and SIGTERM what Ctrl-C means.

    The children of a background job, or of nohup, inherit that these are ignored; what is handled is not inherited.
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
    """A fork is a copy of the test run: a signal or an error in it runs the teardown and stops the shared servers."""
    if event in ("os.fork", "os.forkpty"):
        raise RuntimeError("A test must not fork the process of the tests: start a program with subprocess instead.")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """Note which processes a fixture starts for more than one test."""
    if fixturedef.scope == "function":
        return (yield)
    before = processes.descendants().keys()
    try:
        return (yield)
    finally:
        _shared.update(processes.descendants().keys() - before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Fail the test that leaves a process running, and end the run where a shared server has died."""
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
    """Whatever ended the run, Ctrl-C too: nothing that it started goes on."""
    try:
        yield
    finally:
        if left := _kill_all_but(set()):
            print("\nLeft running by the tests, now killed:", *left, sep="\n  ", file=sys.stderr)
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def _kill_all_but(kept: set[processes.Key]) -> list[str]:
    """Kill every process below this one that is not to be kept; what they were."""
    deadline = time.monotonic() + _SECONDS_TO_END
    while (left := _not_kept(kept)) and time.monotonic() < deadline:
        time.sleep(0.02)
    descriptions = [str(process) for process in left]
    processes.kill(left)
    return descriptions


def _not_kept(kept: set[processes.Key]) -> list[processes.Process]:
    running = processes.descendants()
    guards = {process.pid: process for process in running.values() if process.is_guard}
    # A test may restart a member of servers that it shares: a new process in a folder that is kept.
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
