"""What runs now, from rows of ``$currentOp``: writes of clients that have run for a while, and what stops each."""

from __future__ import annotations

from typing import Any

import pytest

from tallyglass.evidence.facts import Client, RunningOperation
from tallyglass.evidence.running import running_of

CLIENT = Client("ann@admin", "nightly", "10.0.0.7:1", "", "conn9")


def row(op: str, command: Any, **more: Any) -> dict[str, Any]:
    return {
        "active": True, "op": op, "ns": "shop.orders", "command": command, "microsecs_running": 3_500_000, "opid": 77,
        "desc": "conn9", "client": "10.0.0.7:1", "appName": "nightly",
        "effectiveUsers": [{"user": "ann", "db": "admin"}],
    } | more  # fmt: skip


def running(what: str, statement: str, kill: str = "NumberInt(77)", **more: Any) -> RunningOperation:
    command = f"db.adminCommand({{killOp: 1, op: {kill}}})"
    return RunningOperation(what, more.pop("ns", "shop.orders"), CLIENT, 3.5, statement, command, **more)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (row("remove", {"q": {"s": 1}, "limit": 0}), running("deleteMany", "deleteMany({s: 1})")),
        (row("update", {"q": {"s": 1}, "u": {"$set": {"t": 2}}, "multi": False}),
         running("updateOne", "updateOne({s: 1}, {$set: {t: 2}})")),
        (row("command", {"findAndModify": "orders", "query": {"_id": 1}, "remove": True}),
         running("findOneAndDelete", "findOneAndDelete({_id: 1})")),
        (row("command", {"drop": "orders", "$db": "shop"}), running("drop", "drop: 'orders'")),
        (row("command", {"createIndexes": "orders", "indexes": []}, progress={"done": 40, "total": 100}, opid="s0:77"),
         running("createIndexes", "createIndexes: 'orders'", '"s0:77"', done=40, total=100)),
        (row("command", {"dropDatabase": 1}, ns="sh\x1bop.$cmd", progress={"done": "x"}),
         running("dropDatabase", "dropDatabase: 1", ns=r"sh\u{1b}op.$cmd")),
        (row("command", {"delete": "orders"}), running("delete", "delete: 'orders'")),
        (row("command", {"find": "orders"}), None), (row("getmore", {"getMore": 1}), None),
        (row("remove", {"q": {}}, active=False), None), (row("remove", {"q": {}}, desc="TTLMonitor"), None),
        (row("remove", {"q": {}}, microsecs_running=999_999), None), (row("remove", {"q": {}}, opid=None), None),
        (row("remove", {"q": {}}, microsecs_running="1"), None), (row("remove", "cut"), None), ({}, None),
    ],
)  # fmt: skip
def test_a_row_of_current_op_is_a_write_that_runs_or_nothing(
    found: dict[str, Any], expected: RunningOperation | None
) -> None:
    assert running_of([found]) == (() if expected is None else (expected,))


def test_a_write_is_told_after_a_second_and_the_longest_comes_first() -> None:
    rows = [row("command", {"drop": "a"}, microsecs_running=micros) for micros in (1_000_000, 9_000_000, 2_000_000)]
    assert [one.seconds for one in running_of(rows)] == [9.0, 2.0, 1.0]
