"""Inside tmux: detached and attached again it goes on, and it ends with the tmux server."""

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
from pseudo_terminal import PATIENCE, Terminal, dashboard, environment
from tallyglass.demo.server import ReplicaSet

pytestmark = [pytest.mark.live, pytest.mark.terminal, pytest.mark.needs("tmux")]

IGNORED = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)"


class Tmux:
    """A tmux server of its own, with one pane of 80x24."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._base = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]
        self._env = environment(home, SHELL="/bin/sh", PS1="ready ")
        self._attached: list[Terminal] = []
        self._pane: int | None = None
        self._panes: list[int] = []

    def start(self, *argv: str) -> None:
        """Run a program in the pane, in place of a shell."""
        self._run("new-session", "-d", "-x80", "-y24", shlex.join(["exec", *argv]))
        self._panes.append(int(self.show("#{pane_pid}")))
        self._pane = os.pidfd_open(self._panes[-1])

    def show(self, what: str) -> str:
        """What tmux knows, such as ``#{pane_pid}``."""
        return self._run("display-message", "-p", what).strip()

    def press(self, keys: str) -> None:
        """Type, without anybody attached."""
        self._run("send-keys", keys)

    def wait(self, seen: str, seconds: float = PATIENCE) -> str:
        """Wait until the pane shows a text; the pane then."""
        return until(lambda: self._run("capture-pane", "-p"), lambda text: seen in text, seconds)

    def attach(self) -> Terminal:
        """A person's terminal that looks at the pane."""
        self._attached.append(Terminal([*self._base, "attach"], self._env))
        return self._attached[-1]

    def detach(self) -> None:
        """Send everybody away who looks."""
        self._run("detach-client")

    def kill(self, number: signal.Signals) -> None:
        """End the tmux server."""
        os.kill(int(self.show("#{pid}")), number)

    def close(self) -> None:
        """End everything."""
        for terminal in self._attached:
            terminal.close()
        # A stopped process does not end with its terminal.
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


def until(ask: Callable[[], str], holds: Callable[[str], object], seconds: float = PATIENCE) -> str:
    """Ask again and again until the answer will do."""
    deadline = time.monotonic() + seconds
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, f"never: {answer}"
        time.sleep(0.1)
    return answer


def state(pid: int) -> str:
    """The state of a process, as the kernel names it; empty where it is gone."""
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


def look_and_leave(tmux: Tmux, uri: str) -> None:
    """Start the dashboard, with a program after it, and look at it once."""
    tmux.start("sh", "-c", f"{shlex.join(dashboard(uri))}; exec cat")
    person = tmux.attach()
    person.wait("rs tally")
    tmux.detach()
    assert person.ended() == 0


def goes_on(tmux: Tmux, seconds: float = PATIENCE) -> None:
    """Whether it takes keys and shows what it reads, with nobody attached."""
    tmux.press("3")
    tmux.wait("following", seconds)


def test_detached_and_attached_again(replica_set: ReplicaSet, tmux: Tmux) -> None:
    look_and_leave(tmux, replica_set.uri)
    goes_on(tmux)
    again = tmux.attach()
    again.wait(lambda text: "following" in text and "q  Quit" in text)
    again.press("1")
    again.wait("most urgent first")
    again.press("q")
    until(lambda: tmux.show("#{alternate_on}#{cursor_flag}#{mouse_any_flag}#{pane_current_command}"), "010cat".__eq__)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "dead"])
def test_one_that_does_not_go_on_is_noticed(replica_set: ReplicaSet, tmux: Tmux, number: signal.Signals) -> None:
    look_and_leave(tmux, replica_set.uri)
    shell = tmux.show("#{pane_pid}")
    (child,) = map(int, Path(f"/proc/{shell}/task/{shell}/children").read_text().split())
    os.kill(child, number)
    with pytest.raises(AssertionError, match=r"\Anever: "):
        goes_on(tmux, seconds=1)
    until(lambda: state(child), lambda now: now in ("T", "Z", ""))


@pytest.mark.parametrize(
    ("number", "setup"), [(signal.SIGTERM, ""), (signal.SIGKILL, IGNORED)], ids=["ended", "killed"]
)
def test_it_ends_with_the_tmux_server(replica_set: ReplicaSet, tmux: Tmux, number: signal.Signals, setup: str) -> None:
    tmux.start(*dashboard(replica_set.uri, setup=setup))
    tmux.wait("rs tally")
    pid = int(tmux.show("#{pane_pid}"))
    assert state(pid) in ("S", "R")
    tmux.kill(number)
    # Whoever inherits it may be slow to bury it; a dead process costs nothing.
    until(lambda: state(pid), lambda now: now in ("", "Z"))
