"""Lag is what a member is behind beyond its configured delay, and an age is said only where it matters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tallyglass.deployment.members import SetMember, old_data, read_members
from tallyglass.doctor import why_nothing
from tallyglass.errors import PrivilegeError, ReadError

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)


class Server:
    """Answers with the given documents, and refuses every other command."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    async def command(self, name: str, *_: object, **__: object) -> Any:
        answer = self.answers.get(name, PrivilegeError("Not allowed."))
        if isinstance(answer, Exception):
            raise answer
        return answer


def row(number: int, behind: float, state: str = "SECONDARY") -> dict[str, Any]:
    return {"_id": number, "name": f"h:{number}", "stateStr": state, "optimeDate": NOW - timedelta(seconds=behind)}


STATUS = {"members": [row(0, 0, "PRIMARY"), row(1, 3_600), row(2, 3_790), row(3, 40)]}
CONFIG = {
    "config": {
        "members": [
            {"_id": 0}, {"_id": 1, "secondaryDelaySecs": 3_600}, {"_id": 2, "slaveDelay": 3_600, "hidden": True},
            {"_id": 3, "hidden": True},
        ]
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "lags", "delays", "hidden"),
    [
        ({"replSetGetConfig": CONFIG}, [0, 0, 190, 40], [0, 3_600, 3_600, 0], [False, False, True, True]),
        ({}, [0, 3_600, 3_790, 40], [0] * 4, [False] * 4),
    ],
)
async def test_a_delay_is_taken_off_the_lag(
    answers: dict[str, Any], lags: list[float], delays: list[int], hidden: list[bool]
) -> None:
    found = await read_members(Server(replSetGetStatus=STATUS, **answers), {})  # type: ignore[arg-type]
    assert [one.lag_seconds for one in found] == lags
    assert [one.delay_seconds for one in found] == delays
    assert [one.hidden for one in found] == hidden


@pytest.mark.parametrize(
    ("rows", "lags"),
    [
        # A member that has more than the primary is not behind; without a primary the newest one counts.
        ([row(0, 30, "PRIMARY"), row(1, 0), row(2, 50)], [0, 0, 20]),
        ([row(0, 30), row(1, 0), row(2, 50)], [30, 0, 50]),
        ([row(0, 0, "PRIMARY"), row(1, 5) | {"optimeDate": datetime(1970, 1, 1, tzinfo=UTC)}], [0, None]),
        ([row(0, 0, "PRIMARY"), row(1, 5) | {"optimeDate": "yesterday"}], [0, None]),
        ([{"_id": 0, "name": "h:0", "stateStr": "ARBITER"}, 7], [None]),
    ],
)
async def test_lag_is_behind_the_primary_or_without_one_behind_the_newest(
    rows: list[Any], lags: list[float | None]
) -> None:
    found = await read_members(Server(replSetGetStatus={"members": rows}), {})  # type: ignore[arg-type]
    assert [one.lag_seconds for one in found] == lags


async def test_without_the_status_the_members_are_those_that_hello_names() -> None:
    hello = {"hosts": ["h:0", "h:1"], "passives": ["h:2"], "arbiters": ["h:3"], "primary": "h:1", "me": "h:0"}
    found = await read_members(Server(), hello)  # type: ignore[arg-type]
    assert found == (
        SetMember("h:0", "", True),
        SetMember("h:1", "PRIMARY"),
        SetMember("h:2", ""),
        SetMember("h:3", ""),
    )


async def test_no_delay_is_taken_for_lag_where_the_connection_is_lost() -> None:
    lost = ReadError("The connection to the server was lost.")
    with pytest.raises(ReadError, match="lost"):
        await read_members(Server(replSetGetStatus=STATUS, replSetGetConfig=lost), {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hello", "expected"),
    [
        ({"secondary": True}, "The data are 50 s old: they come from h:1."),
        ({"secondary": True, "secondaryDelaySecs": 40}, "h:1, which is delayed by 40 s."),
        ({"secondary": True, "secondaryDelaySecs": float("nan")}, "h:1."),
        ({"secondary": False}, "h:1, which is recovering."),
        ({"isWritablePrimary": True}, ""),
        ({"secondary": True, "lastWrite": {"lastWriteDate": NOW - timedelta(seconds=10)}}, ""),
        ({"secondary": True, "lastWrite": {}}, ""),
        ({"secondary": False, "lastWrite": {"lastWriteDate": datetime.fromtimestamp(0, UTC)}}, ""),
        ({"secondary": True, "setName": ""}, ""),
    ],
)
def test_old_data(hello: dict[str, Any], expected: str) -> None:
    written = {"lastWriteDate": NOW - timedelta(seconds=50)}
    said = old_data({"setName": "rs", "me": "h:1", "localTime": NOW, "lastWrite": written} | hello)
    assert said.endswith(expected)
    assert bool(said) == bool(expected)


def test_data_are_not_old_before_an_idle_primary_must_have_written() -> None:
    hello = {"setName": "rs", "me": "h:1", "secondary": True, "localTime": NOW}
    said = [old_data(hello | {"lastWrite": {"lastWriteDate": NOW - timedelta(seconds=age)}}) for age in (19, 22)]
    assert said == ["", "The data are 22 s old: they come from h:1."]


@pytest.mark.parametrize(
    ("hello", "expected"),
    [
        ({"setName": "rs", "arbiterOnly": True}, "This is an arbiter: it holds no data and no oplog."),
        ({"isreplicaset": True}, "never initiated"),
        ({"setName": "rs"}, "serves no reads"),
        ({"setName": "rs", "secondary": True}, "This user may see no collection."),
        ({"msg": "isdbgrid"}, "This user may see no collection."),
    ],
)
async def test_why_no_collection_is_seen(hello: dict[str, Any], expected: str) -> None:
    user = {"authInfo": {"authenticatedUsers": [{"user": "u", "db": "admin"}]}}
    server = Server(hello=hello, buildInfo={"version": "6.0.5"}, connectionStatus=user)
    assert expected in str(await why_nothing(server))  # type: ignore[arg-type]
