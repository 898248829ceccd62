"""The example programs that read: a counters report, what people did, and a restore plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import counters_report, plan_a_restore, what_people_did

from tallyglass.demo import backup
from tallyglass.demo.server import ReplicaSet
from tallyglass.oplog import Incident

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def shop(replica_set: ReplicaSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server with a collection that was dropped after a backup. Returns the backup."""
    with replica_set.client() as client:
        client.reading.counters.insert_one({"_id": "orders", "seq": 41})
        client.reading.orders.insert_many([{"_id": n} for n in range(41)])
        taken = backup.take(replica_set.uri, tmp_path_factory.mktemp("reading") / "backup")
        client.reading.orders.drop()
        yield taken
        client.drop_database("reading")


def dropped(incidents: tuple[Incident, ...]) -> Incident:
    return next(one for one in incidents if one.ns == "reading.orders")


@pytest.mark.usefixtures("shop")
async def test_counters_report_prints_the_counter(replica_set: ReplicaSet, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = await counters_report.report(replica_set.uri)
    assert 41 in [counter.value for counter in snapshot.counters if counter.ns == "reading.counters"]
    assert "reading.counters orders: 41, " in capsys.readouterr().out


async def test_restore_plan_undoes_the_incident(
    replica_set: ReplicaSet, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scan = await what_people_did.report(replica_set.uri)
    assert scan is not None
    point = dropped(scan.incidents).limit
    assert str(point) in capsys.readouterr().out
    plan = await plan_a_restore.plan(replica_set.uri, shop, point)
    assert plan.facts.limit == point
    printed = capsys.readouterr().out
    assert plan.checks
    assert all(f"{check.id}: {check.title}" in printed for check in plan.checks)
