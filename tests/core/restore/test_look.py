"""The spare that is left running for a person: who may read what, and what is written for them."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest

from builders.plan_folder import restored
from tallyglass.errors import InputError
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.source import FromBackup
from tallyglass.restore.spare.look import NotRestored, OpenedSpare, check_folder, open_to_read, restore, running


@pytest.fixture
def plan() -> Plan:
    made = restored(expected=(ExpectedNamespace("shop.orders", "collection", 1),))
    backup = made.from_backup.backup
    return Plan(made.facts, FromBackup(backup, "127.0.0.1:27117"), made.proof, made.undo)


class Programs:
    """Stands in for subprocess: what was called, and with which code it ends."""

    def __init__(self, code: int = 0) -> None:
        self.code, self.calls, self.read = code, list[tuple[Any, ...]](), ""

    def run(self, argv: list[str], *, cwd: Path | None = None, **how: Any) -> subprocess.CompletedProcess[str]:
        self.calls.append(tuple(argv))
        output = {"stdout": 2} if argv[0] == "bash" else {"capture_output": True, "text": True}
        assert how == {"env": {}, "stdin": subprocess.DEVNULL, "check": False} | output
        if cwd is not None and (cwd / "look-open.js").exists():
            self.read = (cwd / "look-open.js").read_text()
        return subprocess.CompletedProcess(argv, self.code, "told", "")


def test_only_a_folder_with_a_spare_of_its_own_and_a_known_collection_is_opened(tmp_path: Path, plan: Plan) -> None:
    with pytest.raises(InputError, match=r"starts no spare of its own: it restores onto 127\.0\.0\.1:27117\."):
        check_folder(tmp_path, plan, "")
    (tmp_path / "spare.sh").touch()
    check_folder(tmp_path, plan, "")
    check_folder(tmp_path, plan, "shop.orders")
    with pytest.raises(InputError, match=r"The plan restores no shop\.x\.") as error:
        check_folder(tmp_path, plan, "shop.x")
    assert error.value.advice == "It restores, among others: shop.orders."


@pytest.mark.parametrize(
    ("only", "made"),
    [
        ("", ['"createUser": "tallyglass_look", "pwd": "secret", "roles": ["readAnyDatabase"]']),
        (
            "shop.orders.old",
            [
                '"createRole": "tallyglass_look", "privileges": [{"resource": {"db": "shop", "collection": "orders.old"'
                '}, "actions": ["find", "listIndexes", "collStats"]}], "roles": []',
                '"createUser": "tallyglass_look", "pwd": "secret", "roles": ["tallyglass_look"]',
            ],
        ),
    ],
)
def test_the_user_may_read_what_was_asked_for_and_no_more(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, only: str, made: list[str]
) -> None:
    programs = Programs()
    monkeypatch.setattr(subprocess, "run", programs.run)
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: "secret")
    found = open_to_read(tmp_path, plan, only, {})
    where = "127.0.0.1:27117/?authSource=admin&directConnection=true"
    shell = f"mongosh --nodb --shell {tmp_path}/look.js"
    assert found == OpenedSpare(shell, f"mongodb://tallyglass_look@{where}", tmp_path / "look.password")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "look.password": "secret\n",
        "look.js": f'db = connect("mongodb://tallyglass_look:secret@{where}");\n',
    }
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
    lines = [line for line in programs.read.splitlines() if line.startswith("if ")]
    assert lines == [f"if (!admin.runCommand({{{one}}}).ok) {{ throw new Error('not made'); }}" for one in made]
    assert [line.partition("error.code !== ")[2][:2] for line in programs.read.splitlines() if "drop" in line] == [
        "11", "31",
    ]  # fmt: skip
    assert 'connect("mongodb://__system" + \':\' + key + "@127.0.0.1:27117/?authSource=local' in programs.read


def test_a_spare_that_cannot_be_opened_leaves_no_password(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", Programs(1).run)
    with pytest.raises(NotRestored, match="The user of the spare cannot be made") as error:
        open_to_read(tmp_path, plan, "", {})
    assert (error.value.advice, list(tmp_path.iterdir())) == ("told", [])


def test_the_script_runs_until_it_has_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs()
    monkeypatch.setattr(subprocess, "run", programs.run)
    restore(tmp_path, ("--keep",), {})
    assert programs.calls == [("bash", f"{tmp_path}/restore.sh", "--yes", "--until=verify", "--keep")]
    programs.code = 4
    with pytest.raises(NotRestored, match="stopped with status 4"):
        restore(tmp_path, (), {})


@pytest.mark.parametrize("code", [0, 1])
def test_the_spare_is_stopped_at_the_end_however_that_comes(tmp_path: Path, code: int) -> None:
    (tmp_path / "spare.sh").write_text(f'echo "$1" >>told; [ "$1" = stop ] || exit {code}')
    (tmp_path / "look.password").touch()
    told = []
    try:
        with running(tmp_path, {"PATH": "/usr/bin:/bin"}):
            told.append((tmp_path / "told").read_text())
    except NotRestored as error:
        told.append(error.title)
    assert told == (["start\n"] if code == 0 else ["The spare cannot be started."])
    assert (tmp_path / "told").read_text() == "start\nstop\n"
    assert not (tmp_path / "look.password").exists()
