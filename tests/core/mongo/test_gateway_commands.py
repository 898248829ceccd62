"""The gateway sends only commands that read."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.asynchronous.settings import TopologySettings
from pymongo.hello import Hello
from pymongo.server_description import ServerDescription
from pymongo.topology_description import TOPOLOGY_TYPE, TopologyDescription

from tallyglass.mongo.gateway import ONLY_VALUE, READ_COMMANDS
from tallyglass.mongo.link import Link, OpenClient
from tallyglass.mongo.mongo_gateway import MongoGateway


class Client:
    """A fake client that records the commands it is given."""

    topology_description: TopologyDescription

    def __init__(self) -> None:
        self.sent: list[str] = []

    def __getitem__(self, db: str) -> Client:
        return self

    async def command(self, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.sent.append(next(iter(body)))
        return {"ok": 1}


async def test_sends_only_commands_that_read() -> None:
    client = Client()
    gateway = MongoGateway(Link(lambda: OpenClient(client)))
    for name in sorted(READ_COMMANDS):
        await gateway.command(name, ONLY_VALUE.get(name, 1))
    assert client.sent == sorted(READ_COMMANDS)
    for name in (
        "insert",
        "update",
        "delete",
        "drop",
        "dropDatabase",
        "findAndModify",
        "renameCollection",
        "setParameter",
    ):
        with pytest.raises(ValueError, match="only reads"):
            await gateway.command(name)
    assert client.sent == sorted(READ_COMMANDS)


async def test_sends_a_command_that_could_write_only_with_the_value_that_reads() -> None:
    client = Client()
    gateway = MongoGateway(Link(lambda: OpenClient(client)))
    for level in (0, 1, 2):
        with pytest.raises(ValueError, match="only reads"):
            await gateway.command("profile", level)
    assert client.sent == []


def test_an_arbiter_is_no_member_with_data() -> None:
    hellos = {"a": {"isWritablePrimary": True}, "b": {"secondary": True}, "c": {"arbiterOnly": True}, "d": {}}
    servers = {
        (name, 27017): ServerDescription((name, 27017), Hello({"ok": 1, "setName": "rs", **hello}))
        for name, hello in hellos.items()
    }
    client = Client()
    client.topology_description = TopologyDescription(
        TOPOLOGY_TYPE.ReplicaSetWithPrimary, servers, "rs", None, None, TopologySettings()
    )
    assert MongoGateway(Link(lambda: OpenClient(client))).members() == ("a:27017", "b:27017")


@pytest.mark.parametrize("stage", ["$out", "$merge", "$match"])
async def test_inspects_the_server_only_with_stages_that_read(stage: str) -> None:
    gateway = MongoGateway(Link(lambda: OpenClient(Client())))
    with pytest.raises(ValueError, match="only reads"):
        await gateway.inspect(stage, {}, limit=1)
