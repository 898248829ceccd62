"""The words of a schedule: they name its server, for a timer has no environment of the user."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallyglass_tui.cli.main import main

CANARY = "kAnArY7timer"
SLICES = ("restore", "save-oplog", "/slices", "--emit", "cron")
DRILL = ("restore", "drill", "--backup", "/backups", "--emit", "systemd")


def emitted(monkeypatch: pytest.MonkeyPatch, *words: str, uri: str = "") -> Result:
    monkeypatch.setenv("TALLYGLASS_URI", uri)
    monkeypatch.setattr(sys, "argv", ["tallyglass", *words])
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize("words", [SLICES, DRILL])
def test_a_schedule_names_the_server_of_the_environment(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYGLASS_DRIVER", "motor")
    uri = f"mongodb://u:{CANARY}@db1/?replicaSet=rs0"
    result = emitted(monkeypatch, *words, "--password-file", "/secret", uri=uri)
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if "/secret" in line]
    assert "mongodb://u@db1/?replicaSet=rs0" in line
    assert "--driver=motor" in line
    assert CANARY not in result.output
    named = emitted(monkeypatch, *words, "mongodb://argument/", uri="mongodb://environment/")
    assert "mongodb://argument/" in named.stdout
    assert "environment" not in named.stdout


def test_the_home_folder_is_named_where_the_shell_leaves_the_sign_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    result = emitted(monkeypatch, "restore", "save-oplog", "~/slices", "--emit", "cron", "mongodb://db1/")
    assert (f"{tmp_path}/slices" in result.stdout, "~" in result.stdout) == (True, False)
    (tmp_path / "counters.toml").write_text("=")
    result = CliRunner().invoke(main, ["check", "--config=~/counters.toml", "mongodb://127.0.0.1:1/"])
    assert f"{tmp_path}/counters.toml is not valid TOML" in result.output


@pytest.mark.parametrize("words", [SLICES, DRILL])
@pytest.mark.parametrize(
    ("more", "uri", "sentence"),
    [
        ((), "", "No server was given"),
        ((), f"mongodb://u:{CANARY}@db1/", "--password-file FILE"),
        ((f"mongodb://u:{CANARY}@db1/",), "", "--password-file FILE"),
        ((), "mongodb://u@db1/", "--password-file FILE"),
        (("--password-file", "-"), "mongodb://u@db1/", "--password-file FILE"),
        ((), f"mongodb://db1/?tls=true&tlsCertificateKeyFilePassword={CANARY}", "tlsCertificateKeyFilePassword"),
        (("--profile", "p"), "", "environment variables"),
        (("mongodb://db1/?tls=true&tlsCAFile=profiles.toml",), "", "tlsCAFile"),
    ],
)
def test_no_schedule_for_a_timer_that_could_not_connect(
    words: tuple[str, ...], more: tuple[str, ...], uri: str, sentence: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "profiles.toml").write_text('[p]\nuri = "mongodb://u:${OF_THE_SHELL}@db1/"\n')
    monkeypatch.setattr("tallyglass.connection.profiles.default_path", lambda: tmp_path / "profiles.toml")
    monkeypatch.setenv("OF_THE_SHELL", CANARY)
    monkeypatch.chdir(tmp_path)
    result = emitted(monkeypatch, *words, *more, uri=uri)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert CANARY not in result.output
