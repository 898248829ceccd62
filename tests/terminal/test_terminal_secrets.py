"""A password is typed, used, and found nowhere afterwards: screen, argv, files, errors, a forced crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from access_control import LEAKS, PASSWORD, GuardedSet

Open = Callable[..., Any]
pytestmark = [pytest.mark.live, pytest.mark.terminal]

CRASH = """
import sys
from tallyglass_tui import app
from tallyglass_tui.cli import main
def boom(self, *_):
    target = self.session.target
    revealed = [secret.reveal() for _, secret in target.secrets]
    raise RuntimeError(f"lost {target} {revealed} {revealed[0]}")
app.Dashboard.on_mount = boom
main(sys.argv[1:])
"""


def without_password(guarded: GuardedSet, user: str) -> str:
    """The URI to be asked for the password."""
    return guarded.uri("").replace("mongodb://", f"mongodb://{user}@")


def assert_nowhere(terminal: Any, home: Path, *, also: str = "") -> None:
    """No part of the password is in what the terminal got, or in any file that was written."""
    seen = [bytes(terminal.raw), also.encode()]
    seen += [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    for leak in (*LEAKS, PASSWORD):
        assert not [data for data in seen if leak.encode() in data], leak


def argv_of(terminal: Any) -> str:
    return Path(f"/proc/{terminal.process.pid}/cmdline").read_text()


def test_a_typed_password(guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("doctor", without_password(guarded_set, "admin"))
    terminal.wait("Password for admin")
    argv = argv_of(terminal)
    terminal.press(PASSWORD + "\r")
    assert terminal.ended() == 0
    assert b"admin@admin, roles root@admin" in terminal.raw
    assert_nowhere(terminal, tmp_path, also=argv)


def test_a_wrong_password(guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("counters", without_password(guarded_set, "admin"))
    terminal.wait("Password for admin")
    terminal.press(PASSWORD + "x\r")
    assert terminal.ended() == 3
    assert b"does not accept this user name and password" in terminal.raw
    assert_nowhere(terminal, tmp_path)


def test_nothing_typed_is_no_answer(guarded_set: GuardedSet, open_terminal: Open) -> None:
    terminal = open_terminal("counters", without_password(guarded_set, "admin"))
    terminal.wait("Password for admin")
    terminal.press("\x03")
    assert terminal.ended() == 130
    assert b"Traceback" not in terminal.raw


def test_the_dashboard_through_normal_use(guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(without_password(guarded_set, "admin"))
    terminal.wait("Password for admin")
    terminal.press(PASSWORD + "\r")
    terminal.wait("1 Counters")
    argv = argv_of(terminal)
    terminal.press("3")
    terminal.wait("following")
    terminal.press("4")
    terminal.wait(lambda text: "user admin." in text or "role admin." in text)
    terminal.press("q")
    assert terminal.ended() == 0
    assert_nowhere(terminal, tmp_path, also=argv)


def test_a_forced_crash(guarded_set: GuardedSet, open_terminal: Open, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    password.chmod(0o600)
    code = tmp_path / "crash.py"
    code.write_text(CRASH)
    environ = {"TALLYGLASS_TRACEBACK": "1"}
    terminal = open_terminal(
        without_password(guarded_set, "admin"), f"--password-file={password}", environ=environ, script=code
    )
    assert terminal.ended() not in (0, None)
    assert b"RuntimeError" in terminal.raw
    password.unlink()
    assert_nowhere(terminal, tmp_path)


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_a_terminal_that_cannot_show_it(kind: str, guarded_set: GuardedSet, open_terminal: Open) -> None:
    terminal = open_terminal("mongodb://127.0.0.1:1/", environ={"TERM": kind})
    assert terminal.ended() == 2
    assert b"cannot show the dashboard" in terminal.raw
    assert b"tallyglass counters" in terminal.raw
    assert b"\x1b" not in terminal.raw
