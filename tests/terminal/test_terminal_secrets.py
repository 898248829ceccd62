"""A password that was typed and used appears in no screen, argv, file, error, screenshot, log or crash report."""

from __future__ import annotations

import base64
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from access_control import PASSWORD, GuardedSet
from canary import leaks, process_data, recorded_data
from pseudo_terminal import Terminal, environment

Open = Callable[..., Any]
pytestmark = [pytest.mark.live, pytest.mark.terminal]

# Textual can save a screenshot; the dashboard does not offer it. Bind it to the key that pauses.
SCREENSHOTS = """
from tallyglass_tui.shell import app
app.Dashboard.action_pause = lambda self: self.save_screenshot(f"{len(self.screen_stack)}{self.current_mode}.svg")
"""
CRASH = """
import sys
from textual.app import App
from tallyglass_tui.shell import app
from tallyglass_tui.cli.main import main
def boom(self, *_):
    target = self.context.target
    revealed = [secret.reveal() for _, secret in target.secrets]
    raise RuntimeError(f"lost {target} {revealed} {revealed[0]}")
app.Dashboard.on_mount = boom
"""
GUARDED = "main(sys.argv[1:])\n"
UNGUARDED = "app.Dashboard._fatal_error = App._fatal_error\n" + GUARDED
PLANTS = """
import base64, os, sys, pathlib
word, home = sys.argv[1], pathlib.Path.home()
(home / ".config").mkdir()
(home / ".config" / "profiles.toml").write_text(f'uri = "mongodb://u:{word}@h/"')
(home / ".bash_history").write_text(f"mongosh -p {word}")
(home / "picture.svg").write_text(f"<text>{word}</text>")
(home / "log").write_text("x" + base64.b64encode(b"ab" + word.encode()).decode())
pathlib.Path("/proc/self/comm").write_text(word)
print("\\x1b]52;c;" + base64.b64encode(word.encode()).decode() + "\\x07", word, flush=True)
if os.fork():
    input()
else:
    os.execve("/bin/cat", ["cat", "-"], {"PASSWORD": word})
"""


def without_password(guarded: GuardedSet, user: str) -> str:
    """Return a URI that makes the program ask for the password."""
    return guarded.uri("").replace("mongodb://", f"mongodb://{user}@")


def test_typed_password_does_not_leak(guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("doctor", without_password(guarded_set, "admin"))
    terminal.wait("Password for admin")
    running = process_data(terminal.process.pid)
    terminal.press(PASSWORD + "\r")
    assert terminal.wait_for_exit() == 0
    assert b"admin@admin, roles root@admin" in terminal.raw
    assert not leaks(running | recorded_data(terminal, tmp_path))


def test_password_from_a_profile_variable_does_not_leak(
    guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path
) -> None:
    folder = tmp_path / ".config" / "tallyglass"
    folder.mkdir(parents=True)
    uri = without_password(guarded_set, "admin:${WORD}")
    (folder / "profiles.toml").write_text(f'[prod]\nuri = "{uri}"\n')
    terminal = open_terminal("doctor", "--profile=prod", environ={"WORD": PASSWORD})
    assert terminal.wait_for_exit() == 0
    assert b"admin@admin, roles root@admin" in terminal.raw
    assert not leaks(recorded_data(terminal, tmp_path))


def test_wrong_password_does_not_leak(guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("counters", without_password(guarded_set, "admin"))
    terminal.wait("Password for admin")
    terminal.press(PASSWORD + "x\r")
    assert terminal.wait_for_exit() == 3
    assert b"does not accept this user name and password" in terminal.raw
    assert not leaks(recorded_data(terminal, tmp_path))


def test_ctrl_c_at_the_prompt_exits(guarded_set: GuardedSet, open_terminal: Open) -> None:
    terminal = open_terminal("counters", without_password(guarded_set, "admin"))
    terminal.wait("Password for admin")
    terminal.press("\x03")
    assert terminal.wait_for_exit() == 130
    assert b"Traceback" not in terminal.raw


@pytest.mark.smoke
@pytest.mark.usefixtures("core_files_allowed")
def test_dashboard_does_not_leak_the_password(guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path) -> None:
    """Include a screenshot of each page and Textual's own log, which the environment can turn on."""
    terminal = open_terminal(
        without_password(guarded_set, "admin"),
        setup=SCREENSHOTS,
        environ={"TEXTUAL_LOG": str(tmp_path / "textual.log"), "TEXTUAL": "debug"},
        cwd=tmp_path,
    )
    terminal.wait("Password for admin")
    assert core_file_limit(terminal.process.pid) == resource.getrlimit(resource.RLIMIT_CORE)[1]
    terminal.press(PASSWORD + "\r")
    terminal.wait("1 Counters")
    running = process_data(terminal.process.pid)
    assert core_file_limit(terminal.process.pid) == 0
    terminal.press("p3")
    terminal.wait("following")
    terminal.press("p4")
    terminal.wait(lambda text: "user admin." in text or "role admin." in text)
    terminal.press("pyq")
    assert terminal.wait_for_exit() == 0
    assert len([*tmp_path.glob("*.svg")]) == 3
    assert (tmp_path / "textual.log").stat().st_size > 1_000
    assert not leaks(running | recorded_data(terminal, tmp_path))


@pytest.fixture
def core_files_allowed() -> Iterator[None]:
    """Allow core files, up to the hard limit, for processes started in a test."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


def core_file_limit(process: int) -> int:
    """Return the limit of the size of a process's core file in bytes, or -1 for no limit."""
    return resource.prlimit(process, resource.RLIMIT_CORE)[0]


@pytest.fixture
def crashed(guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path) -> Callable[[str], list[str]]:
    """Crash the dashboard with the password among the locals and in the message, and return what leaks."""

    def crash(how: str) -> list[str]:
        password = tmp_path / "password"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o600)
        code = tmp_path / "crash.py"
        code.write_text(CRASH + how)
        uri = without_password(guarded_set, "admin")
        terminal = open_terminal(uri, f"--password-file={password}", environ={"TALLYGLASS_TRACEBACK": "1"}, script=code)
        terminal.wait_for_exit()
        assert b"RuntimeError" in terminal.raw
        password.unlink()
        return leaks(recorded_data(terminal, tmp_path))

    return crash


def test_crash_does_not_leak_the_password(crashed: Callable[[str], list[str]]) -> None:
    assert crashed(GUARDED) == []


def test_unguarded_crash_report_leaks_the_password(crashed: Callable[[str], list[str]]) -> None:
    assert crashed(UNGUARDED) == ["screen"]


def test_search_finds_planted_passwords(tmp_path: Path) -> None:
    terminal = Terminal([sys.executable, "-c", PLANTS, PASSWORD], environment(tmp_path, WORD=PASSWORD))
    try:
        terminal.wait_raw(lambda raw: PASSWORD.encode() in raw)
        process = terminal.process.pid
        # Until its exec, a child is a copy of its parent, including name and arguments.
        terminal.wait(lambda _: len(leaks(process_data(process))) == 4)
        child = next(name.split()[0] for name in process_data(process) if not name.startswith(str(process)))
        assert {*leaks(process_data(process))} == {
            f"{process} cmdline", f"{process} environ", f"{process} comm", f"{child} environ",
        }  # fmt: skip
        assert {*leaks(recorded_data(terminal, tmp_path))} == {
            "screen", "clipboard 0", ".config/profiles.toml", ".bash_history", "picture.svg", "log",
        }  # fmt: skip
    finally:
        terminal.press("\r\x04")
        terminal.close()


def test_search_finds_base64_at_any_offset() -> None:
    for before in (b"", b"a", b"ab", b"abc"):
        assert leaks({"x": base64.b64encode(before + PASSWORD.encode() + b"c")})
    assert not leaks({"x": base64.b64encode(b"something else")})


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_refuses_a_terminal_without_capabilities(kind: str, guarded_set: GuardedSet, open_terminal: Open) -> None:
    terminal = open_terminal("mongodb://127.0.0.1:1/", environ={"TERM": kind})
    assert terminal.wait_for_exit() == 2
    assert b"cannot show the dashboard" in terminal.raw
    assert b"tallyglass counters" in terminal.raw
    assert b"\x1b" not in terminal.raw
