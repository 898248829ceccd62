"""What ``repair`` prints for a counter, by how it moved; and that ``check`` decides in the same way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pymongo import ReturnDocument
from pymongo.database import Database

from tallyglass.demo.server import ReplicaSet
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

DB = "repair_decides"


@dataclass(frozen=True, slots=True)
class Situation:
    """The values a counter had, the ids in its collection, the decision, and the update that repairs it.

    ``step`` is what the application adds, ``document`` what else its document holds; ``config`` is of the counter.
    """

    values: Sequence[int]
    ids: Sequence[int]
    standing: str
    repair: str = ""
    step: int = 1
    document: Mapping[str, object] = field(default_factory=dict)
    config: str = ""


CASES: dict[str, Situation] = {
    "rises": Situation([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 100], "behind", "$max 100"),
    "agrees": Situation([1, 2, 3], [1, 2, 3], "agrees"),
    "restored": Situation([500], range(1, 1001), "behind", "$max 1000"),
    "set_back": Situation([998, 999, 1000, 500], range(1, 1001), "behind", "$max 1000"),
    "started_again": Situation([0], range(1, 101), "behind", "$max 100"),
    "steps": Situation([80, 90, 100], [80, 90, 100, 110, 115], "behind", "$max 120", 10, config="step = 10"),
    "steps_seen": Situation(range(10, 101, 10), [*range(10, 101, 10), 110, 115], "behind", "$max 120", 10),
    "descends": Situation(range(50_000, 49_930, -1), range(49_931, 50_001), "agrees", step=-1),
    "descends_ahead": Situation(range(60_000, 59_930, -1), range(59_981, 60_001), "agrees", step=-1),
    "descends_behind": Situation(range(70_000, 69_930, -1), range(69_900, 70_001), "behind", "$min 69900", -1),
    "descends_as_configured": Situation([931], range(900, 1_001), "behind", "$min 900", -1, config="step = -1"),
    "descends_in_steps": Situation(range(1_000, 500, -10), range(400, 1_001, 10), "behind", "$min 400", -10),
    "descends_off_its_steps": Situation(range(1_000, 500, -10), range(405, 1_001, 5), "behind", "$min 400", -10),
    "descends_to_strays": Situation(range(80_000, 79_995, -1), [0, 1, *range(79_996, 80_001)], "unclear", step=-1),
    "descends_idle": Situation([39_931], range(39_931, 40_001), "unclear", step=-1),
    "descends_above_strays": Situation([29_931], [0, 1, *range(29_931, 30_001)], "unclear", step=-1),
    "negative": Situation([-70], range(-70, 0), "unclear", step=-1),
    "negative_moves": Situation(range(-1, -70, -1), range(-69, 0), "agrees", step=-1),
    "negative_behind": Situation(range(-1, -70, -1), range(-90, 0), "behind", "$min -90", -1),
    "cycles": Situation([*range(1, 9), *range(1, 9), *range(1, 4)], range(1, 9), "not compared"),
    "cycles_as_configured": Situation([3], range(1, 9), "not compared", config="cycle = true\nmax = 8"),
    "mixed": Situation([10, 25, 5, 30, 12, 40, 20, 21], [*range(5, 20), 100], "unclear"),
    "beyond_its_limit": Situation([1, 2, 3], [1, 2, 3, 900], "behind", config="max = 500"),
    "strays": Situation([1, 2, 3], [1, 2, 3, 5_000, 7_000], "unclear"),
    "of_an_older_system": Situation([1, 2, 3], [1, 2, 3, *range(5_000, 5_100)], "unclear"),
    "beyond_its_lower_limit": Situation([900, 890], range(700, 901), "behind", step=-1, config="step = -1\nmin = 750"),
}  # fmt: skip


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


def write(db: Database[dict[str, Any]], name: str, case: Situation) -> None:
    db.doctrine_increment_ids.insert_one({"_id": name, "current_id": case.values[0], **case.document})
    for value in case.values[1:]:
        db.doctrine_increment_ids.update_one({"_id": name}, {"$set": {"current_id": value}})
    db[name].insert_many([{"_id": n} for n in case.ids])


def configured(folder: Path) -> Path:
    config = folder / "c.toml"
    entries = ((name, case.config) for name, case in CASES.items() if case.config)
    config.write_text(
        "".join(
            f'[[counter]]\ncollection = "{DB}.doctrine_increment_ids"\nid = "{name}"\n{more}\n'
            for name, more in entries
        )
    )
    return config


@pytest.fixture
def uri(replica_set: ReplicaSet) -> Iterator[str]:
    with replica_set.client() as client:
        client.drop_database(DB)
        for name, case in CASES.items():
            write(client[DB], name, case)
        yield replica_set.uri
        client.drop_database(DB)


def test_only_a_counter_whose_direction_is_known_is_moved(uri: str, tmp_path: Path) -> None:
    config = configured(tmp_path)
    result = run("repair", uri, "--config", str(config), "--no-history", "--match", f"{DB}.*", "--json")
    rows = {row["id"]: row for row in json.loads(result.stdout)}
    assert {name: row["standing"] for name, row in rows.items()} == {
        name: case.standing for name, case in CASES.items()
    }
    for name, case in CASES.items():
        operator, _, number = case.repair.partition(" ")
        update = f'{{"_id": "{name}"}}, {{"{operator}": {{"current_id": NumberInt({number})}}}}, '
        assert not case.repair or update in rows[name]["repair"], rows[name]
        assert bool(rows[name]["repair"]) == bool(case.repair), rows[name]
    assert "beyond its limit, 500" in rows["beyond_its_limit"]["why"]
    assert "but the nearest is 4,997 further on" in rows["strays"]["why"]
    assert result.exit_code == 1
    check = run("check", uri, "--config", str(config), "--no-history", "-v")
    for name, case in CASES.items():
        line = next((line for line in check.stdout.splitlines()[1:] if line.split(":")[0].endswith(f" {name}")), "")
        assert "FULL" not in line
        assert ("BEHIND" in line) == (case.standing == "behind"), line
        assert ("UNCLEAR" in line or "REWOUND" in line) == (case.standing == "unclear" or name == "set_back"), line


def test_a_repaired_counter_agrees_and_its_next_ids_are_free(uri: str, replica_set: ReplicaSet, tmp_path: Path) -> None:
    config = configured(tmp_path)
    again = ("repair", uri, "--config", str(config), "--no-history", "--match", f"{DB}.*", "--json")
    with replica_set.client() as client:
        db = client[DB]
        for row in json.loads(run(*again).stdout):
            if row["repair"]:
                operator, number = re.findall(r'"(.m..)": .*NumberInt\((-?\d+)\)', row["repair"])[0]
                update = {operator: {"current_id": int(number)}}
                db.doctrine_increment_ids.update_one({"_id": row["id"]}, update)
        standings = {row["id"]: row["standing"] for row in json.loads(run(*again).stdout)}
        for name, case in CASES.items():
            if case.repair:
                assert standings[name] == "agrees", name
            if case.repair or case.standing == "agrees":
                taken = [
                    db.doctrine_increment_ids.find_one_and_update(
                        {"_id": name}, {"$inc": {"current_id": case.step}}, return_document=ReturnDocument.AFTER
                    )
                    for _ in range(3)
                ]
                assert not {one["current_id"] for one in taken} & set(case.ids), name


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
