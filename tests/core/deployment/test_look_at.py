"""What a server is, by what it says of itself."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tallyglass.deployment.cluster import Kind, look_at
from tallyglass.deployment.identity import identify
from tallyglass.errors import PrivilegeError, ReadError, RefusedError
from tallyglass.mongo.gateway import Gateway


class Server:
    """Answers ``hello`` and ``buildInfo``; of its shard only where ``sharding`` is given."""

    def __init__(self, hello: dict[str, Any], sharding: dict[str, Any] | Exception | None, **more: Any) -> None:
        self._answers: dict[str, Any] = {"hello": hello, "buildInfo": {"version": "6.0.5"}, **more}
        self._answers |= {"shardingState": sharding} if sharding is not None else {}

    async def command(self, name: str, value: object = 1, **options: Any) -> dict[str, Any]:
        answer = self._answers.get(name, PrivilegeError("Not allowed."))
        if isinstance(answer, Exception):
            raise answer
        return cast("dict[str, Any]", answer)


PRIMARY = {"setName": "rs", "primary": "a:1", "me": "a:1", "isWritablePrimary": True}


@pytest.mark.parametrize(
    ("hello", "sharding", "kind", "facts"),
    [
        ({"isWritablePrimary": True}, {}, Kind.STANDALONE, {"serves_reads"}),
        ({"isreplicaset": True}, {}, Kind.UNINITIATED, {"serves_reads"}),
        (PRIMARY, {}, Kind.REPLICA_SET, {"serves_reads"}),
        ({"setName": "rs", "secondary": True}, {}, Kind.REPLICA_SET, {"serves_reads"}),
        ({"setName": "rs"}, {}, Kind.REPLICA_SET, set()),
        ({"setName": "rs", "arbiterOnly": True}, {}, Kind.REPLICA_SET, {"arbiter"}),
        ({"msg": "isdbgrid"}, None, Kind.MONGOS, {"sharded", "serves_reads"}),
        (PRIMARY, {"enabled": True}, Kind.REPLICA_SET, {"sharded", "serves_reads"}),
        (PRIMARY, {"enabled": False}, Kind.REPLICA_SET, {"serves_reads"}),
        (PRIMARY | {"configsvr": 2}, {}, Kind.REPLICA_SET, {"sharded", "serves_reads", "config_server"}),
        (PRIMARY, None, Kind.REPLICA_SET, {"serves_reads", "shard_unknown"}),
        (PRIMARY | {"configsvr": 2}, None, Kind.REPLICA_SET, {"sharded", "serves_reads", "config_server"}),
    ],
)
async def test_a_server_is_what_it_says(
    hello: dict[str, Any], sharding: dict[str, Any] | None, kind: Kind, facts: set[str]
) -> None:
    found = await look_at(cast(Gateway, Server(hello, sharding)))
    names = ("serves_reads", "arbiter", "sharded", "config_server", "shard_unknown")
    assert (found.kind, {name for name in names if getattr(found, name)}) == (kind, facts)
    assert (found.set_name, found.primary, found.me) == tuple(
        hello.get(name, "") for name in ("setName", "primary", "me")
    )


async def test_whether_it_is_a_shard_is_not_guessed_where_the_connection_is_lost() -> None:
    refused = await look_at(cast(Gateway, Server(PRIMARY, RefusedError("No such command.", code=59))))
    assert not refused.sharded
    with pytest.raises(ReadError, match="lost"):
        await look_at(cast(Gateway, Server(PRIMARY, ReadError("The connection to the server was lost."))))


async def test_a_deployment_has_one_name_in_every_run() -> None:
    hello = {"setName": "rs", "hosts": ["b:1", "a:1"]}
    config = {"config": {"settings": {"replicaSetId": "0123"}}}
    known = await identify(cast(Gateway, Server(hello, None, replSetGetConfig=config)), hello)
    assert known == await identify(cast(Gateway, Server(hello, None, replSetGetConfig=config)), {"setName": "moved"})
    assert known != await identify(cast(Gateway, Server(hello, None)), hello) != ""
    with pytest.raises(ReadError):
        await identify(cast(Gateway, Server(hello, None, replSetGetConfig=ReadError("No server answers."))), hello)
