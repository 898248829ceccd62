"""A batched delete as a server writes it: 6.0 has it behind a test parameter, later releases for every deleteMany."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tallyglass.demo.server import ReplicaSet
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.smoke]

NS = "__internalBatchedDeletesTesting.Collection0"
"""The only collection to which the parameter applies."""


@pytest.mark.since(6, 0)
def test_a_batched_delete_is_one_incident_and_each_group_is_a_row() -> None:
    parameters = ("enableTestCommands=1", "internalBatchUserMultiDeletesForTest=1", "batchedDeletesTargetBatchDocs=100")
    options = [word for parameter in parameters for word in ("--setParameter", parameter)]
    with ReplicaSet(1, options=options) as servers, servers.client() as client:
        db, _, name = NS.partition(".")
        client[db][name].insert_many([{"_id": n} for n in range(250)])
        client[db][name].delete_many({})
        groups = list(client.local["oplog.rs"].find({"op": "c", "o.applyOps.op": "d"}))
        rows = CliRunner().invoke(main, ["oplog", f"--ns={NS}", "--op=d", servers.uri])
        incidents = CliRunner().invoke(main, ["incidents", servers.uri])
    sizes = [len(group["o"]["applyOps"]) for group in groups]
    assert sum(sizes) == 250
    assert all("txnNumber" not in group for group in groups)
    assert [line.rpartition("  ")[2] for line in rows.stdout.splitlines()] == [f"delete of {size}" for size in sizes]
    (line,) = [line for line in incidents.stdout.splitlines() if NS in line]
    assert "deleteMany" in line
    assert " 250 " in line
