"""Every command on every played server: what works there, and what is said of what does not, as in docs/servers.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pseudo_terminal import Terminal, dashboard, environment
from servers.look_alike import LookAlike, Server
from servers.played import NOT_FOUND, PLAYED
from tallyglass.demo import backup
from tallyglass.demo.server import HOST, ReplicaSet, free_port
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

PAGE = Path(__file__).resolve().parents[2] / "docs" / "servers.md"
NAMES = [server.name for server in PLAYED]


@pytest.fixture(scope="module")
def busy_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ReplicaSet, Path]]:
    """A set with a counter and an accident, and a backup from before the accident."""
    with ReplicaSet(1) as servers:
        with servers.client() as client:
            client.shop.counters.insert_one({"_id": "orders", "seq": 200})
            client.shop.orders.insert_many([{"_id": n} for n in range(1, 201)])
            kept = backup.write(client, tmp_path_factory.mktemp("servers") / "backup")
            client.shop.orders.delete_many({})
        yield servers, Path(kept)


@pytest.fixture
def played(request: pytest.FixtureRequest, busy_set: tuple[ReplicaSet, Path]) -> Iterator[LookAlike]:
    server: Server = PLAYED[NAMES.index(request.param)]
    with LookAlike(server, busy_set[0].members[0].port, free_port()) as proxy:
        yield proxy


def uri(played: LookAlike) -> str:
    return f"mongodb://{HOST}:{played.port}/?directConnection=true"


def outcome(words: list[str], wanted: str) -> str:
    """``works``, or what is said instead."""
    result = CliRunner().invoke(main, words)
    assert "Traceback" not in result.output
    assert "Unexpected error" not in result.output, result.output
    with_warnings = words[:2] == ["restore", "plan"] and result.exit_code == 1
    if result.exit_code == 0 or with_warnings:
        assert wanted in result.stdout, result.output
        return "works, with warnings" if with_warnings else "works"
    said = [line for line in (result.stdout + result.stderr).splitlines() if not line.startswith("tallyglass: --")]
    said.sort(key=lambda line: "blocked: " not in line)
    text = next(line for line in said if line.startswith(("tallyglass: ", "COUNTERS")))
    sentence = re.sub(r"^(?:tallyglass: (?:warning: |blocked: )?|COUNTERS UNKNOWN - )", "", text)
    return sentence.split(". ")[0].rstrip(".") + "."


def row(played: LookAlike, kept: Path, out: Path) -> str:
    at = uri(played)
    version = str(played.server.says["buildInfo"]["version"])
    (kept / "prelude.json").write_text(json.dumps({"ServerVersion": version, "ToolVersion": "100.13.0"}))
    plan = ["restore", "plan", f"--backup={kept}", "--incident=1", "--from=backup", f"--out={out}"]
    cells = [
        outcome(["counters", "--no-history", at], "orders"),
        outcome(["check", "--no-history", at], "COUNTERS OK"),
        outcome(["oplog", "--since=now-1h", at], "shop.orders"),
        outcome(["incidents", at], "deleteMany"),
        outcome([*plan, at], ""),
    ]
    doctor = CliRunner().invoke(main, ["doctor", at])
    if cells[-1].startswith("works"):
        assert "server-untested: Tallyglass was tested on MongoDB 6.0 only" in " ".join(
            (out / "README.md").read_text().split()
        )
    told = {job: (word, why) for job, word, why in re.findall(r"^(\w+) +(yes|partly|no) +(.*)$", doctor.stdout, re.M)}
    word, why = told["members"]
    cells.append("works" if word == "yes" else why.split(". ")[0].rstrip(".") + ".")
    for job, cell in zip(("counters", "oplog", "incidents", "restore"), (cells[0], *cells[2:5]), strict=True):
        if "sharded cluster" not in cell:
            assert (told[job][0] == "yes") is cell.startswith("works"), (job, doctor.stdout)
    assert "not on this server" in doctor.stdout
    (named,) = re.findall(
        r"^server .*?, ((?:MongoDB|Percona|Amazon|Azure|Ferret).*?)(?::|$)", doctor.stdout, re.MULTILINE
    )
    return f"| {played.server.name} | {named} | {' | '.join(cells)} |"


@pytest.mark.parametrize("played", NAMES, indirect=True)
def test_the_table_of_servers(played: LookAlike, busy_set: tuple[ReplicaSet, Path], tmp_path: Path) -> None:
    found = row(played, busy_set[1], tmp_path / "plan")
    assert found in PAGE.read_text().splitlines()


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("played", "said"),
    [
        ("MongoDB 8.0.13", "deleteMany on shop.orders"),
        ("Atlas M0", "This service does not open its oplog."),
        ("FerretDB 2.5.0", "FerretDB has no oplog that can be relied on."),
    ],
    indirect=["played"],
)
def test_the_pages_say_what_they_lack(played: LookAlike, said: str, tmp_path: Path) -> None:
    with Terminal(dashboard(uri(played)), environment(tmp_path), size=(120, 40), frames=True) as terminal:
        terminal.wait("Tallyglass was tested on MongoDB 6.0 only; this is ")
        terminal.wait("orders")
        terminal.press("4")
        terminal.wait(said)
        terminal.press("3")
        terminal.wait("following" if "deleteMany" in said else said)


def test_doctor_does_not_say_yes_for_a_read_that_fails(busy_set: tuple[ReplicaSet, Path]) -> None:
    broken = Server("broken", {}, lambda command, body: NOT_FOUND if command == "getMore" else None)
    with LookAlike(broken, busy_set[0].members[0].port, free_port()) as proxy:
        found = CliRunner().invoke(main, ["doctor", uri(proxy)])
    assert found.exit_code == 1
    assert re.search(r"^counters +yes", found.stdout, re.MULTILINE)
    for job in ("oplog", "incidents", "restore"):
        assert re.search(
            rf"^{job} +no +This server does not have tail of local\.oplog\.rs\.", found.stdout, re.MULTILINE
        )
