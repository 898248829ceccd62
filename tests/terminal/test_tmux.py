"""The dashboard keeps running in tmux while nobody is attached, and exits with the tmux server."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import processes
from pseudo_terminal import TIMEOUT_SECONDS, Terminal, dashboard, environment, is_connected
from tallyglass.demo.server import ReplicaSet

pytestmark = [pytest.mark.live, pytest.mark.terminal, pytest.mark.needs("tmux")]

IGNORED = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)"


class Tmux:
    """A private tmux server with one 80x24 pane."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._base = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]
        self._env = environment(home, SHELL="/bin/sh", PS1="ready ")
        self._attached: list[Terminal] = []
        self._pane: int | None = None
        self._panes: list[int] = []

    def start(self, *argv: str) -> None:
        """Run a program instead of a shell in the pane."""
        self._run("new-session", "-d", "-x80", "-y24", shlex.join(["exec", *argv]))
        self._panes.append(int(self.show("#{pane_pid}")))
        self._pane = os.pidfd_open(self._panes[-1])

    def show(self, what: str) -> str:
        """Expand a tmux format such as ``#{pane_pid}``."""
        return self._run("display-message", "-p", what).strip()

    def press(self, keys: str) -> None:
        """Send keys to the pane, even if no client is attached."""
        self._run("send-keys", keys)

    def wait(self, seen: str, seconds: float = TIMEOUT_SECONDS) -> str:
        """Wait until the pane contains a text, and return the pane's text."""
        return until(lambda: self.screen, lambda text: seen in text, seconds)

    @property
    def screen(self) -> str:
        """The pane's text."""
        return self._run("capture-pane", "-p")

    def attach(self) -> Terminal:
        """Attach a terminal to the pane."""
        self._attached.append(Terminal([*self._base, "attach"], self._env))
        return self._attached[-1]

    def detach(self) -> None:
        """Detach all clients."""
        self._run("detach-client")

    def kill(self, number: signal.Signals) -> None:
        """Send a signal to the tmux server."""
        os.kill(int(self.show("#{pid}")), number)

    def close(self) -> None:
        """Close all terminals and kill the tmux server and all processes of its panes."""
        for terminal in self._attached:
            terminal.close()
        # A stopped process does not exit with its terminal.
        running = processes.descendants(*self._panes).values() if self._panes else ()
        subprocess.run([*self._base, "kill-server"], env=self._env, check=False, capture_output=True)
        if self._pane is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pane, signal.SIGKILL)
            os.close(self._pane)
        processes.kill(running)

    def _run(self, *words: str) -> str:
        argv = [*self._base, *words]
        return subprocess.run(argv, env=self._env, check=True, capture_output=True, text=True).stdout


def until(ask: Callable[[], str], holds: Callable[[str], object], seconds: float = TIMEOUT_SECONDS) -> str:
    """Poll ``ask`` until its result satisfies ``holds``, and return the result."""
    deadline = time.monotonic() + seconds
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, f"never: {answer}"
        time.sleep(0.1)
    return answer


def state(pid: int) -> str:
    """Return the kernel's state letter of a process, or an empty text if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    with tempfile.TemporaryDirectory(prefix="tg-", dir="/tmp") as folder:  # a socket's path must be short
        server = Tmux(Path(folder), tmp_path)
        yield server
        server.close()


def start_detached(tmux: Tmux, uri: str) -> None:
    """Start the dashboard, followed by ``cat``, attach until it shows data, and detach."""
    tmux.start("sh", "-c", f"{shlex.join(dashboard(uri))}; exec cat")
    person = tmux.attach()
    person.wait(is_connected)
    tmux.detach()
    assert person.wait_for_exit() == 0


def assert_running(tmux: Tmux, seconds: float = TIMEOUT_SECONDS) -> None:
    """Assert that the dashboard handles keys and shows new data while no client is attached."""
    tmux.press("3")
    tmux.wait("following", seconds)


def test_keeps_running_while_detached(replica_set: ReplicaSet, tmux: Tmux) -> None:
    start_detached(tmux, replica_set.uri)
    assert_running(tmux)
    again = tmux.attach()
    again.wait(lambda text: "following" in text and "q  Quit" in text)
    again.press("1")
    again.wait("ids left until")
    again.press("q")
    until(lambda: tmux.show("#{alternate_on}#{cursor_flag}#{mouse_any_flag}#{pane_current_command}"), "010cat".__eq__)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "dead"])
def test_assert_running_notices_a_dead_dashboard(replica_set: ReplicaSet, tmux: Tmux, number: signal.Signals) -> None:
    start_detached(tmux, replica_set.uri)
    shell = tmux.show("#{pane_pid}")
    (child,) = map(int, Path(f"/proc/{shell}/task/{shell}/children").read_text().split())
    os.kill(child, number)
    with pytest.raises(AssertionError, match=r"\Anever: "):
        assert_running(tmux, seconds=1)
    until(lambda: state(child), lambda now: now in ("T", "Z", ""))


@pytest.mark.parametrize(
    ("number", "setup"), [(signal.SIGTERM, ""), (signal.SIGKILL, IGNORED)], ids=["ended", "killed"]
)
def test_exits_with_the_tmux_server(replica_set: ReplicaSet, tmux: Tmux, number: signal.Signals, setup: str) -> None:
    tmux.start(*dashboard(replica_set.uri, setup=setup))
    until(lambda: tmux.screen, is_connected)
    pid = int(tmux.show("#{pane_pid}"))
    assert state(pid) in ("S", "R")
    tmux.kill(number)
    # Its new parent may be slow to reap it.
    until(lambda: state(pid), lambda now: now in ("", "Z"))
