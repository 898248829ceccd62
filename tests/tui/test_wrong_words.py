"""Wrong words on the command line: one sentence with advice, and nothing is read in place of what was meant."""

from __future__ import annotations

import threading
import time

import pytest
from click.testing import CliRunner

from tallyglass.errors import InputError
from tallyglass_tui.cli.main import main
from tallyglass_tui.cli.until_signal import EndSignal
from tallyglass_tui.restore.typed import count_of

DEAD = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1"
DIGITS = "9" * 5_000
"""More than Python reads as a number."""
HELP = {"": "tallyglass", "counters": "tallyglass counters", "restore plan": "tallyglass restore plan"}


@pytest.mark.parametrize(
    "words",
    [
        ["counters", ""],
        ["counters", "--profile="],
        ["--profile=", "counters"],
        ["counters", DEAD, "--password-file="],
        ["oplog", DEAD, "--op="],
        ["oplog", DEAD, "--id="],
        ["oplog", DEAD, "--text="],
    ],
    ids=str,
)
def test_an_unset_variable_is_not_another_deployment_or_all(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYGLASS_URI", DEAD)
    found = CliRunner().invoke(main, words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert ": It is empty. Try: tallyglass" in found.stderr


@pytest.mark.parametrize("command", HELP)
def test_an_option_without_its_value_names_the_help(command: str) -> None:
    found = CliRunner().invoke(main, [*command.split(), "--profile"])
    said = f"tallyglass: Option '--profile' requires an argument. Try: {HELP[command]} --help\n"
    assert (found.exit_code, found.stderr) == (2, said)


def test_limits_that_contradict_each_other_are_refused_before_anything_is_read() -> None:
    words = ["check", DEAD, "--oplog-hours-warn=1", "--oplog-hours-crit=5"]
    found = CliRunner().invoke(main, words)
    assert (found.exit_code, found.stderr) == (3, "")
    why = "A warning has to come before the critical state. Give an --oplog-hours-warn above --oplog-hours-crit."
    assert found.stdout == f"COUNTERS UNKNOWN - {why}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export", DEAD, f"--listen=127.0.0.1:{DIGITS}"], "Write HOST:PORT"),
        (["restore", "save-oplog", "s", DEAD, f"--keep={DIGITS}d"], "Write a duration"),
        (["restore", "save-oplog", "s", DEAD, "--keep=36601d"], "Write a duration"),
        (["restore", "look", "x", "--deadline=0h"], "Write a duration"),
        (["incidents", "report", DIGITS, DEAD, "--out=a.html"], "names no incident."),
    ],
    ids=["port", "age", "century", "nothing", "incident"],
)
def test_a_number_beyond_all_measure_is_refused_in_a_sentence(words: list[str], sentence: str) -> None:
    found = CliRunner().invoke(main, words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert sentence in found.stderr
    assert "Unexpected" not in found.stderr


def test_a_number_of_documents_beyond_all_measure_is_refused() -> None:
    assert count_of("999,999,999,999,999,999") == 10**18 - 1
    for text in ("1" + 18 * "0", DIGITS):
        with pytest.raises(InputError, match="is not a number of documents"):
            count_of(text)


@pytest.mark.parametrize("seconds", [float("inf"), 1e308, None])
def test_a_wait_may_be_endless(seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("signal.set_wakeup_fd", lambda _: None)
    end = EndSignal()
    timer = threading.Timer(0, end.end)
    timer.start()
    began = time.monotonic()
    end.wait(seconds)
    timer.join()
    assert time.monotonic() - began < threading.TIMEOUT_MAX
