"""What ``repair`` prints for a counter, by how it moved; and that ``check`` decides in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pymongo.database import Database

from tallyglass.demo.server import ReplicaSet
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

DB = "repair_decides"

CASES: dict[str, tuple[Sequence[int], Sequence[int], str, str]] = {
    # name: the values it had, the ids in its collection, the decision, the number in the command
    "rises": ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 100], "behind", "100"),
    "agrees": ([1, 2, 3], [1, 2, 3], "agrees", ""),
    "restored": ([500], range(1, 1001), "behind", "1000"),
    "set_back": ([998, 999, 1000, 500], range(1, 1001), "behind", "1000"),
    "started_again": ([0], range(1, 101), "behind", "100"),
    "steps": ([80, 90, 100], [80, 90, 100, 110, 115], "behind", "120"),
    "steps_seen": (range(10, 101, 10), [*range(10, 101, 10), 110, 115], "behind", "120"),
    "descends": (range(50_000, 49_930, -1), range(49_931, 50_001), "not compared", ""),
    "descends_idle": ([49_931], range(49_931, 50_001), "unclear", ""),
    "descends_above_strays": ([49_931], [0, 1, *range(49_931, 50_001)], "unclear", ""),
    "negative": ([-70], range(-70, 0), "unclear", ""),
    "negative_moves": (range(-1, -70, -1), range(-69, 0), "not compared", ""),
    "cycles": ([*range(1, 9), *range(1, 9), *range(1, 4)], range(1, 9), "not compared", ""),
    "cycles_as_configured": ([3], range(1, 9), "not compared", ""),
    "mixed": ([10, 25, 5, 30, 12, 40, 20, 21], [*range(5, 20), 100], "unclear", ""),
}  # fmt: skip


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


def write(db: Database[dict[str, Any]], name: str, values: Sequence[int], ids: Sequence[int]) -> None:
    db.doctrine_increment_ids.insert_one({"_id": name, "current_id": values[0]})
    for value in values[1:]:
        db.doctrine_increment_ids.update_one({"_id": name}, {"$set": {"current_id": value}})
    db[name].insert_many([{"_id": n} for n in ids])


@pytest.fixture
def uri(replica_set: ReplicaSet) -> Iterator[str]:
    with replica_set.client() as client:
        client.drop_database(DB)
        for name, (values, ids, _, _) in CASES.items():
            write(client[DB], name, values, ids)
        yield replica_set.uri
        client.drop_database(DB)


def test_only_a_counter_that_is_known_to_count_up_is_moved(uri: str, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    entry = f'[[counter]]\ncollection = "{DB}.doctrine_increment_ids"\n'
    config.write_text(f'{entry}id = "steps"\nstep = 10\n{entry}id = "cycles_as_configured"\ncycle = true\nmax = 8\n')
    result = run("repair", uri, "--config", str(config), "--no-history", "--match", f"{DB}.*", "--json")
    rows = {row["id"]: row for row in json.loads(result.stdout)}
    assert {name: row["standing"] for name, row in rows.items()} == {name: case[2] for name, case in CASES.items()}
    for name, (_, _, _, number) in CASES.items():
        update = f'{{"_id": "{name}"}}, {{"$max": {{"current_id": NumberLong("{number}")}}}}, '
        assert not number or update in rows[name]["repair"], rows[name]
        assert bool(rows[name]["repair"]) == bool(number), rows[name]
    assert result.exit_code == 1
    check = run("check", uri, "--config", str(config), "--no-history", "-v")
    for name, (_, _, standing, _) in CASES.items():
        line = next((line for line in check.stdout.splitlines()[1:] if line.split(":")[0].endswith(f" {name}")), "")
        assert "FULL" not in line
        assert ("BEHIND" in line) == (standing == "behind"), line
        assert ("UNCLEAR" in line or "REWOUND" in line) == (standing == "unclear" or name == "set_back"), line


def test_the_step_is_what_was_seen_or_what_the_document_says(uri: str, replica_set: ReplicaSet) -> None:
    with replica_set.client() as client:
        client[DB].hibernate_sequences.insert_one({"_id": "parcels", "next_value": 51, "increment": 50})
        down = {"_id": "tickets", "value": 900, "increment_by": -1, "min_value": 1, "max_value": 1000}
        client[DB].sequences.insert_one(down)
    listed = json.loads(run("counters", uri, "--no-history", "--json").stdout)
    steps = {row["id"]: (row["step"], row["ceiling"]) for row in listed if row["ns"].startswith(DB)}
    assert [steps[name][0] for name in ("steps_seen", "rises", "descends", "parcels")] == [10, 1, -1, 50]
    assert steps["tickets"] == (-1, 1)


def test_what_is_unclear_is_neither_repaired_nor_called_right(uri: str) -> None:
    result = run("repair", uri, "--no-history", "--match", f"{DB}.* descends_idle")
    assert result.exit_code == 3
    assert "or it descends" in result.stdout
    assert "$max" not in result.stdout
