"""What mongosh is given to run, as JavaScript, run by node with the few methods of mongosh that it calls."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tallyglass.restore.tools import mongosh

pytestmark = pytest.mark.needs("node")

STAGE = """
const EJSON = {parse: (text) => ({v: JSON.parse(text).v["$timestamp"]}), stringify: JSON.stringify};
const NumberInt = (n) => n;
const passwordPrompt = () => "asked";
Date.now = () => { throw new Error("what expires goes by the clock of the server"); };
const sent = [];
const uris = [];
const collection = (ns) => ({
  countDocuments: async (query = {}) => (Object.keys(query).length > 0 && expired !== null
    ? sent.push(Object.keys(query)) && expired : there[ns]), getIndexes: async () => indexes,
  updateOne: async (query) => ({matchedCount: query._id in found ? 1 : 0, upsertedCount: 0})});
const run = async (body) => {
  if (body.replSetGetConfig) {
    return {ok: 1, config: {settings: {replicaSetId: "0123"}}};
  }
  if (body.pipeline && body.pipeline.at(-1).$project) {
    return {ok: 1, cursor: {firstBatch: repeated}};
  }
  if (body.hello) {
    return {...answer, localTime: new Date(0)};
  }
  sent.push(body);
  if (body.find) {
    return {ok: 1, cursor: {firstBatch: oplog}};
  }
  if (body.pipeline && body.pipeline[0].$out) {
    there["s." + body.pipeline[0].$out] = there["s." + body.aggregate];
  }
  if (body.renameCollection) {
    there[body.to] = there[body.renameCollection];
    delete there[body.renameCollection];
  }
  if (!answer.ok) {
    throw Object.assign(new Error("refused"), answer);
  }
  return answer;
};
const connect = async (uri) => { uris.push(uri); return {getSiblingDB: (name) => ({
  getCollectionInfos: async (wanted) => (name + "." + wanted.name) in there ? [{info: {}, options}] : [],
  getCollection: (one) => collection(name + "." + one), runCommand: run})}; };
const print = async (text) => console.error(text);
let db;
"""
REPLACE = mongosh.replace_by("s.c", "s.c_pitr", "s.c_before", 2, ["seq"], "seen")
THERE = {"s.c": 3, "s.c_pitr": 2}


def run(
    folder: Path, *statements: str, config: str = 'uri: "mongodb://h:1/"', set_id: str = "0123", **stage: Any
) -> Run:
    """``set_id`` is that of the plan, ``there`` are the collections with their counts, ``found`` the counters,
    ``oplog`` what a search of it finds, ``repeated`` the counters with one field name twice, ``indexes`` and
    ``options`` those that every collection has."""
    given = {
        "there": THERE,
        "found": {},
        "answer": {"ok": 1},
        "oplog": [],
        "repeated": [],
        "indexes": [],
        "options": {},
        "expired": None,
    } | stage
    text = mongosh.program([mongosh.on_live(set_id), *statements, "console.log(JSON.stringify({sent, there, uris}));"])
    (folder / mongosh.HELPERS).write_text(mongosh.helpers([text]))
    (folder / "source.yml").write_text(f"{config}\n")
    (folder / "seen").write_text("7:1")
    head = "".join(f"let {name} = {json.dumps(value)};\n" for name, value in given.items())
    (folder / "program.js").write_text(head + STAGE + text)
    return subprocess.run(["node", "program.js"], cwd=folder, capture_output=True, text=True, timeout=180, check=False)


Run = subprocess.CompletedProcess[str]


def sent(done: Run) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert isinstance(reply["sent"], list)
    return reply["sent"]


@pytest.mark.parametrize(
    ("there", "word"),
    [
        ({"s.c": 3}, '"s.c_pitr" is missing'),
        ({"s.c": 3, "s.c_pitr": 1}, "holds 1 documents, not the 2 computed"),
    ],
)
def test_nothing_is_renamed_that_is_not_as_computed(tmp_path: Path, there: dict[str, int], word: str) -> None:
    done = run(tmp_path, REPLACE, there=there)
    assert done.returncode != 0
    assert "Nothing was written." in done.stderr
    assert word in done.stderr or "neither before nor after" in done.stderr


def test_a_collection_is_replaced_in_one_step_after_it_was_copied_and_counters_were_raised(tmp_path: Path) -> None:
    done = run(tmp_path, REPLACE)
    assert json.loads(done.stdout)["there"] == {"s.c": 2, "s.c_before": 3}
    written = [body for body in sent(done) if "writeConcern" in body]
    assert all(body["writeConcern"] == {"w": "majority"} for body in written)
    steps = [
        (body["renameCollection"], body.get("dropTarget")) if "renameCollection" in body
        else (body["aggregate"], body["pipeline"][-1].get("$out") or body["pipeline"][-1]["$merge"]["into"])
        for body in written
    ]  # fmt: skip
    assert steps == [
        ("c", "c_pitr_kept"),
        ("c", "c_pitr"),
        ("c", "c_pitr"),
        ("oplog.rs", {"db": "s", "coll": "c_pitr"}),
        ("s.c_pitr", True),
        ("oplog.rs", {"db": "s", "coll": "c"}),
        ("s.c_pitr_kept", None),
        ("c_before", "c"),
        ("c_before", "c"),
    ]
    merges = [merge for body in written if (merge := body.get("pipeline", [{}])[-1].get("$merge"))]
    raised = [merge["whenMatched"] for merge in merges if merge["into"] == "c_pitr"]
    assert [{"$set": {"seq": {"$max": ["$seq", "$$new.seq"]}}}] in raised


def test_a_replacement_that_was_stopped_before_its_copy_had_its_name_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, REPLACE, there={"s.c": 2, "s.c_pitr_kept": 3})
    assert json.loads(done.stdout)["there"] == {"s.c": 2, "s.c_before": 3}


@pytest.mark.parametrize("there", [{"s.c_pitr": 2, "s.c_before": 3}, {"s.c": 2, "s.c_before": 3}])
def test_a_replacement_that_was_stopped_goes_on(tmp_path: Path, there: dict[str, int]) -> None:
    done = run(tmp_path, REPLACE, there=there)
    assert json.loads(done.stdout)["there"] == {"s.c": 2, "s.c_before": 3}
    assert [body["aggregate"] for body in sent(done)[-2:]] == ["c_before", "c_before"]


def test_a_collection_that_was_made_meanwhile_is_not_renamed(tmp_path: Path) -> None:
    replaced = [{"o": {"renameCollection": "s.c_pitr", "to": "s.c"}}]
    done = run(tmp_path, REPLACE, there=THERE | {"s.c_before": 1}, oplog=replaced)
    assert done.returncode != 0
    assert "neither before nor after" in done.stderr


def test_a_collection_becomes_live_whole_or_not_at_all(tmp_path: Path) -> None:
    named = mongosh.take_names("_pitr", {"s.c": 2})
    done = run(tmp_path, named, there={"s.c_pitr": 2})
    assert json.loads(done.stdout)["there"] == {"s.c": 2}
    assert sent(run(tmp_path, named, there={"s.c": 2})) == [], "it was done before"
    for there in (THERE, {"s.c_pitr": 1}, {"s.c_pitr": 3}, {}):
        assert "Nothing was written." in run(tmp_path, named, there=there).stderr
    absent = 'await mustBeAbsent("s.c", "s.c_pitr");'
    assert sent(run(tmp_path, absent, there={})) == []
    refused = run(tmp_path, absent).stderr
    assert '"s.c" was created since the plan: plan again.' in refused
    assert 'What was loaded stays in "s.c_pitr"' in refused


def test_what_only_has_its_name_was_not_loaded(tmp_path: Path) -> None:
    named = mongosh.take_names("_pitr", {"s.c": None})
    done = run(tmp_path, named, there={"s.c_pitr": 0}, options={"validator": {"tallyglass_reserved_by": "x"}})
    assert '"s.c_pitr" is missing: load it again first.' in done.stderr
    assert sent(run(tmp_path, named, there={"s.c_pitr": 0}, options={"validator": {"a": 1}})) != []


def test_a_name_is_reserved_by_one_folder_alone(tmp_path: Path) -> None:
    reserve, taken = mongosh.reserve("s.c_pitr", "reserved"), {"ok": 0, "code": 48}
    assert run(tmp_path, reserve, answer={"ok": 1, "writeConcernError": {"code": 64}}).returncode != 0
    (made,) = sent(run(tmp_path, reserve))
    folder = (tmp_path / "reserved").read_text().removesuffix(" done")
    validator = {"tallyglass_reserved_by": folder}
    assert len(folder) == 36
    assert made == {"create": "c_pitr", "validator": validator, "writeConcern": {"w": "majority"}}
    assert sent(run(tmp_path, reserve, answer=taken, there={"s.c_pitr": 0})) == [], "and may have been loaded since"
    (tmp_path / "reserved").write_text(folder)
    again = run(tmp_path, reserve, answer=taken, there={"s.c_pitr": 0}, options={"validator": validator})
    assert sent(again) == [made], "a run that was killed made it"
    assert (tmp_path / "reserved").read_text() == f"{folder} done"
    for options in ({}, {"validator": {"tallyglass_reserved_by": "another"}}, {"validator": {"a": 1}}):
        (tmp_path / "reserved").write_text(folder)
        refused = run(tmp_path, reserve, answer=taken, there={"s.c_pitr": 0}, options=options).stderr
        assert '[name-taken] "s.c_pitr" is there already' in refused
    (tmp_path / "reserved").write_text(folder)
    gone = run(tmp_path, reserve, answer=taken, there={}).stderr
    assert '[name-taken] "s.c_pitr" is there already' in gone, "the load of another run drops and creates it"


def test_no_collection_is_renamed_unless_all_can_be(tmp_path: Path) -> None:
    named = mongosh.take_names("_pitr", {"s.a": 1, "s.b": 2})
    short = run(tmp_path, named, there={"s.a_pitr": 1, "s.b_pitr": 1})
    assert (short.returncode != 0, "holds 1 documents, not the 2" in short.stderr) == (True, True)
    assert "renameCollection" not in short.stdout


@pytest.mark.parametrize(("reply", "right"), [({"setName": "rs"}, False), ({"setName": "other"}, True), ({}, True)])
def test_what_is_for_the_spare_does_not_run_on_the_live_set(tmp_path: Path, reply: dict[str, str], right: bool) -> None:
    (tmp_path / "spare.yml").write_text('uri: "mongodb://s:2/"\n')
    done = run(tmp_path, mongosh.on_spare("rs"), answer={"ok": 1} | reply)
    assert (done.returncode == 0) is right
    assert right or "not the spare" in done.stderr


@pytest.mark.parametrize(("set_id", "right"), [("0123", True), ("4567", False), ("", True)])
def test_what_is_for_the_live_set_does_not_run_on_another_of_its_name(tmp_path: Path, set_id: str, right: bool) -> None:
    done = run(tmp_path, mongosh.must("s", {"create": "c"}), set_id=set_id)
    assert (done.returncode == 0) is right
    assert right or "another set than that of the plan" in done.stderr


@pytest.mark.parametrize(
    ("config", "uri"),
    [
        ("uri: \"mongodb://u@h:1/?x\"\npassword: 'it''s @/'", "mongodb://u:it's%20%40%2F@h:1/?x"),
        ('uri: "mongodb://u@h:1/"', "mongodb://u:asked@h:1/"),
        ('uri: "mongodb://u@h:1/?authMechanism=GSSAPI"', "mongodb://u@h:1/?authMechanism=GSSAPI"),
    ],
)
def test_a_password_comes_from_the_configuration_file_or_is_asked_for(tmp_path: Path, config: str, uri: str) -> None:
    assert json.loads(run(tmp_path, config=config).stdout)["uris"] == [uri]


def test_only_a_spare_with_the_mark_is_emptied(tmp_path: Path) -> None:
    databases = {"ok": 1, "databases": [{"name": "admin"}, {"name": "shop"}]}
    empty = mongosh.empty_spare("0123456789abcdef")
    bare = run(tmp_path, empty, there={"admin.tallyglass_spare": 0}, answer=databases)
    assert "does not bear the mark" in bare.stderr
    marked = sent(run(tmp_path, empty, there={"admin.tallyglass_spare": 1}, answer=databases))
    assert [body for body in marked if "dropDatabase" in body] == [{"dropDatabase": 1}]


@pytest.mark.parametrize(("code", "right"), [(26, True), (27, True), (13, False)])
def test_what_is_gone_already_need_not_be_dropped(tmp_path: Path, code: int, right: bool) -> None:
    assert (
        run(tmp_path, mongosh.drop_if_there("s", {"drop": "c"}), answer={"ok": 0, "code": code}).returncode == 0
    ) is right


def test_a_counter_that_is_missing_stops_the_program(tmp_path: Path) -> None:
    update = mongosh.call("s.c", "updateOne", {"_id": "orders"}, {"$max": {"seq": 5}})
    assert sent(run(tmp_path, mongosh.must_match(update, "It is gone."), found={"orders": 1})) == []
    gone = run(tmp_path, mongosh.must_match(update, "It is gone."))
    assert gone.returncode != 0
    assert "It is gone." in gone.stderr
    assert sent(run(tmp_path, mongosh.must_match(update))) == [], "where it need not be there"


INDEX = [{"name": "k", "key": {"k": 1}, "unique": True}]


@pytest.mark.parametrize(("answer", "right"), [({"ok": 1}, True), ({"ok": 0, "code": 11000}, True), ({"ok": 0}, False)])
def test_an_index_that_a_live_collection_refuses_ends_nothing(
    tmp_path: Path, answer: dict[str, Any], right: bool
) -> None:
    done = run(tmp_path, mongosh.restore_definitions("s.c", INDEX, {}), answer=answer)
    assert (done.returncode == 0) is right, "without a code there was no answer"


@pytest.mark.parametrize(
    ("code", "name", "right"), [(85, "k", True), (85, "other", False), (11000, "k", False), (11000, "other", False)]
)
def test_an_index_that_a_stopped_run_built_is_not_built_otherwise(
    tmp_path: Path, code: int, name: str, right: bool
) -> None:
    """Options that a server refuses have the same code as an index that is there with others."""
    built = mongosh.build_indexes("s.c_pitr", [{"name": "k", "key": {"k": 1}}], None)
    done = run(tmp_path, built, answer={"ok": 0, "code": code}, indexes=[{"name": name}])
    assert (done.returncode == 0) is right


@pytest.mark.parametrize(
    ("count", "indexes", "right"),
    [(2, [], True), (3, [], False), (3, [{"key": {"k": 1}}], False), (3, [{"expireAfterSeconds": 60}], True)],
)
def test_a_copy_is_counted_before_a_ttl_index_may_remove_documents(
    tmp_path: Path, count: int, indexes: list[Any], right: bool
) -> None:
    index = {"name": "k", "key": {"k": 1}, "expireAfterSeconds": 60}
    done = run(tmp_path, mongosh.build_indexes("s.c_pitr", [index], count), indexes=indexes)
    assert (done.returncode == 0) is right, "a run that was stopped may have built it"
    assert ("holds 2 documents, not the 3 computed" in done.stderr) is not right


@pytest.mark.parametrize(
    ("options", "expired", "field"),
    [
        ({}, 0, "_id"),
        ({}, 2, "_id"),
        ({"timeseries": {"timeField": "at"}}, 0, "at"),
        ({"expireAfterSeconds": 9}, 2, ""),
    ],
)
def test_a_collection_expires_again_unless_that_would_remove_documents_at_once(
    tmp_path: Path, options: dict[str, Any], expired: int, field: str
) -> None:
    """It was loaded without its expiry; a run that was stopped may have turned it on."""
    done = run(tmp_path, mongosh.expire_again("s.c_pitr", 60, 2), options=options, expired=expired)
    on = {"collMod": "c_pitr", "expireAfterSeconds": 60, "writeConcern": {"w": "majority"}}
    assert sent(done) == [[field], *([] if expired else [on])] * bool(field)
    told = '"s.c_pitr": its expireAfterSeconds 60 would remove 2 documents within a minute.'
    assert (told in done.stderr) is bool(field and expired)
    few = run(tmp_path, mongosh.expire_again("s.c_pitr", 60, 3), options=options, expired=expired)
    assert ("holds 2 documents, not the 3 computed" in few.stderr) is bool(field)
    assert sent(run(tmp_path, mongosh.expire_again("s.gone", 60, 2))) == []


@pytest.mark.parametrize(
    "answer",
    [
        {"ok": 0, "code": 13},
        {"ok": 1, "writeErrors": [{"code": 121}]},
        {"ok": 1, "writeConcernError": {"code": 11602}},
    ],
)
def test_a_command_that_fails_stops_the_program(tmp_path: Path, answer: dict[str, Any]) -> None:
    assert run(tmp_path, mongosh.must("s", {"create": "c"}), answer=answer).returncode != 0


def test_no_counter_with_one_field_name_twice_is_raised(tmp_path: Path) -> None:
    done = run(tmp_path, REPLACE, repeated=[{"_id": "orders"}])
    assert done.returncode != 0
    assert "[name-twice]" in done.stderr
    assert "renameCollection" not in done.stdout
