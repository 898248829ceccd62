"""The gateway sends only commands that read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from bson import Int64, Timestamp
from pymongo.asynchronous.settings import TopologySettings
from pymongo.errors import OperationFailure
from pymongo.hello import Hello
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from pymongo.server_description import ServerDescription
from pymongo.topology_description import TOPOLOGY_TYPE, TopologyDescription

from tallyglass.errors import PrivilegeError, RefusedError
from tallyglass.mongo.gateway import ONLY_VALUE, OPLOG, READ_COMMANDS, CollectionInfo, Namespace
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


class Listing:
    """A client whose lists have a row, if it is asked as the user may; it fails with ``code`` otherwise."""

    def __init__(self, code: int, allowed: dict[str, Any]) -> None:
        self.code, self.allowed, self.asked = code, allowed, list[dict[str, Any]]()

    def __getitem__(self, _: str) -> Listing:
        return self

    async def list_collections(self, **how: Any) -> AsyncIterator[dict[str, Any]]:
        self.asked.append(how)
        if how != self.allowed:
            raise OperationFailure("not authorized on shop to execute command", self.code)
        return rows(
            {"name": "a.b"}, {"name": "v", "type": "view", "options": {"viewOn": "a.b"}, "info": {"uuid": UUID4}}
        )


async def rows(*found: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    for row in found:
        yield row


UUID4 = UUID("7b9b4a3c-6f0e-4c43-9b5d-1f6f0a0b0c0d")
EVERYTHING = {"maxTimeMS": 5_000}
NAMES = {"maxTimeMS": 5_000, "nameOnly": True, "authorizedCollections": True}


@pytest.mark.parametrize(
    ("code", "allowed", "asked"),
    [(13, EVERYTHING, [EVERYTHING]), (13, NAMES, [EVERYTHING, NAMES]), (13, {}, [EVERYTHING, NAMES]),
     (26, NAMES, [EVERYTHING])],
)  # fmt: skip
async def test_a_user_who_may_only_list_names_sees_those_that_it_may_read(
    code: int, allowed: dict[str, Any], asked: list[dict[str, Any]]
) -> None:
    client = Listing(code, allowed)
    gateway = MongoGateway(Link(lambda: OpenClient(client)))
    if allowed in asked:
        assert await gateway.list_collections("shop") == [
            CollectionInfo(Namespace("shop", "a.b")),
            CollectionInfo(Namespace("shop", "v"), "view", {"viewOn": "a.b"}, UUID4.bytes),
        ]
    else:
        with pytest.raises(PrivilegeError if code == 13 else RefusedError):
            await gateway.list_collections("shop")
    assert client.asked == asked


@pytest.mark.parametrize("code", [26, 13, 96])
async def test_a_collection_that_is_not_there_has_no_indexes(code: int) -> None:
    class Indexes(Client):
        async def command(self, body: dict[str, Any], **_: Any) -> dict[str, Any]:
            self.sent.append(body)  # type: ignore[arg-type]
            if len(self.sent) > 1:
                raise OperationFailure("no", code)
            return {"cursor": {"firstBatch": [{"name": "_id_"}]}}

    client = Indexes()
    gateway = MongoGateway(Link(lambda: OpenClient(client)))
    assert await gateway.list_indexes(Namespace("shop", "a.b")) == [{"name": "_id_"}]
    assert client.sent == [{"listIndexes": "a.b", "cursor": {}, "maxTimeMS": 5_000}]
    if code == 26:
        assert await gateway.list_indexes(Namespace("shop", "a.b")) == []
    else:
        with pytest.raises(PrivilegeError if code == 13 else RefusedError):
            await gateway.list_indexes(Namespace("shop", "a.b"))


class Member(Client):
    """A fake client of a replica set: ``answers`` are those to hello, ``concerns`` what each find asked for."""

    def __init__(self, *answers: dict[str, Any], level: str | None = None, prefers: Any = None) -> None:
        super().__init__()
        self.admin, self.read_concern = self, ReadConcern(level)
        self.read_preference = prefers or PrimaryPreferred()
        self.answers, self.concerns, self.asked = [*answers], list[Any](), list[Any]()

    def get_collection(self, name: str, **options: Any) -> Member:
        concern = options.get("read_concern")
        self.concerns.append(concern and concern.document)
        return self

    async def command(self, body: dict[str, Any], **how: Any) -> dict[str, Any]:
        self.asked.append((next(iter(body)), how.get("read_preference"), how["codec_options"].tz_aware))
        return self.answers.pop(0)

    async def find_one(self, *_: Any, **__: Any) -> None:
        return None

    def find_raw_batches(self, *_: Any, **__: Any) -> NoRows:
        return NoRows()


class NoRows:
    """A cursor that finds nothing."""

    alive, address = False, None

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    def max_await_time_ms(self, _: int) -> NoRows:
        return self

    async def close(self) -> None:
        return None


CLOCK = {"$clusterTime": {"clusterTime": Timestamp(9, 9)}}


@pytest.mark.parametrize(
    ("answers", "level", "expected"),
    [
        ([], None, None),
        ([CLOCK | {"operationTime": Timestamp(9, 1), "localTime": datetime.fromtimestamp(9.5, UTC)}], None,
         {"level": "local", "afterClusterTime": Timestamp(9, 1)}),
        ([CLOCK | {"operationTime": Timestamp(at, 1)} for at in (9, 7)], "majority",
         {"level": "majority", "afterClusterTime": Timestamp(9, 1)}),
        ([CLOCK | {"operationTime": Timestamp(9, 1)}], "linearizable", None),
        ([CLOCK | {"operationTime": Timestamp(9, 1), "msg": "isdbgrid"}], None, None),
        ([{"operationTime": Timestamp(9, 1)}], None, None),
        ([CLOCK], None, None),
    ],
    ids=["not asked for", "asked", "never earlier", "the level rules it out", "router", "no logical clock", "no time"],
)  # fmt: skip
async def test_a_member_that_lags_is_waited_for(
    answers: list[dict[str, Any]], level: str | None, expected: dict[str, Any] | None
) -> None:
    client = Member(*answers, level=level)
    gateway = MongoGateway(Link(lambda: OpenClient(client)))
    for clock in [9.5 if "localTime" in answer else None for answer in answers]:
        assert await gateway.catch_up() == clock
    await _find_everywhere(gateway)
    assert client.concerns == [expected, expected, expected, {"level": "local"}, None]
    assert client.asked == [("hello", PrimaryPreferred(), True)] * len(answers)


async def _find_everywhere(gateway: MongoGateway) -> None:
    """Two finds and a raw one, then those that no lagging member delays: a tail, and a find on a named member."""
    await gateway.find_one(Namespace("shop", "counters"), {})
    await gateway.find_one(OPLOG, {})
    assert [batch async for batch in gateway.find_raw(OPLOG, {})] == []
    assert [batch async for batch in gateway.tail_raw(OPLOG, {})] == []
    await gateway.find_one(OPLOG, {}, member="host:1")


WRITTEN = {"lastWrite": {"majorityOpTime": {"ts": Timestamp(9, 1), "t": Int64(1)}}}


@pytest.mark.parametrize(
    ("answer", "member", "waited_for"),
    [
        (CLOCK | WRITTEN, "", True),
        (CLOCK | WRITTEN, "host:1", False),
        (WRITTEN, "", False),
        (CLOCK | WRITTEN | {"msg": "isdbgrid"}, "", False),
        (CLOCK | {"lastWrite": {"majorityOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}}, "", False),
        (CLOCK | {"lastWrite": {"majorityOpTime": None}}, "", False),
        (CLOCK, "", False),
    ],
    ids=["a set", "of one member", "no logical clock", "router", "nothing yet", "not said", "no oplog"],
)
async def test_no_find_lacks_what_the_primary_said_that_a_majority_has(
    answer: dict[str, Any], member: str, waited_for: bool
) -> None:
    client = Member(answer)
    gateway = MongoGateway(Link(lambda: OpenClient(client)))
    assert await gateway.command("hello", member=member) == answer
    await _find_everywhere(gateway)
    expected = {"level": "local", "afterClusterTime": Timestamp(9, 1)} if waited_for else None
    assert client.concerns == [expected, expected, expected, {"level": "local"}, None]


@pytest.mark.parametrize(
    ("prefers", "waits"),
    [
        (Primary(), False),
        (PrimaryPreferred(), False),
        (Secondary(), True),
        (SecondaryPreferred(), True),
        (Nearest(), True),
    ],
)
async def test_behind_a_router_only_secondaries_that_were_chosen_are_waited_for(prefers: Any, waits: bool) -> None:
    client = Member(CLOCK | {"operationTime": Timestamp(9, 1), "msg": "isdbgrid"}, prefers=prefers)
    gateway = MongoGateway(Link(lambda: OpenClient(client)))
    await gateway.catch_up()
    await gateway.find_one(Namespace("shop", "counters"), {})
    assert client.concerns == [{"level": "local", "afterClusterTime": Timestamp(9, 1)} if waits else None]
