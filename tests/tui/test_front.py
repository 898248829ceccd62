"""The front of the command line: which word is what, what it imports, and how it ends."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result

from tallyglass.connection.profiles import Profile
from tallyglass.connection.secret import Secret
from tallyglass.connection.target import Driver, Target
from tallyglass.errors import ConnectError
from tallyglass_tui.cli import dashboard, error_boundary, options
from tallyglass_tui.cli.dashboard import why_no_terminal
from tallyglass_tui.cli.export import url_of
from tallyglass_tui.cli.main import COMMANDS, main
from tallyglass_tui.cli.options import ConnectionOptions, chosen_profile, target_of, target_of_profile, time_of
from tallyglass_tui.shell.context import OpenProfile

CANARY = "kAnArY7front"
OID = "656b5e7d0f3c2a1b9d8e7f60"


def run(*words: str, text: str = "") -> Result:
    return CliRunner().invoke(main, list(words), input=text)


def child(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tallyglass_tui", *words],
        capture_output=True,
        text=True,
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        ([], "res", ["restore"]),
        (["--profile", "prod"], "che", ["check"]),
        (["restore"], "start", ["start-copy"]),
        (["mongodb://h/"], "--al", ["--alarm"]),
    ],
)
def test_a_shell_completes_commands_and_options(words: list[str], begun: str, found: list[str]) -> None:
    shell = BashComplete(main, {}, "tallyglass", "_TALLYGLASS_COMPLETE")
    assert [item.value for item in shell.get_completions(words, begun)] == found


@pytest.mark.parametrize("words", [f"['oid', '--json', '{OID}']", "['--help']", "['restore', '--help']"])
def test_small_commands_import_neither_screen_nor_driver(words: str) -> None:
    code = (
        "import sys\nfrom tallyglass_tui.cli.main import main\n"
        f"try: main({words})\nexcept SystemExit as end: assert end.code == 0, end.code\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'textual', 'rich', 'pymongo', 'bson', 'motor'}))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


def test_a_folder_that_is_not_there_is_not_taken_for_a_server(tmp_path: Path) -> None:
    for words, said in (((str(tmp_path / "none"),), "There is no backup in"), ((), "Name the folder")):
        result = run("restore", "backups", *words)
        assert result.exit_code == 2
        assert said in result.output


def test_a_saved_oplog_without_backups_is_not_left_out(tmp_path: Path) -> None:
    result = run("check", "mongodb://127.0.0.1:1/", "--restore-oplog", str(tmp_path))
    assert (result.exit_code, "--restore-oplog needs --restore." in result.output) == (3, True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["check", "mongodb://127.0.0.1:1/", "--crit-days=nan"], 3),
        (["check", "mongodb://127.0.0.1:1/", "--warn-days=inf"], 3),
        (["check", "mongodb://127.0.0.1:1/", "--oplog-hours-crit=inf"], 3),
        (["restore", "window", "--backups=/", "--head-room=nan"], 3),
        (["restore", "window", "--backups=/", "--at-least=-1"], 3),
        (["counters", "mongodb://127.0.0.1:1/", "--timeout=nan"], 2),
    ],
)
def test_a_limit_that_no_number_passes_is_refused(words: list[str], code: int) -> None:
    result = run(*words)
    assert (result.exit_code, f"'{words[-1].partition('=')[0]}'" in result.output) == (code, True), result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["restore", "plan", "mongodb://h/", "--backup=/", "--before=1:1", "--since=now-1d"], "--since and --evidence"),
        (["doctor", "mongodb://h/", "--pre-images", "--db=shop"], "--db and --pre-images"),
    ],
)
def test_an_option_without_an_effect_is_refused(words: list[str], said: str) -> None:
    result = run(*words)
    assert (result.exit_code, said in result.output) == (2, True), result.output


@pytest.mark.parametrize(
    "words",
    [
        ["restore", "plan", "mongodb://h/", "--before=1:1", "--backup="],
        ["restore", "save-oplog", "", "mongodb://h/"],
        ["counters", "mongodb://h/", "--report="],
        ["incidents", "mongodb://h/", "--log="],
        ["incidents", "mongodb://h/", "--evidence="],
        ["incidents", "report", "1", "mongodb://h/", "--out=x.md", "--plan="],
        ["watch", "mongodb://h/", "--evidence="],
    ],
)
def test_an_empty_path_is_not_the_folder_that_one_is_in(words: list[str]) -> None:
    result = run(*words)
    assert (result.exit_code, "The path is empty." in result.output) == (2, True), result.output


def test_an_address_of_ipv6_is_one_that_can_be_opened() -> None:
    assert url_of("::1", 9867) == "http://[::1]:9867/metrics"
    said = run("export", "mongodb://127.0.0.1:1/", "--listen=127.0.0.1:0", "--seconds=0.1").stderr
    assert re.search(r"http://127\.0\.0\.1:\d+/metrics;", said)


def test_oid() -> None:
    (facts,) = json.loads(run("oid", "--json", OID).stdout)
    assert facts["time"] == "2023-12-02T16:42:37Z"
    for typed in ("2023-12-02T16:42:37Z", "Timestamp(1701535357, 14)"):
        at = run("oid", "--at", typed)
        assert at.stdout == "656b5e7d0000000000000000\n"
        assert re.fullmatch(r"tallyglass: --at is 2023-12-02 16:42:37Z = .* local, .* ago\.\n", at.stderr)
    assert "$lt" in run("oid", "--at", "now-1h", "--until", "now").stdout
    assert run("oid", "-", text=f"a {OID} b").stdout.startswith(OID)
    nothing = run("oid", text="nothing here")
    assert (nothing.exit_code, "There is no ObjectId in that text" in nothing.stderr) == (2, True)
    assert "Give one, - for stdin, or --at TIME" in run("oid").stderr


@pytest.mark.parametrize("said", ["No such option. (Did you mean --ns?)", "Is it that?", "No!", "So it is."])
def test_a_sentence_that_has_its_end_gets_no_other(said: str) -> None:
    assert error_boundary.usage_sentence(click.UsageError(said)) == said


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["oid", "zz\x1b[2J"], 2, "not an ObjectId"),
        (["oid", "--at", "\x1b]52;c;x\x07"], 2, "is not a time"),
        (["oid", "--nothing"], 2, "No such option"),
        (["nothing\x1b[2J"], 2, "neither a command"),
        (["dril"], 2, "Did you mean tallyglass restore drill?"),
        (["incident"], 2, "Did you mean tallyglass incidents?"),
        ([f"http://u:{CANARY}@h/"], 2, "not a connection string"),
        ([f"mongodb://u:{CANARY}/@h/"], 2, "percent-encoded"),
        (["doctor"], 2, "No server was given"),
        (["doctor", "mongodb://h/", f"mongodb://u:{CANARY}@h/"], 2, "unexpected extra argument"),
        (["doctor", "--profile", "none-of-that-name"], 2, "profile"),
        (["doctor", "mongodb://u@h/", "--password-file", "/nowhere/at/all"], 2, "cannot be read"),
        (["doctor", "mongodb://h/", "--password-file", "/dev/null"], 2, "no user name"),
        (["doctor", "mongodb://u@h/"], 3, "no terminal to ask"),
        (["mongodb://h/"], 2, "needs a terminal"),
        (["localhost:27017"], 2, "needs a terminal"),
        ([], 2, "No server was given"),
        (["--mouse", "--alarm", "bell"], 2, "No server was given"),
        (["--mouse", "localhost:27017"], 2, "needs a terminal"),
        (["--alarm", "loud"], 2, "--alarm"),
        (["oplog", "localhost:27017", "--since", "2026-13-01"], 2, "--since: '2026-13-01' is not a time"),
    ],
)
def test_bad_words_get_one_clear_line(
    words: list[str], code: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TALLYGLASS_URI", raising=False)
    result = run(*words)
    assert result.exit_code == code
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if "warning:" not in line]
    assert sentence in line
    assert line.isprintable()
    assert "Traceback" not in result.stderr
    assert CANARY not in result.stderr


@pytest.mark.parametrize(("term", "named"), [("", "TERM is not set"), ("dumb", "TERM=dumb"), ("xterm", "")])
def test_a_terminal_that_cannot_show_it_is_named(term: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True)
    why = why_no_terminal()
    assert named in why
    assert bool(named) == bool(why)


def _in_context(given: ConnectionOptions, before: ConnectionOptions | None = None) -> Target:
    with click.Context(click.Command("x"), obj=before):
        return target_of(given)


def test_which_server_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "profiles.toml").write_text('[p]\nuri = "mongodb://profile/"\ndriver = "motor"\n')
    monkeypatch.setattr("tallyglass.connection.profiles.default_path", lambda: tmp_path / "profiles.toml")
    monkeypatch.setenv("TALLYGLASS_URI", f"mongodb://u:{CANARY}@environment/")
    assert _in_context(ConnectionOptions()).uri == "mongodb://u@environment/"
    assert _in_context(ConnectionOptions(profile="p")).driver is Driver.MOTOR
    assert _in_context(ConnectionOptions(driver="pymongo"), ConnectionOptions(profile="p")).driver is Driver.PYMONGO
    assert _in_context(ConnectionOptions(uri="mongodb://argument/", profile="p")).uri == "mongodb://argument/"
    assert capsys.readouterr().err == ""
    _in_context(ConnectionOptions(uri=f"mongodb://u:{CANARY}@argument/"))
    warning = capsys.readouterr().err
    assert "(ps)" in warning
    assert CANARY not in warning


def test_a_profile_never_gets_what_belongs_to_another_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLYGLASS_DRIVER", raising=False)
    (tmp_path / "password").write_text(CANARY)
    before = ConnectionOptions(shards=("mongodb://s/",), password_file=str(tmp_path / "password"), profile="p")
    with click.Context(click.Command("x"), obj=before):
        assert chosen_profile(ConnectionOptions()) is None, "so its name is not shown beside another server"
        target = target_of_profile(Profile("staging", "mongodb://u:other@staging/"))
        assert (target.uri, dict(target.secrets)["password"].reveal()) == ("mongodb://u@staging/", "other")
        for profile in (Profile("a", "mongodb://u@h/"), Profile("b", "mongodb://u@h/", password_file=Path("-"))):
            with pytest.raises(ConnectError, match="needs a password"):
                target_of_profile(profile, ask=False)


def test_ctrl_c_at_the_prompt_of_another_profile_leads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profiles.toml").write_text('[p]\nuri = "mongodb://u@h/"\n')
    monkeypatch.setattr("tallyglass.connection.profiles.default_path", lambda: tmp_path / "profiles.toml")
    monkeypatch.setattr(dashboard, "why_no_terminal", lambda: "")

    def interrupted(target: Target, _: str) -> Target:
        if target.user:
            raise click.Abort
        return target

    def opened(*_: object, open_profile: OpenProfile, **__: object) -> int:
        with pytest.raises(ConnectError, match="No password was typed for p"):
            open_profile("p")
        return 0

    monkeypatch.setattr(options, "_with_password", interrupted)
    monkeypatch.setattr(dashboard, "open_dashboard", opened)
    assert run("mongodb://other/").exit_code == 0


def test_the_password_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "password"
    file.write_text(f"{CANARY} with space \nsecond line\n")
    file.chmod(0o600)
    given = ConnectionOptions(uri="mongodb://u@h/", password_file=str(file))
    assert dict(_in_context(given).secrets)["password"].reveal() == f"{CANARY} with space "
    assert capsys.readouterr().err == ""
    file.chmod(0o644)
    _in_context(given)
    assert "chmod 600" in capsys.readouterr().err


def test_an_unexpected_error_is_one_line_and_its_traceback_is_opt_in(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = Secret(CANARY + "\x1b[2J")

    def fail() -> None:
        raise RuntimeError(f"lost {secret.reveal()} at mongodb://u:{CANARY}x@h/")

    monkeypatch.setattr("warnings.showwarning", None)
    assert error_boundary.error_boundary(fail) == error_boundary.UNKNOWN
    (line,) = capsys.readouterr().err.splitlines()
    assert "RuntimeError" in line
    monkeypatch.setenv(error_boundary.TRACEBACK_VARIABLE, "1")
    assert error_boundary.error_boundary(fail) == error_boundary.UNKNOWN
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "\x1b" not in told
    for text in (line, told):
        assert CANARY not in text


def test_the_ways_to_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def ending(error: BaseException) -> int:
        def end() -> None:
            raise error

        monkeypatch.setattr("warnings.showwarning", None)
        return error_boundary.error_boundary(end)

    assert ending(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""
    assert ending(ConnectError("Gone.", "Look.")) == 3
    assert capsys.readouterr().err == "tallyglass: Gone. Look.\n"


def test_a_closed_pipe_ends_quietly() -> None:
    ids = " ".join([OID] * 20_000)
    line = f"exec 2>&1; {sys.executable} -m tallyglass_tui oid {ids[:100_000]} | head -1; exit ${{PIPESTATUS[0]}}"
    said = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (said.stdout.count("\n"), said.returncode) == (1, 141), "no code that a command uses for an answer"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is a thing of Linux")
def test_a_full_disk_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "tallyglass_tui", "oid", OID]
        said = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    sentence = "The output cannot be written: No space left on device. Its last line may be incomplete."
    assert (said.returncode, said.stderr) == (3, f"tallyglass: {sentence}\n")


def test_a_disk_that_is_full_of_tables_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("warnings.showwarning", None)
    with closing(sqlite3.connect(tmp_path / "t")) as tables:
        tables.execute("PRAGMA max_page_count = 2")
        assert (
            error_boundary.error_boundary(lambda: tables.executescript("CREATE TABLE a (b); CREATE TABLE c (d)")) == 3
        )
    assert "cannot be written: No space left on device." in capsys.readouterr().err


def test_a_stream_that_is_no_utf8_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr("warnings.showwarning", None)
    assert error_boundary.error_boundary(lambda: print("caf\u00e9 \udcff")) == 0
    assert written.getvalue() == b"caf\\xe9 \\udcff\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams(closed: str) -> None:
    for word, code in ((OID, 0), ("zz", 2)):
        line = f"{sys.executable} -m tallyglass_tui oid {word} {closed}"
        said = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert said.returncode == code
        assert "Traceback" not in said.stdout + said.stderr


@pytest.mark.parametrize(("words", "code"), [(["oid"], 2), (["counters", "mongodb://u@127.0.0.1:1/"], 3)])
def test_a_closed_stdin_is_an_empty_one(words: list[str], code: int) -> None:
    line = shlex.join([sys.executable, "-m", "tallyglass_tui", *words]) + " <&-"
    said = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (said.returncode, "Unexpected error" in said.stderr) == (code, False), said.stderr


def test_what_is_no_text_on_stdin_hides_no_id_and_is_no_password() -> None:
    for words, code, found in (
        (("oid", "-"), 0, OID),
        (("counters", "mongodb://u@127.0.0.1:1/", "--password-file", "-"), 2, "is not UTF-8 text"),
    ):
        said = subprocess.run(
            [sys.executable, "-m", "tallyglass_tui", *words], input=b"caf\xe9 " + OID.encode(), capture_output=True,
            env=os.environ | {"PYTHONIOENCODING": "utf-8"}, check=False,
        )  # fmt: skip
        assert (said.returncode, found in (said.stdout + said.stderr).decode()) == (code, True), said.stderr


def test_a_text_that_is_not_read_to_its_end_is_said_to_be() -> None:
    said = run("oid", "-", text=f"{OID} {'x' * 16_000_000} 656b5e7d0f3c2a1b9d8e7f61")
    assert (said.stdout.count("656b5e7d"), "only the first 16,000,000 characters were read" in said.stderr) == (1, True)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: tallyglass")


def test_as_a_module() -> None:
    assert child("--version").stdout.startswith("tallyglass ")


def test_ctrl_c_before_everything_is_imported_leaves_no_trace() -> None:
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tallyglass_tui.cli.main': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from tallyglass_tui.cli.entry import main\n"
        "main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize(
    "text", ["00:00Z", "2 hours ago", "now-1d12h", "yesterday 14:30Z", "Timestamp(1795197974, 14)"]
)
def test_a_typed_time_is_echoed_before_it_is_used(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = time_of("--since", text)
    said = capsys.readouterr().err
    assert found is not None
    assert said.startswith(f"tallyglass: --since is {found.time:%Y-%m-%d %H:%M:%S}Z = ")
    assert " local, " in said


@pytest.mark.parametrize("words", [("counters",), ("--mouse", "restore", "plan", "--incident", "1")])
def test_a_command_after_the_connection_string_is_told_the_right_order(words: tuple[str, ...]) -> None:
    ended = run(f"mongodb://someone:{CANARY}@localhost", *words)
    assert ended.exit_code == 2
    assert "The command comes before the connection string: tallyglass " in ended.stderr
    assert CANARY not in ended.output


_LATER = {"pymongo", "sqlite3", "statistics", "ctypes", "tallyglass.counters.follow.watch"}
"""Imported once the first screen stands."""


def test_the_first_screen_waits_for_nothing_that_it_does_not_show() -> None:
    code = (
        "import sys, click, tallyglass_tui.cli.dashboard, tallyglass_tui.shell.run, tallyglass_tui.counters.page\n"
        "from tallyglass_tui.cli.counter_look import watch_settings\n"
        "from tallyglass_tui.cli.options import ConnectionOptions\n"
        "with click.Context(click.Command('tallyglass')):\n"
        "    watch_settings(ConnectionOptions(), None, history=True)\n"
        "print(*sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "textual.app" in shown
    assert not _LATER & set(shown)
