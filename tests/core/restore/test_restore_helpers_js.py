"""What mongosh is given to run, as JavaScript, run by node with the few methods of mongosh that it calls."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tallyglass.restore.tools import mongosh

pytestmark = pytest.mark.needs("node")

STAGE = """
const EJSON = {parse: (text) => ({v: JSON.parse(text).v["$timestamp"]})};
const NumberInt = (n) => n;
const sent = [];
const collection = (ns) => ({countDocuments: () => there[ns],
  updateOne: (query) => ({matchedCount: query._id in found ? 1 : 0, upsertedCount: 0})});
const run = (body) => {
  sent.push(body);
  if (body.renameCollection) {
    there[body.to] = there[body.renameCollection];
    delete there[body.renameCollection];
  }
  return answer;
};
const connect = () => ({getSiblingDB: (name) => ({
  getCollectionInfos: (wanted) => (name + "." + wanted.name) in there ? [{}] : [],
  getCollection: (one) => collection(name + "." + one), runCommand: run})});
const print = () => console.log(JSON.stringify({sent: sent, there: there}));
let db;
"""
REPLACE = mongosh.replace_by("s.c", "s.c_pitr", "s.c_before", 2, ["seq"])
THERE = {"s.c": 3, "s.c_pitr": 2}


def run(statement: str, **stage: Any) -> subprocess.CompletedProcess[str]:
    """``there`` are the collections with their counts, ``found`` the counters."""
    given = {"there": THERE, "found": {}, "answer": {"ok": 1}} | stage
    text = mongosh.program([statement], "mongodb://h:1/")
    head = "".join(f"let {name} = {json.dumps(value)};\n" for name, value in given.items())
    argv = ["node", "-e", head + STAGE + text]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def sent(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert isinstance(said["sent"], list)
    return said["sent"]


@pytest.mark.parametrize(
    ("there", "word"),
    [
        ({"s.c": 3}, '"s.c_pitr" is not there'),
        ({"s.c": 3, "s.c_pitr": 1}, "holds 1 documents, not the 2 computed"),
        ({"s.c": 3, "s.c_pitr": 3}, "holds 3 documents, not the 2 computed"),
    ],
)
def test_nothing_is_renamed_that_is_not_as_computed(there: dict[str, int], word: str) -> None:
    done = run(REPLACE, there=there)
    assert done.returncode != 0
    assert "Nothing was written." in done.stderr
    assert word in done.stderr or "neither before nor after" in done.stderr


def test_counters_are_moved_before_and_after_their_collection_is_replaced() -> None:
    done = run(REPLACE)
    assert json.loads(done.stdout)["there"] == {"s.c": 2, "s.c_before": 3}
    steps = [body.get("renameCollection") or (body["aggregate"], body["pipeline"][1]) for body in sent(done)]
    merge = {"on": "_id", "whenMatched": [{"$set": {"seq": {"$max": ["$seq", "$$new.seq"]}}}]}
    assert steps == [
        ("c", {"$merge": merge | {"into": "c_pitr", "whenNotMatched": "discard"}}),
        "s.c",
        "s.c_pitr",
        ("c_before", {"$merge": merge | {"into": "c", "whenNotMatched": "discard"}}),
        ("c_before", {"$merge": merge | {"into": "c", "whenNotMatched": "insert"}}),
    ]


@pytest.mark.parametrize("there", [{"s.c_pitr": 2, "s.c_before": 3}, {"s.c": 2, "s.c_before": 3}])
def test_a_replacement_that_was_stopped_goes_on(there: dict[str, int]) -> None:
    done = run(REPLACE, there=there)
    assert json.loads(done.stdout)["there"] == {"s.c": 2, "s.c_before": 3}
    assert [body["aggregate"] for body in sent(done)[-2:]] == ["c_before", "c_before"]


def test_a_collection_that_was_made_meanwhile_is_not_renamed() -> None:
    done = run(REPLACE, there=THERE | {"s.c_before": 1})
    assert done.returncode != 0
    assert "neither before nor after" in done.stderr


def test_a_collection_becomes_live_whole_or_not_at_all() -> None:
    named = mongosh.take_name("s.c", "s.c_pitr", 2)
    done = run(named, there={"s.c_pitr": 2})
    assert json.loads(done.stdout)["there"] == {"s.c": 2}
    assert sent(run(named, there={"s.c": 2})) == [], "it was done before"
    for there in (THERE, {"s.c_pitr": 1}, {}):
        assert "Nothing was written." in run(named, there=there).stderr
    absent = mongosh.must_be_absent("s.c")
    assert sent(run(absent, there={})) == []
    assert "was made since the plan" in run(absent).stderr


@pytest.mark.parametrize(
    ("resource", "actions", "lacks"),
    [
        ({"anyResource": True}, ["anyAction"], ""),
        ({"db": "s", "collection": ""}, ["insert", "find"], ""),
        ({"db": "", "collection": ""}, ["insert", "find"], 'find on "local.oplog.rs"'),
        ({"db": "s", "collection": "c"}, ["insert"], 'insert on "s"; find on "s.c"'),
        ({"db": "t", "collection": ""}, ["insert", "find"], 'insert on "s"'),
        ({"cluster": True}, ["insert", "find"], 'insert on "s"'),
        (None, [], ""),
    ],
)
def test_who_may_not_write_is_told_before_anything_is_written(
    resource: dict[str, Any] | None, actions: list[str], lacks: str
) -> None:
    wanted = [("s", "", ["insert"]), ("s", "c", ["find"])]
    if resource == {"db": "", "collection": ""}:
        wanted.append(("local", "oplog.rs", ["find"]))
    info = {
        "authenticatedUsers": [] if resource is None else [{}],
        "authenticatedUserPrivileges": [{"resource": resource or {}, "actions": actions}],
    }
    done = run(mongosh.must_be_allowed(wanted), answer={"ok": 1, "authInfo": info})
    assert (done.returncode == 0) is (lacks == "")
    assert lacks in done.stderr


@pytest.mark.parametrize(("said", "right"), [({"setName": "rs"}, False), ({"setName": "other"}, True), ({}, True)])
def test_what_is_for_the_spare_does_not_run_on_the_live_set(said: dict[str, str], right: bool) -> None:
    done = run(mongosh.must_not_be_set("rs"), answer={"ok": 1} | said)
    assert (done.returncode == 0) is right
    assert right or "not the spare" in done.stderr


@pytest.mark.parametrize(("code", "right"), [(26, True), (27, True), (13, False)])
def test_what_is_gone_already_need_not_be_dropped(code: int, right: bool) -> None:
    assert (run(mongosh.gone("s", {"drop": "c"}), answer={"ok": 0, "code": code}).returncode == 0) is right


def test_a_counter_that_is_missing_stops_the_program() -> None:
    update = mongosh.call("s.c", "updateOne", {"_id": "orders"}, {"$max": {"seq": 5}})
    assert sent(run(mongosh.moved(update, "It is gone."), found={"orders": 1})) == []
    gone = run(mongosh.moved(update, "It is gone."))
    assert gone.returncode != 0
    assert "It is gone." in gone.stderr
    assert sent(run(mongosh.moved(update))) == [], "where it need not be there"


@pytest.mark.parametrize("answer", [{"ok": 0, "code": 13}, {"ok": 1, "writeErrors": [{"code": 121}]}])
def test_a_command_that_fails_stops_the_program(answer: dict[str, Any]) -> None:
    assert run(mongosh.must("s", {"create": "c"}), answer=answer).returncode != 0
