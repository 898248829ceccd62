"""What mongosh is given to run, as JavaScript, run by node with the few methods of mongosh that it calls."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tallyglass.moment import Ts
from tallyglass.restore.tools import mongosh

pytestmark = pytest.mark.needs("node")

STAGE = """
const EJSON = {parse: (text) => ({v: JSON.parse(text).v["$timestamp"]})};
const NumberInt = (n) => n;
const sent = [];
const oplog = {find: (query) => {
  const dig = (row, path) => path.split(".").reduce((at, step) => at && at[step], row);
  const fits = (row, one) => Object.entries(one).every(([path, value]) => dig(row, path) === value);
  const hit = (row) => row.op === query.op && query.$or.some((one) => fits(row, one));
  const rows = query.op ? later.filter(hit) : query.ts.$gt ? later : (reaches ? [{}] : []);
  return {limit: () => ({toArray: () => rows})};
}};
const collection = (ns) => ({...oplog, countDocuments: () => there[ns],
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
if (times) { later = Array(times).fill(later[0]); }
if (inside) { later[0].o.applyOps = Array(inside).fill(later[0].o.applyOps[0]); }
let db;
"""
BODY = {"aggregate": "c_pitr", "pipeline": [{"$merge": {"into": "c"}}], "cursor": {}}
MERGE = mongosh.merge_since("s.c", "s.c_pitr", 2, Ts(7, 2), BODY)
REPLACE = mongosh.replace_by("s.c", "s.c_pitr", "s.c_before", 2, ["seq"])
THERE = {"s.c": 3, "s.c_pitr": 2}


def run(statement: str, **stage: Any) -> subprocess.CompletedProcess[str]:
    """``there`` are the collections with their counts, ``later`` the entries since the plan, ``found`` the counters.
    ``times`` repeats the first of the entries, ``inside`` the operation in it."""
    given = {
        "there": THERE,
        "later": [],
        "reaches": True,
        "found": {},
        "answer": {"ok": 1},
        "times": 0,
        "inside": 0,
    } | stage
    text = mongosh.program([statement], "mongodb://h:1/")
    head = "".join(f"let {name} = {json.dumps(value)};\n" for name, value in given.items())
    argv = ["node", "-e", head + STAGE + text]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def sent(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert isinstance(said["sent"], list)
    return said["sent"]


def test_what_is_written_after_the_plan_is_left_alone() -> None:
    later = [
        {"op": "u", "ns": "s.c", "o2": {"_id": 4}, "o": {}},
        {"op": "d", "ns": "s.c", "o": {"_id": 5}},
        {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [
            {"op": "i", "ns": "s.c", "o": {"_id": 6}}, {"op": "i", "ns": "s.other", "o": {"_id": 7}}]}},
    ]  # fmt: skip
    (merged,) = sent(run(MERGE, later=later))
    assert merged["pipeline"] == [{"$match": {"_id": {"$nin": [4, 5, 6]}}}, {"$merge": {"into": "c"}}]
    assert sent(run(MERGE))[0]["pipeline"] == BODY["pipeline"]
    kept = {"pipeline": [{"$merge": {"into": "c", "whenMatched": "keepExisting"}}]}
    missing_only = mongosh.merge_since("s.c", "s.c_pitr", 2, Ts(7, 2), BODY | kept)
    (merged,) = sent(run(missing_only, later=later))
    assert merged["pipeline"][0] == {"$match": {"_id": {"$nin": [5]}}}, "what is there stays; what was deleted, too"
    gap = run(MERGE, reaches=False)
    assert gap.returncode != 0
    assert "plan again" in gap.stderr


@pytest.mark.parametrize(
    ("identity", "right"),
    [
        ({"a": 1, "b": [{"7": 1}]}, True),
        ({"b": 1, "1": 2}, False),
        ({"a": [{"b": 1, "1": 2}]}, False),
        ({"a": {"_bsontype": "MaxKey"}}, False),
    ],
)
def test_an_id_that_cannot_be_read_exactly_stops_the_merge(identity: Any, right: bool) -> None:
    done = run(MERGE, later=[{"op": "u", "ns": "s.c", "o2": {"_id": identity}, "o": {}}])
    assert (done.returncode == 0) is right, done.stderr
    assert right or "cannot tell apart" in done.stderr


@pytest.mark.parametrize(
    ("ns", "o", "right"),
    [
        ("s.$cmd", {"renameCollection": "s.tmp.agg_out.1", "to": "s.c", "dropTarget": True}, False),
        ("s.$cmd", {"renameCollection": "s.c", "to": "s.d"}, False),
        ("s.$cmd", {"drop": "c"}, False),
        ("s.$cmd", {"emptycapped": "c"}, False),
        ("t.$cmd", {"drop": "c"}, True),
        ("s.$cmd", {"createIndexes": "c"}, True),
    ],
)
def test_nothing_is_merged_into_what_took_the_name_since_the_plan(ns: str, o: dict[str, Any], right: bool) -> None:
    done = run(MERGE, later=[{"op": "c", "ns": ns, "o": o}])
    assert (done.returncode == 0) is right, done.stderr
    assert right or "replaced since the plan" in done.stderr


@pytest.mark.parametrize(
    ("there", "word"),
    [
        ({"s.c": 3}, '"s.c_pitr" is not there'),
        ({"s.c": 3, "s.c_pitr": 1}, "holds 1 documents, not the 2 computed"),
        ({"s.c": 3, "s.c_pitr": 3}, "holds 3 documents, not the 2 computed"),
        ({"s.c_pitr": 2}, '"s.c" is not there any more'),
    ],
)
@pytest.mark.parametrize("statement", [MERGE, REPLACE], ids=["merge", "replace"])
def test_nothing_is_merged_from_what_is_not_as_computed(statement: str, there: dict[str, int], word: str) -> None:
    done = run(statement, there=there)
    assert done.returncode != 0
    assert "Nothing was written." in done.stderr
    assert word in done.stderr or statement is REPLACE


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


def test_more_than_can_be_told_apart_stops_the_merge() -> None:
    group = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [{"op": "i", "ns": "s.c", "o": {"_id": 1}}]}}
    other = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [{"op": "n", "ns": "s.c", "o": {}}]}}
    assert sent(run(MERGE, later=[group], inside=50_000))
    for much in (run(MERGE, later=[group], inside=50_001), run(MERGE, later=[other], times=50_001)):
        assert much.returncode != 0
        assert "Too many documents" in much.stderr


@pytest.mark.parametrize("answer", [{"ok": 0, "code": 13}, {"ok": 1, "writeErrors": [{"code": 121}]}])
def test_a_command_that_fails_stops_the_program(answer: dict[str, Any]) -> None:
    assert run(MERGE, answer=answer).returncode != 0
