"""Emitted commands with hostile names in them: bash and zsh hand on exactly the bytes, from a script and pasted."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hostile.populate import DB, Hostile
from hostile.samples import ESCAPES, TEXTS, collection_names, control_bytes, hidden
from pseudo_terminal import Terminal
from tallyglass.text import shell_join, shell_quote
from tallyglass_tui.cli.main import main

PROGRAMS = (
    "mongodump", "mongorestore", "mongosh", "mongod", "bsondump", "tallyglass", "mkdir", "cp", "rm", "mv", "ls", "cat",
    "chmod", "sha256sum", "touch", "tee", "head", "awk", "sed", "sleep", "grep", "find", "ln", "stat", "wc", "kill",
    "bash", "sh",
)  # fmt: skip


class Recorder:
    """Programs of many names that only write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.log = folder / "calls"
        self.cwd = folder / "cwd"
        self.folder.mkdir(parents=True)
        self.cwd.mkdir()
        stub = self.folder / "stub"
        # One printf: programs of a pipe write at the same time, and only single writes do not mix.
        stub.write_text(f"#!/bin/sh\nprintf '%s\\0' \"${{0##*/}}\" \"$@\" '' '' >>{self.log}\n")
        stub.chmod(0o700)
        for program in PROGRAMS:
            (self.folder / program).symlink_to(stub)

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": str(self.folder), "HOME": str(self.cwd), "TERM": "dumb", "LC_ALL": "C.UTF-8", "PS1": "$ "}

    @property
    def interactive_environ(self) -> dict[str, str]:
        """The same for a shell that reads from a terminal, and says when it does."""
        settings = self.folder.parent / "inputrc"
        settings.write_text("set enable-bracketed-paste on\n")
        return self.environ | {"TERM": "xterm-256color", "INPUTRC": str(settings)}

    def calls(self) -> list[list[bytes]]:
        """Each call so far, and forget them. No argument may be empty."""
        if not self.log.exists():
            return []
        data = self.log.read_bytes()
        self.log.unlink()
        return [call.split(b"\0") for call in data.split(b"\0\0\0") if call]

    def count(self) -> int:
        """How many calls there are so far."""
        return self.log.read_bytes().count(b"\0\0\0") if self.log.exists() else 0

    def run(self, line: str, shell: Sequence[str] = ("bash",)) -> list[list[bytes]]:
        script = self.folder.parent / "script"
        script.write_text(line + "\n", encoding="utf-8")
        subprocess.run(
            [shutil.which(shell[0]) or shell[0], *shell[1:], str(script)],
            env=self.environ,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
        return self.calls()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def encoded(argv: list[str]) -> list[bytes]:
    return [word.encode() for word in argv]


@pytest.fixture(scope="module")
def plan(hostile: Hostile, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The plan that undoes every accident of the hostile server."""
    found = CliRunner().invoke(main, ["incidents", "--json", hostile.uri])
    first = next(row for row in json.loads(found.stdout) if row["ns"].startswith(DB))
    work = tmp_path_factory.mktemp("work") / "it's $(touch PWNED) `a` & b"
    work.mkdir()
    words = ["restore", "plan", f"--backup={hostile.backup}", f"--before={first['point']}", f"--work-dir={work}"]
    result = CliRunner().invoke(main, [*words, "--json", hostile.uri])
    assert result.exit_code == 1, result.stderr
    assert not control_bytes(result.stdout_bytes + result.stderr_bytes)
    plain = CliRunner().invoke(main, [*words, hostile.uri])
    assert not control_bytes(plain.stdout_bytes + plain.stderr_bytes)
    assert not hidden(plain.stdout + plain.stderr)
    script = work.parent / "run.sh"
    assert CliRunner().invoke(main, [*words, f"--script={script}", hostile.uri]).exit_code == 1
    assert not hidden(script.read_text())
    subprocess.run(["bash", "-n", str(script)], check=True)
    made = json.loads(result.stdout)
    assert isinstance(made, dict)
    return made


@pytest.mark.live
def test_each_command_of_a_plan_gets_exactly_its_words(plan: dict[str, Any], recorder: Recorder) -> None:
    steps = [step for step in plan["commands"] if step["argv"]]
    assert len(steps) > 60
    for step in plan["commands"]:
        line = step["shell"]
        assert line.isascii()
        assert line.isprintable()
        calls = recorder.run(line)
        assert [call[0] for call in calls] != [b"touch"]
        if step["argv"]:
            assert encoded(step["argv"]) in calls, step["title"]
    assert not any(recorder.cwd.iterdir())
    given = "\0".join(word for step in steps for word in step["argv"])
    assert [name for name in collection_names().values() if name in given], "names that do harm are among the words"


@pytest.mark.live
@pytest.mark.needs("zsh")
def test_zsh_gives_them_the_same_words(plan: dict[str, Any], recorder: Recorder) -> None:
    calls = recorder.run("\n".join(step["shell"] for step in plan["commands"]), SHELLS["zsh"])
    assert all(encoded(step["argv"]) in calls for step in plan["commands"] if step["argv"])
    assert not any(recorder.cwd.iterdir())


@pytest.mark.live
def test_naive_quoting_would_not_do(plan: dict[str, Any], recorder: Recorder) -> None:
    wrong = [
        step
        for step in plan["commands"]
        if step["argv"] and encoded(step["argv"]) not in recorder.run(" ".join(step["argv"]))
    ]
    assert len(wrong) > 20


def arguments() -> list[str]:
    """Every text as an argument, and what zsh reads in its own way; none can hold a NUL, nor be empty."""
    return [text.replace("\0", "") for text in TEXTS.values()] + OF_ZSH


OF_ZSH = [
    "=ls",
    "x==ls",
    "--file==ls",
    "a:=ls",
    "~root:~",
    "{a,b}",
    "!!\x1b",
    "!-1\x07'",
    "^x^y\x1b",
    "%1",
    "@",
    "-",
    "+1",
]
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile"],
    "zsh": ["zsh", "-f", "-o", "EXTENDED_GLOB", "-o", "MAGIC_EQUAL_SUBST"],
}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.needs(name)) for name in SHELLS])
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell without anybody's own settings; zsh with those that make it read more into a word."""
    return SHELLS[request.param]


def test_a_shell_runs_them_from_a_script(shell: list[str], recorder: Recorder) -> None:
    line = shell_join(["mongodump", *arguments()])
    assert recorder.run(line, shell) == [[b"mongodump", *encoded(arguments())]]


def paste(
    recorder: Recorder,
    shell: list[str],
    words: list[str],
    quote: Callable[[str], str] = shell_quote,
    *,
    bracketed: bool = False,
    seconds: float = 60.0,
) -> list[list[bytes]]:
    """Type each word as an argument into an interactive shell in a real terminal, each at a prompt of its own."""
    argv = [shutil.which(shell[0]) or shell[0], *shell[1:], "-i"]
    deadline = time.monotonic() + seconds
    with Terminal(argv, recorder.interactive_environ, cwd=recorder.cwd, emulated=False) as terminal:
        since = 0
        for number, word in enumerate(words, 1):
            # Said once the shell, and no longer the kernel's line discipline, reads what is typed.
            terminal.wait_raw(lambda data: PASTE_MODE_ON in data, since=since)
            since = len(terminal.raw)
            line = f"mongodump {quote(word)}"
            terminal.press(f"\x1b[200~{line}\x1b[201~\r" if bracketed else f"{line}\r")
            while recorder.count() < number:
                if time.monotonic() > deadline:
                    return recorder.calls()
                time.sleep(0.01)
    return recorder.calls()


PASTE_MODE_ON = b"\x1b[?2004h"
PASTED = [word for word in arguments() if len(word.encode()) <= 1000]


@pytest.mark.terminal
@pytest.mark.parametrize("bracketed", [False, True], ids=["raw", "bracketed"])
def test_pasting_gives_the_same_words(bracketed: bool, shell: list[str], recorder: Recorder) -> None:
    assert paste(recorder, shell, PASTED, bracketed=bracketed) == [encoded(["mongodump", word]) for word in PASTED]


@pytest.mark.terminal
def test_pasting_what_the_standard_library_quotes_would_not(shell: list[str], recorder: Recorder) -> None:
    words = [ESCAPES["line kill"], ESCAPES["tab"]]
    assert paste(recorder, shell, words, shlex.quote, seconds=2.0) != [encoded(["mongodump", word]) for word in words]


@pytest.mark.needs("zsh")
def test_zsh_would_read_a_word_in_its_own_way(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyglass.text._NEEDS_NO_QUOTES", re.compile(r"[A-Za-z0-9_@%+=:,./-]+\Z"))
    words = ["mongodump", "=ls", "--file==ls"]
    assert recorder.run(shell_join(words), SHELLS["zsh"]) != [encoded(words)]
