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
from tallyglass.restore.plan.steps.making import escape_pattern
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


PROGRAM_FILES = ("dump-", "load-repairs", "stage", "catch-up")
"""The small shell programs whose lines hold names; the others are the same for every plan."""


def lines_of(plan: dict[str, Any]) -> list[str]:
    """Every line and every small program of a plan, as it is run."""
    files = [file["text"] for file in plan["files"] if file["name"].startswith(PROGRAM_FILES)]
    return [step["shell"] for step in plan["commands"]] + files


@pytest.mark.live
def test_each_command_of_a_plan_receives_exactly_its_arguments(plan: dict[str, Any], recorder: Recorder) -> None:
    for step in plan["commands"]:
        assert step["shell"].isascii()
        assert step["shell"].isprintable()
        assert recorder.run(step["shell"]) == [encoded(step["argv"])], step["title"]
    calls = [call for line in lines_of(plan) for call in recorder.run(line)]
    assert not any(recorder.cwd.iterdir())
    given = {word for call in calls for word in call}
    for row in plan["returns"]:
        if row["strategy"] == "merge":
            assert f"--nsTo={escape_pattern(row['beside'])}".encode() in given, row
    dumped = {
        (call[2].removeprefix(b"--db="), call[3].removeprefix(b"--collection="))
        for call in calls
        if call[0] == b"mongodump" and call[3].startswith(b"--collection=")
    } - {(b"local", b"oplog.rs")}
    wanted = {
        tuple(row["ns"].encode().split(b".", 1)) for row in plan["returns"] if row["strategy"] in ("whole", "replace")
    }
    assert dumped <= wanted
    joined = b"\0".join(sorted(given)).decode()
    assert [name for name in collection_names().values() if name in joined], (
        "names that do harm are among the arguments"
    )


@pytest.mark.live
@pytest.mark.needs("zsh")
def test_zsh_gives_them_the_same_arguments(plan: dict[str, Any], recorder: Recorder) -> None:
    for step in plan["commands"]:
        assert recorder.run(step["shell"], SHELLS["zsh"]) == [encoded(step["argv"])], step["title"]
    assert not any(recorder.cwd.iterdir())


@pytest.mark.live
def test_naive_quoting_would_not_do(plan: dict[str, Any], recorder: Recorder) -> None:
    calls = [call for line in lines_of(plan) for call in recorder.run(line)]
    wrong = [call for call in calls if call not in recorder.run(b" ".join(call).decode())]
    assert len(wrong) > 5


@pytest.mark.live
@pytest.mark.needs("node")
def test_each_program_for_mongosh_is_javascript_in_printable_ascii(plan: dict[str, Any], tmp_path: Path) -> None:
    programs = [file for file in plan["files"] if file["name"].endswith(".js")]
    assert len(programs) > 3
    for file in programs:
        assert file["text"].isascii()
        assert file["text"].replace("\n", "").isprintable()
        (tmp_path / file["name"]).write_text(file["text"])
        subprocess.run(["node", "--check", file["name"]], check=True, cwd=tmp_path)


def arguments() -> list[str]:
    """Every text as an argument, and texts with a special meaning in zsh; none contains a NUL or is empty."""
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
    seconds: float = 180.0,
) -> list[list[bytes]]:
    """Type each word as an argument into an interactive shell in a real terminal, each at a new prompt."""
    argv = [shutil.which(shell[0]) or shell[0], *shell[1:], "-i"]
    deadline = time.monotonic() + seconds
    with Terminal(argv, recorder.interactive_environ, cwd=recorder.cwd, emulated=False) as terminal:
        since = 0
        for number, word in enumerate(words, 1):
            # Printed once the shell, and no longer the kernel's line discipline, reads the input.
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
