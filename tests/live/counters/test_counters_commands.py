"""metrics, export, repair and check on a real server."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallyglass.demo.server import ReplicaSet
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live
DB = "commands_check"


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def uri(replica_set: ReplicaSet) -> Iterator[str]:
    with replica_set.client() as client:
        client.drop_database(DB)
        client[DB].doctrine_increment_ids.insert_one({"_id": "orders", "current_id": 7})
        client[DB].orders.insert_many([{"_id": n} for n in (1, 2, 3, 9, 20)])
        yield replica_set.uri
        client.drop_database(DB)


def test_repair_says_why_and_names_the_gaps(uri: str) -> None:
    result = run("repair", uri, "--match", f"{DB}.*", "--json")
    (row,) = json.loads(result.stdout)
    assert (result.exit_code, row["issued"], row["largest"], row["behind"], row["documents"]) == (1, 7, 20, 13, 5)
    assert row["gaps"] == [{"first": 10, "last": 19}, {"first": 4, "last": 8}]
    assert '"$max"' in row["repair"]
    assert "collides" in run("repair", uri, "--match", f"{DB}.*").stdout
    for others in ([], ["--match", f"{DB}.*"]):
        missed = run("repair", uri, *others, "--match", "nothing.*")
        assert (missed.exit_code, "No counter matches --match 'nothing.*'." in missed.stderr) == (2, True)


def test_metrics_are_written_whole(uri: str, tmp_path: Path) -> None:
    path = tmp_path / "tallyglass.prom"
    assert run("metrics", uri, "--out", str(path), "--match", f"{DB}.*").exit_code == 0
    text = path.read_text()
    labels = f'collection="doctrine_increment_ids",database="{DB}"'
    assert re.search(rf'tallyglass_sequence_fault{{{labels},fault="behind",sequence="orders"}} 1.0', text)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert run("metrics", uri, "--match", "nothing.*").exit_code == 2


def test_export_serves_and_a_taken_port_is_one_sentence(uri: str, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'include = ["{DB}.*", "nowhere.*"]')
    with socket.socket() as taken, ThreadPoolExecutor(1) as pool:
        taken.bind(("127.0.0.1", 0))
        free = taken.getsockname()[1]
        taken.listen()
        refused = run("export", uri, f"--listen=127.0.0.1:{free}")
        assert (refused.exit_code, "Cannot listen on" in refused.stderr) == (2, True)
        taken.close()
        words = ("--config", str(config), f"--listen=127.0.0.1:{free}", "--seconds=8", "--every=1")
        words += ("--match", f"{DB}.*", "--match", "nothing.*")
        serving = pool.submit(run, "export", uri, *words)
        text = ""
        while "sequence_last_value{" not in text and not serving.done():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{free}/metrics", timeout=5) as answer:
                    text = answer.read().decode()
            except OSError:
                continue
        assert f'database="{DB}"' in text
        assert serving.result().exit_code == 0
        assert "include nowhere.* matches no collection" in serving.result().output
        assert serving.result().output.count("No counter matches --match 'nothing.*'.") == 1


def test_a_rule_that_fits_nothing_is_an_error(uri: str, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    rule = f'[[counter]]\ncollection = "{DB}.orders"\nfield = "nothing.there"\n'
    for text, words in (
        (rule, "no document has a number at nothing.there"),
        ('include = ["nowhere.*"]', "include nowhere.* matches no collection"),
    ):
        config.write_text(text)
        for command, code in (("check", 3), ("counters", 2), ("repair", 2)):
            result = run(command, uri, "--config", str(config))
            assert (result.exit_code, words in result.output) == (code, True), result.output


def test_a_second_search_uses_the_results_of_the_first(uri: str, replica_set: ReplicaSet, tmp_path: Path) -> None:
    import asyncio

    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass.counters.follow.watch import look
    from tallyglass.mongo.client import open_gateway

    with replica_set.client() as client:
        for n in range(30):
            client[DB][f"plain_{n:02}"].insert_one({"name": "x"})

    async def looked(seconds: float) -> Any:
        gateway = open_gateway(uri)
        try:
            settings = WatchSettings(history_path=tmp_path / "state.sqlite", search_seconds=seconds)
            return await look(gateway, settings)
        finally:
            await gateway.close()

    cut = asyncio.run(looked(0))
    assert (cut.discovering, cut.collections_looked < cut.collections_seen) == (True, True)
    assert not asyncio.run(looked(20)).discovering
    again = asyncio.run(looked(0))
    assert (again.discovering, again.collections_looked) == (False, again.collections_seen)
    assert "orders" in {counter.id for counter in again.counters}
