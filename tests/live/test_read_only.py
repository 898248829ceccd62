"""The dashboard and the headless commands send only reads, and each has a deadline."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pymongo import monitoring

from server_version import major
from tallyglass.connection.target import Target
from tallyglass.demo import backup
from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo import client as connect
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import READ_COMMANDS, READ_STAGES
from tallyglass_tui.cli.main import main
from tallyglass_tui.pages import PAGES
from tallyglass_tui.restore import choices
from tallyglass_tui.restore.draft import Draft, Planned
from tallyglass_tui.restore.feed import plan_once
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feeds

pytestmark = [pytest.mark.live, pytest.mark.smoke]

CURSORS = {"aggregate", "count", "find", "getMore", "listCollections", "listDatabases", "listIndexes"}
READS = READ_COMMANDS | CURSORS
"""The commands that docs/security.md lists."""

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text()

HOUSEKEEPING = {"killCursors", "endSessions"}
"""Commands that close cursors and sessions of reads."""

BOUNDED_OTHERWISE = {"getMore", *HOUSEKEEPING}
"""A getMore inherits the maxTimeMS of its find, or has its own limit for new entries."""

DB = "read_only"


def documented(place: str) -> set[str]:
    """Return the commands that docs/security.md lists for a page."""
    return set(re.findall(r"`(\w+)`", re.search(rf"^\| {place} \|(.*)\|$", PAGE, re.MULTILINE)[1]))


class Recorder(monitoring.CommandListener):
    """Records every command that a client sends."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.sent}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.sent.append((event.command_name, event.command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass

    def offences(self) -> set[str]:
        """Return the commands that write and those without a deadline."""
        found = self.names - READS - HOUSEKEEPING
        for name, command in self.sent:
            if name == "aggregate":
                stages = [stage for step in command["pipeline"] for stage in step]
                found |= {"$out", "$merge"}.intersection(stages)
                found |= set(stages[:1]) - READ_STAGES if command["aggregate"] == 1 else set()
            if name == "profile" and command["profile"] != -1:
                found.add("profile that sets a level")
            if name not in BOUNDED_OTHERWISE and "maxTimeMS" not in command:
                found.add(f"{name} without maxTimeMS")
        return found


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ReplicaSet]:
    """A set for this module only, so that the newest incident is the one made here."""
    with ReplicaSet(1) as servers:
        yield servers


@pytest.fixture(scope="module")
def server_with_backup(replica_set: ReplicaSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server with a counter and a mass delete after a backup. Returns the backup."""
    with replica_set.client() as client:
        client[DB].orders.create_index("number")
        client[DB]["mongoengine.counters"].insert_one({"_id": "orders.number", "next": 30})
        client[DB].orders.insert_many([{"number": n} for n in range(1, 31)])
        taken = backup.take(replica_set.uri, tmp_path_factory.mktemp("read_only") / "backup")
        client[DB].orders.delete_many({})
        yield taken
        client.drop_database(DB)


async def until(true: Callable[[], bool], pilot: Any) -> None:
    async with asyncio.timeout(60):
        while not true():
            await pilot.pause(0.05)


VISITS: list[tuple[str, str, set[str]]] = [
    ("Counters", "1", documented("Counters")),
    ("ObjectIds", "2", set()),
    ("Oplog", "3", {"getMore", "collStats"}),
    ("Oplog", "i", documented("Oplog") - {"getClusterParameter"}),  # sent once it is known what there is to bring back
    ("Restore", "4", set()),
    ("Restore", "enter", documented("Restore")),
]
"""Each page, the keys that lead to it, and the commands that it must be seen to send."""


async def test_dashboard_only_reads(
    replica_set: ReplicaSet, server_with_backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    target = Target.parse(replica_set.uri)
    feeds = Feeds(lambda: open_gateway(target, event_listeners=[recorder]))

    async def plan_here(target: Target, draft: Draft) -> AsyncIterator[Planned]:
        """What the process for plans does, where the recorder sees it."""
        gateway = open_gateway(target, event_listeners=[recorder])
        try:
            async for planned in plan_once(gateway, draft, target.uri):
                yield planned
        finally:
            await gateway.close()

    monkeypatch.setattr(choices, "plan_apart", plan_here)
    app = Dashboard(Context(target, backup=server_with_backup), feeds, PAGES)
    try:
        async with app.run_test(size=(80, 24)) as pilot:
            listed = documented("everywhere")
            for place, keys, wanted in VISITS:
                listed |= documented(place)
                before = len(recorder.sent)
                if keys == "enter":
                    await until(lambda: bool(app.page._scan and app.page._scan.incidents), pilot)
                await pilot.press(keys)
                await until(lambda wanted=wanted: wanted <= recorder.names, pilot)
                await until(lambda before=before: len(recorder.sent) >= before + 3, pilot)
                assert recorder.names - HOUSEKEEPING <= listed
            if major() < (6, 0):
                listed.remove("getClusterParameter")  # how long pre-images are kept
            await until(lambda: recorder.names - HOUSEKEEPING >= listed, pilot)
            assert recorder.names - HOUSEKEEPING == listed
    finally:
        feeds.close()
    assert not recorder.offences()


HEADLESS = [
    ["counters"],
    ["check"],
    ["oplog"],
    ["incidents"],
    ["watch", "--seconds=3"],
    ["doctor"],
    ["restore", "plan", "--incident=1"],
    ["restore", "prepare"],
]


@pytest.mark.parametrize("words", HEADLESS, ids=" ".join)
def test_headless_commands_only_read(
    words: list[str], replica_set: ReplicaSet, server_with_backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    plain = connect.open_gateway
    monkeypatch.setattr(connect, "open_gateway", lambda uri, **how: plain(uri, event_listeners=[recorder], **how))
    more = (
        {"plan": [f"--backup={server_with_backup}"], "prepare": [f"--out={tmp_path / 'b'}"]}.get(words[1], [])
        if len(words) > 1
        else []
    )
    result = CliRunner().invoke(main, [*words, *more, replica_set.uri])
    assert result.exit_code in (0, 1, 2), result.output
    assert len(recorder.sent) > 2
    assert not recorder.offences()


def test_security_page_lists_every_command() -> None:
    assert not [name for name in READS | HOUSEKEEPING if f"`{name}`" not in PAGE]


@pytest.mark.since(6, 0)
def test_recorder_detects_writes(replica_set: ReplicaSet) -> None:
    recorder = Recorder()
    with replica_set.client(event_listeners=[recorder]) as client:
        client[DB].things.insert_one({})
        list(client[DB].things.find())
        list(client[DB].things.aggregate([{"$out": "copies"}], maxTimeMS=1000))
        client.admin.command("profile", 0)
        client.admin.aggregate([{"$listLocalSessions": {}}], maxTimeMS=1000)
        client.admin.aggregate([{"$documents": [{}]}], maxTimeMS=1000)
        client.drop_database(DB)
    found = recorder.offences()
    assert {"insert", "find without maxTimeMS", "$out", "dropDatabase", "profile that sets a level"} <= found
    assert "$documents" in found
    assert "$listLocalSessions" not in found


async def test_the_gateway_refuses_what_may_write(replica_set: ReplicaSet) -> None:
    gateway = open_gateway(replica_set.uri)
    try:
        for call in (gateway.command("profile", 0), gateway.command("killOp", 1), gateway.inspect("$out", {}, limit=1)):
            with pytest.raises(ValueError, match="only reads"):
                await call
        assert "was" in await gateway.command("profile", -1)
    finally:
        await gateway.close()
