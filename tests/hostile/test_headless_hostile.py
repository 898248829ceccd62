"""No headless command sends hostile names or values to the terminal unescaped."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from access_control import PASSWORD, GuardedSet
from hostile.populate import Hostile
from hostile.samples import control_bytes, hidden, user_names
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

PLAIN = [["counters"], ["check"], ["oplog"], ["incidents"], ["doctor"]]
AS_JSON = [["counters", "--json"], ["oplog", "--json"], ["incidents", "--json"], ["doctor", "--json"]]


def run(words: list[str], *more: str) -> Result:
    result = CliRunner().invoke(main, [*words, *more])
    assert "Unexpected error" not in result.stderr, result.stderr
    return result


def offences(result: Result) -> set[object]:
    """Return control bytes and hidden characters in the output."""
    return {*control_bytes(result.stdout_bytes + result.stderr_bytes), *hidden(result.stdout + result.stderr)}


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_plain_output_has_no_control_or_hidden_characters(words: list[str], hostile: Hostile) -> None:
    result = run(words, hostile.uri)
    assert not offences(result)
    assert "\\u{1b}" in result.stdout
    # A name that contains the text of an escape is escaped once, not twice.
    assert r"\u{5c}u{5c}" not in result.stdout
    assert len(result.stdout.splitlines()) < 20_000


@pytest.mark.parametrize("words", AS_JSON, ids=" ".join)
def test_json_is_printable_ascii(words: list[str], hostile: Hostile) -> None:
    result = run(words, hostile.uri)
    assert not offences(result)
    assert result.stdout.isascii()
    lines = result.stdout.splitlines() if "oplog" in words else [result.stdout]
    assert all(json.loads(line) for line in lines)


@pytest.mark.parametrize("words", [["counters"], ["oplog"], ["incidents", "--json"]], ids=" ".join)
def test_lookalike_names_stay_distinguishable(words: list[str], hostile: Hostile) -> None:
    output = run(words, hostile.uri).stdout.replace("\\\\", "\\")
    assert r"or\u{5c}u{200b}de" in output
    assert r"or\u{200b}de" in output


def test_hostile_user_names(guarded_set: GuardedSet) -> None:
    for user in user_names():
        guarded_set.admin.admin.command("createUser", user, pwd=PASSWORD, roles=[])
        for words in (["doctor"], ["doctor", "--json"], ["counters"]):
            result = run(words, guarded_set.uri(user))
            assert not offences(result)
            assert result.exit_code in (1, 3)
        assert "grantRolesToUser" in run(["doctor"], guarded_set.uri(user)).stdout


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_unguarded_plain_output_is_unsafe(words: list[str], hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyglass.text._visible", lambda value: value)
    assert 0x1B in offences(run(words, hostile.uri))


@pytest.mark.parametrize("words", AS_JSON, ids=" ".join)
def test_unguarded_json_output_is_unsafe(words: list[str], hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = json.dumps
    monkeypatch.setattr("tallyglass.text._visible", lambda value: value)
    monkeypatch.setattr("json.dumps", lambda value, **how: dumps(value, **how | {"ensure_ascii": False}))
    monkeypatch.setattr("tallyglass_tui.cli.headless.printable_json", lambda text: text)
    monkeypatch.setattr("tallyglass.oplog.entry.json._c_quoted", lambda text: f'"{text}"')
    found = offences(run(words, hostile.uri))
    assert found & {0x9B, "\u202e"}
