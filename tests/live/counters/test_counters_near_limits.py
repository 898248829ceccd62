"""A number near a limit warns, whatever else is known of it: neither privileges nor missing use silence ``check``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Int64
from gateways import OpenGateway
from pymongo import MongoClient

from tallyglass.counters.check_line import check_counters
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import look
from tallyglass.counters.recognise.config import load_config
from tallyglass.counters.verdict import OK
from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import open_gateway

pytestmark = pytest.mark.live

CONFIG = """
include = ["near_limits.*"]
[[counter]]
collection = "near_limits.settings"
id = "slips"
field = "deep.n"
"""
UNSURE = "not certain that this is a counter"
EXPECTED = {
    "counters invoices": "WARNING", "counters restless": "left until int32",
    "guesses uint32": UNSURE, "guesses double": UNSURE, "guesses int64": UNSURE, "guesses own": UNSURE,
    "sequences slips": "CRITICAL", "settings slips": "CRITICAL",
}  # fmt: skip


@pytest.fixture
def uri(one_member: ReplicaSet) -> Iterator[str]:
    """Numbers near a limit. In use, but not as ids of inserted documents, are those of ``counters`` and ``guesses``."""
    with one_member.client() as client:
        db = client.near_limits
        db.counters.insert_many([{"_id": "invoices", "seq": 2**31 - 3_597}, {"_id": "restless", "seq": 2**31 - 900}])
        limits = {"uint32": 2**32 - 10_000, "double": 2.0**53 - 10_000, "int64": Int64(2**63 - 10_000), "far": 1_000}
        db.guesses.insert_many([{"_id": name, "next_number": number} for name, number in limits.items()])
        db.guesses.insert_one({"_id": "own", "next_number": 958, "limit": 1_000})
        db.sequences.insert_one({"_id": "slips", "current": 9_800, "max_value": 10_000})
        db.settings.insert_one({"_id": "slips", "deep": {"n": 995, "limit": 1_000}})
        use(client)
        yield one_member.uri


def use(client: MongoClient[dict[str, Any]]) -> None:
    db = client.near_limits
    for n in range(40):
        db.counters.update_one({"_id": "invoices"}, {"$inc": {"seq": 1}})
        db.guesses.update_many({}, {"$inc": {"next_number": 1}})
        db.counters.update_one({"_id": "restless"}, {"$inc": {"seq": (7, -5, -3, 2)[n % 4]}})
        db.payments.insert_one({"_id": n, "amount": n % 7})
        db.payments.update_one({"_id": n}, {"$set": {"invoice": 2**31 - 3_596 + n}})


@pytest.mark.parametrize("may_read_oplog", [False, True])
async def test_a_number_near_a_limit_warns_with_any_privileges(uri: str, tmp_path: Path, may_read_oplog: bool) -> None:
    config = tmp_path / "c.toml"
    config.write_text(CONFIG)
    settings = WatchSettings(
        config=load_config(config), oplog_history=may_read_oplog, history_path=tmp_path / "state.sqlite"
    )
    # The second run knows what the first one learnt.
    for _ in range(2):
        gateway = open_gateway(uri)
        result = check_counters(await look(gateway, settings))
        await gateway.close()
        assert result.level != OK
        lines = {line.split(":")[0].partition("near_limits.")[2]: line for line in result.details}
        assert {name: words for name, words in EXPECTED.items() if words not in lines.get(name, "")} == {}, result
        assert "far" not in " ".join(result.details)


async def test_a_guess_that_is_not_near_stays_quiet(uri: str, gateway_to: OpenGateway) -> None:
    gateway = gateway_to(uri)
    snapshot = await look(gateway)
    assert "far" not in {counter.id for counter in snapshot.counters if counter.may_warn}
