"""The rules of a test run (:mod:`run_rules`), in runs of their own: no fork, nothing left running, one sentence."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SECONDS = 300.0
"""How long a run may take on a busy machine; alone it takes two."""

CONFTEST = """
import pytest, run_rules
from shared_servers import shared
from tallyglass.demo.server import Standalone

def pytest_configure(config):
    run_rules.begin()
    config.pluginmanager.register(run_rules)

@pytest.fixture(scope="session")
def server():
    with shared("server", Standalone()) as servers:
        yield servers
"""
LEAVES_A_STOPPED_PROCESS = '''
import os, signal, subprocess, sys
PARENT = """
import subprocess
child = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid)
"""
def test_leaves_one():
    # Its parent ends at once, and it leads a session of its own: nobody would wait for it.
    pid = int(subprocess.run([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, check=True).stdout)
    os.kill(pid, signal.SIGSTOP)
    with open("pids", "w") as file:
        print(pid, file=file)
'''
KILLS_THE_SERVER = """
def test_before(server): pass
def test_kills(server): server.members[0].process.kill(); server.members[0].process.wait()
def test_after(server): assert False, "an echo"
def test_much_later(server): assert False, "an echo"
"""
WAITS = """
import subprocess, time
def test_waits(server):
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    with open("pids", "w") as file:
        print(server.members[0].process.pid, child.pid, file=file)
    time.sleep(300)
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start pytest on one file of tests, in a process group of its own."""

    def start(code: str, *options: str) -> subprocess.Popen[str]:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(code)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.Popen(
            argv, cwd=tmp_path, env=environ | {"PYTHONPATH": str(TESTS)}, process_group=0, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    return start


def has_ended(pid: int) -> bool:
    """Whether a process is no more, or only waits to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("fork", [os.fork, pty.fork])
def test_the_process_of_the_tests_cannot_be_forked(fork: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="must not fork"):
        fork()


def test_a_stopped_process_that_a_test_leaves_fails_it_and_is_killed(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    output, _ = start(LEAVES_A_STOPPED_PROCESS).communicate(timeout=SECONDS)
    (pid,) = (tmp_path / "pids").read_text().split()
    assert "1 passed, 1 error" in output
    assert f"{pid} (T) sleep 300" in output
    assert has_ended(int(pid))


@pytest.mark.live
def test_a_shared_server_that_dies_is_named_once_and_ends_the_run(start: Callable[..., subprocess.Popen[str]]) -> None:
    output, _ = start(KILLS_THE_SERVER, "-n1").communicate(timeout=SECONDS)
    assert output.count("The server that the fixture 'server' shares") == 1
    assert "ended with status -9. It still ran before test_it.py::test_kills" in output
    assert "2 passed" in output
    assert "an echo" not in output


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_all_that_it_started(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    run = start(WAITS, "-n1")
    deadline = time.monotonic() + SECONDS
    written = tmp_path / "pids"
    while not (written.exists() and written.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.05)
    pids = [int(word) for word in written.read_text().split()]
    assert len(pids) == 2
    # Ctrl-C reaches the whole group; a program that is told to end is told alone.
    (os.killpg if number == signal.SIGINT else os.kill)(run.pid, number)
    output, _ = run.communicate(timeout=SECONDS)
    assert all(map(has_ended, pids)), output
    assert run.returncode == pytest.ExitCode.INTERRUPTED
