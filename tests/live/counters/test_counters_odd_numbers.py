"""Numbers of any kind, in counters and among the ids that they are compared with: none of them stops a command."""

from __future__ import annotations

import json
import math
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Decimal128, Int64
from click.testing import CliRunner, Result
from gateways import OpenGateway

from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import watch
from tallyglass.counters.recognise.config import parse_config
from tallyglass.demo.server import ReplicaSet
from tallyglass_tui.cli.main import main
from tallyglass_tui.counters.cells import COLUMNS, SORTS, cells, sort_key
from tallyglass_tui.counters.glance import glance

pytestmark = pytest.mark.live

DB = "odd_numbers"
NUMBERS = {
    "infinity": math.inf, "below": -math.inf, "nan": math.nan, "huge": 1e300, "deep": -1e300, "largest": 1.7e308,
    "fraction": 60.5, "tiny": 5e-324, "int64": Int64(2**63 - 1), "lowest": Int64(-(2**63)),
    "decimal": Decimal128("1E+40"), "decimals": Decimal128("1E+6000"), "decimal_infinity": Decimal128("-Infinity"),
    "decimal_nan": Decimal128("NaN"), "signalling": Decimal128("sNaN"), "decimal_fraction": Decimal128("60.25"),
    "digits": Decimal128("9" * 34), "zeros": Decimal128("0E-6000"),
}  # fmt: skip
ODD = {"infinity", "below", "nan", "huge", "deep", "largest", "fraction", "tiny", *(
    "decimal", "decimals", "decimal_infinity", "decimal_nan", "signalling", "decimal_fraction", "digits",
)}  # fmt: skip
"""Those that are no id of a counter that is stored in 64 bits."""
ARRAYS = {"array": [100, 5], "below_an_array": [-9], "mixed": ["text", 15, None]}
AMONG_IDS = {**{name: NUMBERS[name] for name in ODD}, **ARRAYS}


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def uri(replica_set: ReplicaSet) -> Iterator[str]:
    """A counter that is behind for each odd number, which is among its ids; and a counter that has each number."""
    with replica_set.client() as client:
        client.drop_database(DB)
        for name, number in AMONG_IDS.items():
            client[DB]["mongoengine.counters"].insert_one({"_id": f"{name}.number", "next": 7})
            client[DB][name].insert_many([{"number": n} for n in (1, 2, 3, 9, 20, number)])
            client[DB][name].create_index("number")
        client[DB].counters.insert_many([{"_id": name, "seq": number} for name, number in NUMBERS.items()])
        yield replica_set.uri
        client.drop_database(DB)


def test_an_odd_number_among_the_ids_hides_no_counter_that_is_behind(uri: str) -> None:
    result = run("repair", uri, "--match", f"{DB}.mongoengine*", "--json")
    rows = {row["id"]: row for row in json.loads(result.stdout)}
    assert {name: (row["largest"], row["behind"]) for name, row in rows.items()} == dict.fromkeys(
        (f"{name}.number" for name in AMONG_IDS), (20, 13)
    )
    assert all('{"$max": {"next": NumberInt(20)}}' in row["repair"] for row in rows.values())
    assert {row["not_compared"] for row in rows.values()} == {1}
    check = run("check", uri, "--no-history", "-v")
    assert check.exit_code == 2
    for name in AMONG_IDS:
        assert f"CRITICAL {DB}.mongoengine.counters {name}.number: BEHIND" in check.stdout
    assert f"{len(AMONG_IDS)} ids could not be compared" in check.stdout


def test_a_counter_of_any_number_is_listed_by_every_command(uri: str) -> None:
    listed = json.loads(run("counters", uri, "--no-history", "--guesses", "--json").stdout)
    values = {row["id"]: row["value"] for row in listed if row["ns"] == f"{DB}.counters"}
    assert set(values) == set(NUMBERS)
    assert [values[name] for name in ("infinity", "nan", "huge", "decimals")] == ["Infinity", "NaN", 1e300, "Infinity"]
    assert values["digits"] == 10**34 - 1
    text = run("metrics", uri, "--match", f"{DB}.*").stdout
    assert 'sequence="int64"} 9.223372036854776e+18' in text
    repaired = run("repair", uri, "--all", "--match", f"{DB}.*")
    assert repaired.exit_code == 1


def test_the_exporter_goes_on(uri: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    text = ""
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(run, "export", uri, f"--listen=127.0.0.1:{port}", "--seconds=8", "--every=1")
        while "sequence_last_value{" not in text and not serving.done():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    text = answer.read().decode()
            except OSError:
                continue
        assert serving.result().exit_code == 0
    assert f'database="{DB}"' in text


async def test_the_dashboard_shows_them_and_goes_on(uri: str, replica_set: ReplicaSet, gateway_to: OpenGateway) -> None:
    gateway = gateway_to(uri)
    settings = WatchSettings(refresh_seconds=0.05, config=parse_config({"include": [f"{DB}.*"]}))
    seen = 0
    async with aclosing(watch(gateway, settings)) as snapshots:
        async for snapshot in snapshots:
            now = datetime.now(UTC)
            for counter in snapshot.counters:
                for column in COLUMNS:
                    assert cells(counter, now, column, 12)
                assert glance(counter, now, (120, 30))
            for by in SORTS[1:]:
                assert sorted(snapshot.counters, key=sort_key(by, now, descending=True))
            assert {counter.id for counter in snapshot.counters} >= set(NUMBERS)
            seen += 1
            if seen == 6:
                break
            with replica_set.client() as client:
                # Each becomes another's: any number may follow any other.
                order = list(NUMBERS)
                for place, name in enumerate(order):
                    number: Any = NUMBERS[order[(place + seen * seen) % len(order)]]
                    client[DB].counters.update_one({"_id": name}, {"$set": {"seq": number}})
