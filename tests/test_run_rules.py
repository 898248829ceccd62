"""The rules of a test run (:mod:`run_rules`), tested in pytest subprocesses."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SECONDS = 300.0
"""A limit for one run on a busy machine; an idle one needs two seconds."""

CONFTEST = """
import pytest, run_rules
from shared_servers import shared
from tallyglass.demo.server import Standalone

def pytest_configure(config):
    run_rules.begin()
    config.pluginmanager.register(run_rules)

@pytest.fixture(scope="session")
def server():
    with Standalone() as servers, shared("server", servers):
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
    # Its parent exits at once and it leads its own session: nothing waits for it.
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
    """Start pytest on one file of tests in its own process group."""

    def start(code: str, *options: str) -> subprocess.Popen[str]:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(code)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", *options, "test_it.py"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environ |= {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.Popen(
            argv, cwd=tmp_path, env=environ, process_group=0, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    return start


def has_ended(pid: int) -> bool:
    """Whether a process has exited, even if it has not been reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("fork", [os.fork, pty.fork])
def test_refuses_to_fork_the_test_process(fork: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="must not fork"):
        fork()


def test_kills_and_reports_a_stopped_process_that_a_test_leaves(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    output, _ = start(LEAVES_A_STOPPED_PROCESS).communicate(timeout=SECONDS)
    (pid,) = (tmp_path / "pids").read_text().split()
    assert "1 passed, 1 error" in output
    assert f"{pid} (T) sleep 300" in output
    assert has_ended(int(pid))


@pytest.mark.live
def test_dead_shared_server_is_reported_once_and_ends_the_run(start: Callable[..., subprocess.Popen[str]]) -> None:
    output, _ = start(KILLS_THE_SERVER, "-n1").communicate(timeout=SECONDS)
    assert output.count("The server that the fixture 'server' shares") == 1
    assert "ended with status -9. It still ran before test_it.py::test_kills" in output
    assert "2 passed" in output
    assert "an echo" not in output


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_interrupted_run_kills_everything_that_it_started(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    run = start(WAITS, "-n1")
    deadline = time.monotonic() + SECONDS
    written = tmp_path / "pids"
    while not (written.exists() and written.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.05)
    pids = [int(word) for word in written.read_text().split()]
    assert len(pids) == 2
    # Ctrl-C reaches the whole group; SIGTERM goes to one process.
    (os.killpg if number == signal.SIGINT else os.kill)(run.pid, number)
    output, _ = run.communicate(timeout=SECONDS)
    assert all(map(has_ended, pids)), output
    assert run.returncode == pytest.ExitCode.INTERRUPTED


def test_no_test_module_imports_another() -> None:
    """What several need is in ``tests/builders``, or in a module of its own beside them."""
    pattern = re.compile(r"^\s*(?:from|import) +(?:[\w.]+\.)?test_\w+", re.MULTILINE)
    found = {str(path.relative_to(TESTS)): pattern.findall(path.read_text()) for path in TESTS.rglob("*.py")}
    assert len(found) > 300
    assert {path: imports for path, imports in found.items() if imports} == {}
