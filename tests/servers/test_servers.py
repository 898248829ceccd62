"""Every command and page on every played server: what works there, and what is said instead, as in docs/servers.md.

``pytest tests/servers --write-table`` writes that table.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pymongo import MongoClient

from corpus.newer_entries import ALONE, BATCH
from pseudo_terminal import Terminal, dashboard, environment
from servers.look_alike import ENTRIES, LookAlike, Server
from servers.played import NOT_FOUND, PLAYED
from tallyglass.demo import backup
from tallyglass.demo.server import HOST, ReplicaSet, free_port
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

PAGE = Path(__file__).resolve().parents[2] / "docs" / "servers.md"
NAMES = [server.name for server in PLAYED]
PAGES = {
    "1": ("orders",),
    "2": ("Paste any text with ObjectIds",),
    "3": ("following",),
    "4": ("deleteMany on shop.orders",),
}
"""What each page shows if it works, by its key."""


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
    if words[0] == "metrics":
        return of_metrics(result.stdout)
    if words[0] == "repair" and wanted not in result.output:
        return sentence(result.output)
    if result.exit_code == 0 or with_warnings:
        assert wanted in result.output, result.output
        return "works, with warnings" if with_warnings else "works"
    return sentence(result.stdout + result.stderr)


def sentence(output: str) -> str:
    """The first sentence of what a command says, without the advice after it."""
    said = [line for line in output.splitlines() if not line.startswith("tallyglass: --")]
    said.sort(key=lambda line: "blocked: " not in line)
    text = next(line for line in said if line.startswith(("tallyglass: ", "COUNTERS")))
    text = re.sub(r"^(?:tallyglass: (?:warning: |blocked: )?|COUNTERS UNKNOWN - )", "", text)
    return text.split(". ")[0].rstrip(".") + "."


def of_metrics(text: str) -> str:
    """``works`` if the counter is among them; they must say so if not everything was read."""
    if "orders" in text:
        return "works"
    assert "tallyglass_search_complete 0.0" in text
    return "none, and `search_complete` 0"


def exported(at: str) -> str:
    """``works`` once the exporter serves the counter, or what it says instead."""
    listen = f"{HOST}:{free_port()}"
    words = ["export", "--no-history", f"--listen={listen}", at]
    process = subprocess.Popen(
        [sys.executable, "-m", "tallyglass_tui", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    found, ends = "", time.monotonic() + 60
    try:
        while process.poll() is None and time.monotonic() < ends:
            try:
                with urllib.request.urlopen(f"http://{listen}/metrics", timeout=5) as answer:
                    found = answer.read().decode()
            except OSError:
                continue
            if "tallyglass_last_success" in found:
                break
    finally:
        process.terminate()
        _, said = process.communicate(timeout=180)
    return of_metrics(found) if found else sentence(said)


def command_row(played: LookAlike, kept: Path, folder: Path) -> str:
    at, out = uri(played), folder / "plan"
    version = str(played.server.says["buildInfo"]["version"])
    (kept / "prelude.json").write_text(json.dumps({"ServerVersion": version, "ToolVersion": "100.13.0"}))
    plan = ["restore", "plan", f"--backup={kept}", "--incident=1", "--from=backup", f"--out={out}"]
    cells = [
        outcome(["counters", "--no-history", at], "orders"),
        outcome(["check", "--no-history", at], "COUNTERS OK"),
        outcome(["metrics", "--no-history", at], "orders"),
        exported(at),
        outcome(["repair", at], "1 counter"),
        outcome(["oplog", "--since=now-1h", at], "shop.orders"),
        outcome(["incidents", at], "deleteMany"),
        outcome(["incidents", "--ns=shop.orders", at], "deleteMany"),
        outcome(["restore", "prepare", f"--out={folder / 'new'}", at], "mongodump"),
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
    counters, oplog, incidents, one, restore = (cells[n] for n in (0, 5, 6, 7, 9))
    for job, cell in (("counters", counters), ("oplog", oplog), ("restore", restore)):
        assert (told[job][0] == "yes") is cell.startswith("works"), (job, doctor.stdout)
    expected = "yes" if incidents == "works" else "partly" if one == "works" else "no"
    if "directly" not in counters and "direct connection" not in counters:
        assert told["incidents"][0] == expected, doctor.stdout
    assert "not on this server" in doctor.stdout
    (named,) = re.findall(
        r"^server .*?, ((?:MongoDB|Percona|Amazon|Azure|Ferret).*?)(?::|$)", doctor.stdout, re.MULTILINE
    )
    return f"| {played.server.name} | {named} | {' | '.join(cells)} |"


@pytest.mark.parametrize("played", NAMES, indirect=True)
def test_the_table_of_servers(
    played: LookAlike, busy_set: tuple[ReplicaSet, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = command_row(played, busy_set[1], tmp_path)
    lines = PAGE.read_text().splitlines()
    if request.config.getoption("--write-table", default=False):
        heads = [f"| {played.server.name} |", "|---|---|"]
        place = next(n for head in heads for n, line in reversed([*enumerate(lines)]) if line.startswith(head))
        lines[place : place + 1] = [found] if lines[place].startswith(heads[0]) else [lines[place], found]
        PAGE.write_text("\n".join(lines) + "\n")
    assert found in lines


@pytest.mark.terminal
@pytest.mark.parametrize("played", NAMES, indirect=True)
def test_every_page_works_or_says_what_it_lacks(played: LookAlike, tmp_path: Path) -> None:
    """The page works where its command does, and otherwise says what the command says."""
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {played.server.name} |")]
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    told = {"1": cells[2], "2": "works", "3": cells[7], "4": cells[8]}
    with Terminal(dashboard(uri(played)), environment(tmp_path), size=(160, 40), frames=True) as terminal:
        terminal.wait("Tallyglass was tested on MongoDB 6.0 only; this is ")
        for key, words in PAGES.items():
            terminal.press(key)
            seen = words if told[key] == "works" else (told[key].partition(": ")[2] or told[key],)
            terminal.wait(lambda text, seen=seen: any(one in " ".join(text.split()) for one in seen))


@pytest.fixture(scope="module")
def newer_set() -> Iterator[ReplicaSet]:
    """A set whose oplog holds every kind of entry of the newest servers, after a mass delete."""
    with ReplicaSet(1) as servers, servers.client() as client:
        client.shop.counters.insert_one({"_id": "orders", "seq": 200})
        client.shop.orders.insert_many([{"_id": n} for n in range(1, 201)])
        client.shop.orders.delete_many({})
        write_entries(client)
        yield servers


def write_entries(client: MongoClient[dict[str, object]]) -> None:
    db, _, name = ENTRIES.partition(".")
    for entry in (*BATCH, *ALONE):
        client[db][name].insert_one({"entry": {**entry.first, **entry.body}})


@pytest.mark.terminal
def test_entries_of_newer_servers_reach_every_command_and_page(newer_set: ReplicaSet, tmp_path: Path) -> None:
    server = next(one for one in PLAYED if one.name == "MongoDB 9.0.0")
    with LookAlike(server, newer_set.members[0].port, free_port()) as proxy:
        at = uri(proxy)
        rows = CliRunner().invoke(main, ["oplog", "--since=now-1h", at])
        whole = CliRunner().invoke(main, ["oplog", "--since=now-1h", "--json", at])
        incidents = CliRunner().invoke(main, ["incidents", at])
        for words, wanted in ((["counters", "--no-history"], "orders"), (["check", "--no-history"], "COUNTERS OK"),
                              (["repair"], "1 counter")):  # fmt: skip
            assert outcome([*words, at], wanted) == "works"
        for entry in (*BATCH, *ALONE):
            if entry.body["op"] != "n":
                assert f"{entry.ns}  {entry.what}" in rows.stdout, entry.name
        assert '"container": "index-9"' in whole.stdout
        assert f" i {ENTRIES} " not in rows.stdout
        assert "truncateRange on shop.orders" in incidents.stdout
        assert re.search(r"deleteMany on shop\.orders +208 ", incidents.stdout), incidents.stdout
        with Terminal(dashboard(at), environment(tmp_path), size=(160, 60), frames=True) as terminal:
            terminal.press("3")
            terminal.wait("batched delete of 4, the last 2")
            with newer_set.client() as client:
                write_entries(client)
            terminal.wait(lambda text: text.count("batched delete of 4, the last 2") == 2)
            terminal.press("4")
            terminal.wait("truncateRange on shop.orders")


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


def test_doctor_names_the_privilege_that_a_shard_demands(busy_set: tuple[ReplicaSet, Path]) -> None:
    server = next(one for one in PLAYED if one.name.endswith("a shard"))
    with LookAlike(server, busy_set[0].members[0].port, free_port()) as proxy:
        found = CliRunner().invoke(main, ["doctor", uri(proxy)])
    assert "needs issueDirectShardOperations on the cluster" in found.stdout
    assert 'resource: {cluster: true}, actions: ["issueDirectShardOperations"' in found.stdout
    assert re.search(r"^restore +no +This is part of a sharded cluster", found.stdout, re.MULTILINE)
