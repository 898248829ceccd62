"""What a return leaves alone, what it must never touch, and the account that says so: the emitted script, unchanged,
against independent records."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import bson
import pytest
from bson import Int64, json_util
from bson.raw_bson import RawBSONDocument
from restore_scene import Scene, blocks, documents, ids

from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.from_images import plan_undo
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.undo.evidence import read_evidence

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.since(6, 0)]

KEPT = {"changeStreamPreAndPostImages": {"enabled": True}}


def made(scene: Scene, kind: str, ns: str, first: Ts, last: Ts) -> Incident:
    """An incident with known bounds: what the scan makes of writes that stand close together is not what is tested."""
    scene.settle()
    return Incident(1, kind, f"{kind} on {ns}", ns, Harm.LOSS, first, last, None, None, 1, None)


def done_since(scene: Scene, since: Ts, op: str, ns: str) -> Incident:
    """The writes without a session since a moment, as one incident."""
    mine = {"ns": ns, "op": op, "lsid": {"$exists": False}}
    kind = {"d": "deleteMany", "u": "updateMany"}[op]
    return made(scene, kind, ns, scene.first_entry(mine, since), scene.newest_of(mine))


async def undo(
    scene: Scene, incident: Incident, work: str = "work", count: int | None = None, sets: str = "", ran: str = ""
) -> Plan:
    """The plan that undoes an incident. With a ``count``, no pause between its entries and no other write within a
    minute leaves it unclear; ``sets`` is the text to which the statement set ``s``, ``ran`` a statement."""
    known = read_evidence(f'updateMany({{}}, {{$set: {{s: "{sets}"}}}})' if sets else ran, count)
    asked = RestoreRequest(
        None, scene.source.uri, incident=incident, work_dir=str(scene.folder / work), evidence=known
    )  # fmt: skip
    gateway = open_gateway(scene.source.uri)
    try:
        plan = await plan_undo(gateway, asked)
    finally:
        await gateway.close()
    assert plan.level is not Level.BLOCK, blocks(plan)
    return plan


def before_the_merge(scene: Scene, code: str) -> None:
    """Run Python code, with ``client``, once before mongosh first writes."""
    real, folder = shutil.which("mongosh", path=scene.path), scene.folder / "hook"
    folder.mkdir()
    (folder / "code.py").write_text(
        f"import bson, pymongo\nfrom bson.raw_bson import RawBSONDocument\n"
        f"client = pymongo.MongoClient({scene.source.uri!r})\n{code}\n"
    )
    (folder / "mongosh").write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] || [ -e '{folder}/done' ] || "
        f"{{ touch '{folder}/done'; '{sys.executable}' '{folder}/code.py' || exit 9; }}\nexec '{real}' \"$@\"\n"
    )
    (folder / "mongosh").chmod(0o755)
    scene.path = f"{folder}:{scene.path}"


def listed(scene: Scene, work: str = "work") -> dict[Any, str]:
    """The ids in the outcome file, each with the reason."""
    rows = [json.loads(line) for line in (scene.folder / work / "still-damaged.jsonl").read_text().splitlines()]
    return {json_util.loads(json.dumps(row["_id"])): row["why"] for row in rows}


def columns(scene: Scene, work: str = "work") -> list[int]:
    """The numbers of the only row of the table, which must add up."""
    row = (scene.folder / work / "outcome.txt").read_text().splitlines()[1]
    touched, *parts = [int(cell) for cell in row.split()[1:]]
    assert touched == sum(parts), row
    return [touched, *parts]


def twice(id_: int, *fields: tuple[str, Any]) -> RawBSONDocument:
    """A document with fields in order, which may have one name."""
    body = b"".join(bson.encode({name: value})[4:-1] for name, value in (("_id", id_), *fields))
    return RawBSONDocument((len(body) + 5).to_bytes(4, "little") + body + b"\0")


def raw_of(scene: Scene, ids: Sequence[int]) -> dict[int, bytes]:
    rows = documents(scene.client, "shop", "orders", None)
    return {bson.decode(raw)["_id"]: raw for raw in rows if bson.decode(raw)["_id"] in ids}


async def test_no_update_meets_a_document_with_one_field_name_twice(scene: Scene) -> None:
    shop, pad = scene.client["shop"], "x" * 300
    shop.create_collection("orders", **KEPT)
    shop.orders.insert_many([{"_id": n, "s": "ok", "n": {"q": n}, "pad": pad} for n in range(10)])
    both = bson.encode({"q": 1})[4:-1]
    nested = RawBSONDocument((5 + 2 * len(both)).to_bytes(4, "little") + 2 * both + b"\0")
    shop.orders.insert_many([
        twice(20, ("s", "a"), ("s", "b"), ("pad", pad)),
        RawBSONDocument(bson.encode({"_id": 21, "s": "ok", "n": nested, "pad": pad})),
        RawBSONDocument(bson.encode({"_id": 22, "s": "ok", "n": {"q": 1}, "other": nested, "pad": pad})),
    ])  # fmt: skip
    since = scene.now()
    shop.orders.update_many({}, {"$set": {"s": "BAD", "n": {"q": "BAD"}}})
    plan = await undo(scene, done_since(scene, since, "u", "shop.orders"))
    damaged = raw_of(scene, [20, 21])
    later = twice(5, ("s", "BAD"), ("s", "x"), ("n", {"q": "BAD"}), ("pad", pad))
    code = f"client.shop.orders.replace_one({{'_id': 5}}, RawBSONDocument({bytes(later.raw)!r}))"
    before_the_merge(scene, code)
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    assert raw_of(scene, [20, 21, 5]) == damaged | {5: bytes(later.raw)}, "as they were"
    rest = {row["_id"]: (row["s"], row["n"]) for row in shop.orders.find({"_id": {"$nin": [5, 20, 21]}})}
    assert rest == {n: ("ok", {"q": n}) for n in range(10) if n != 5} | {22: ("ok", {"q": 1})}
    assert {id_: "one field name twice" in why for id_, why in listed(scene).items()} == {5: True, 20: True, 21: True}
    assert columns(scene) == [13, 10, 0, 0, 3, 0]
    assert bytes(twice(20, ("s", "BAD")).raw) != damaged[20]


async def test_deleted_documents_with_one_field_name_twice_come_back_byte_for_byte(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.create_collection("repeated", **KEPT)
    shop.repeated.insert_many([twice(1, ("s", "a"), ("s", "b")), {"_id": 2, "s": "c"}])
    before, since = documents(scene.client, "shop", "repeated", None), scene.now()
    shop.repeated.delete_many({})
    scene.must_run(await undo(scene, done_since(scene, since, "d", "shop.repeated")))
    assert sorted(documents(scene.client, "shop", "repeated", None)) == sorted(before)


@pytest.mark.parametrize(
    "collation",
    [{"locale": "en", "strength": 2}, pytest.param(None, marks=pytest.mark.soak)],
    ids=["strength 2", "control"],
)
async def test_names_and_values_are_compared_exactly_whatever_the_collation(scene: Scene, collation: Any) -> None:
    shop = scene.client["shop"]
    shop.create_collection("orders", collation=collation, **KEPT)
    shop.orders.insert_many([{"_id": f"k{n:02}", "name": f"n{n}", "Name": "x", "sub": {"t": "y"}} for n in range(50)])
    since = scene.now()
    shop.orders.update_many({}, {"$set": {"name": "X", "sub": {"t": "Y"}}})
    plan = await undo(scene, done_since(scene, since, "u", "shop.orders"))
    before_the_merge(scene, "client.shop.orders.update_one({'_id': 'k07'}, {'$set': {'name': 'x', 'sub': {'t': 'y'}}})")
    scene.must_run(plan)
    rows = {row["_id"]: row for row in shop.orders.find()}
    assert {row["Name"] for row in rows.values()} == {"x"}, "undamaged"
    wanted = {f"k{n:02}": (f"n{n}", {"t": "y"}) for n in range(50)} | {"k07": ("x", {"t": "y"})}
    assert {id_: (row["name"], row["sub"]) for id_, row in rows.items()} == wanted


STRENGTH_2 = {"locale": "en", "strength": 2}


@pytest.mark.parametrize("whose", [pytest.param("the collection", marks=pytest.mark.soak), "the statement"])
async def test_what_a_statement_found_by_a_collation_comes_back(scene: Scene, whose: str) -> None:
    """By bytes, its filter finds half of what was deleted."""
    options = {"collation": STRENGTH_2} if whose == "the collection" else {}
    cased = scene.client["shop"].create_collection(f"cased_{len(options)}", **KEPT, **options)
    cased.insert_many([{"_id": n, "name": "xX"[n % 2]} for n in range(40)])
    since = scene.now()
    with scene.source.client(retryWrites=False) as person:
        found = person["shop"][cased.name].delete_many({"name": "x"}, collation=None if options else STRENGTH_2)
    assert found.deleted_count == 40
    ran = f'db.{cased.name}.deleteMany({{name: "x"}}' + (
        ")" if options else ', {collation: {locale: "en", strength: 2}})'
    )
    scene.must_run(await undo(scene, done_since(scene, since, "d", f"shop.{cased.name}"), ran=ran))
    assert sorted(row["_id"] for row in cased.find()) == list(range(40))


async def test_a_statement_that_did_none_of_it_is_refused(scene: Scene) -> None:
    orders = scene.client["shop"].create_collection("other", **KEPT)
    orders.insert_many([{"_id": n, "name": "x"} for n in range(10)])
    since = scene.now()
    with scene.source.client(retryWrites=False) as person:
        person["shop"].other.delete_many({})
    plan = await undo(scene, done_since(scene, since, "d", "shop.other"), ran='deleteMany({name: "y"})')
    stopped = scene.run(plan)
    assert (stopped.returncode, "No write of this incident does what was run" in stopped.stderr) == (1, True)


async def test_an_index_that_takes_two_ids_for_one_keeps_out_what_it_holds(scene: Scene) -> None:
    users = scene.client["shop"].create_collection("users", **KEPT)
    users.create_index("mail", unique=True, collation={"locale": "en", "strength": 2})
    users.insert_many([{"_id": name, "mail": f"{name}@x"} for name in "abc"])
    since = scene.now()
    users.delete_many({})
    users.insert_one({"_id": "A", "mail": "A@X"})
    plan = await undo(scene, done_since(scene, since, "d", "shop.users"))
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    assert sorted(users.distinct("_id")) == ["A", "b", "c"]
    assert "live document A" in listed(scene)["a"]
    assert columns(scene) == [3, 2, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("name", "later"),
    [
        ("summed", {"$inc": {"balance": 5}}),
        pytest.param("copied", [{"$set": {"note": {"$concat": ["was ", "$state"]}}}], marks=pytest.mark.soak),
    ],
)
async def test_a_value_computed_from_the_accidents_is_listed(scene: Scene, name: str, later: Any) -> None:
    accounts = scene.client["shop"].create_collection(name, **KEPT)
    accounts.insert_many([{"_id": n, "balance": 100, "state": "good", "note": ""} for n in range(20)])
    since = scene.now()
    accounts.update_many({}, {"$mul": {"balance": 2}, "$set": {"state": "wrong"}})
    incident = done_since(scene, since, "u", f"shop.{name}")
    for n in range(5):
        accounts.update_one({"_id": n}, later)
    accounts.update_one({"_id": 5}, {"$set": {"state": "theirs"}})
    accounts.delete_one({"_id": 6})
    accounts.update_one({"_id": 7}, {"$set": {"state": "theirs", "balance": 100}})
    done = scene.run(await undo(scene, incident))
    assert done.returncode == 3, done.stderr
    assert sorted(listed(scene)) == [*range(5), 7], "a number over a number may be a sum, also if it is the old one"
    assert columns(scene) == [20, 13, 0, 1, 6, 0]


async def test_a_later_increment_stays_on_the_right_value(scene: Scene) -> None:
    """Every write of others to the field adds the same, to different numbers."""
    accounts = scene.client["shop"].create_collection("added", **KEPT)
    accounts.insert_many([{"_id": n, "balance": 100 + n} for n in range(20)])
    since = scene.now()
    accounts.update_many({}, {"$mul": {"balance": 2}})
    incident = done_since(scene, since, "u", "shop.added")
    for n in range(10):
        accounts.update_one({"_id": n}, {"$inc": {"balance": 5}})
    done = scene.run(await undo(scene, incident))
    assert done.returncode == 0, done.stderr
    assert {row["_id"]: row["balance"] for row in accounts.find()} == {n: 100 + n + 5 * (n < 10) for n in range(20)}


async def test_nothing_restored_is_not_done(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.create_collection("accounts", **KEPT)
    shop.accounts.insert_many([{"_id": n, "balance": 100, "state": "good"} for n in range(10)])
    since = scene.now()
    shop.accounts.delete_many({})
    incident = done_since(scene, since, "d", "shop.accounts")
    shop.accounts.insert_many([{"_id": n, "balance": 100, "state": "good"} for n in range(10)])
    done = scene.run(await undo(scene, incident))
    assert done.returncode == 3, done.stderr
    assert "Nothing was restored" in done.stderr
    assert columns(scene) == [10, 0, 10, 0, 0, 0]


@pytest.mark.parametrize("op", [pytest.param("d", marks=pytest.mark.soak), "u"])
async def test_a_copy_of_a_folder_finds_what_came_back_before(scene: Scene, op: str) -> None:
    copied = scene.client["shop"].create_collection(f"copied_{op}", **KEPT)
    copied.insert_many([{"_id": n, "s": f"good {n}"} for n in range(10)])
    since = scene.now()
    if op == "d":
        copied.delete_many({})
    else:
        copied.update_many({}, {"$set": {"s": "BAD"}})
    incident = done_since(scene, since, op, f"shop.copied_{op}")
    first, second = [await undo(scene, incident, work) for work in ("work", "copy")]
    scene.must_run(first)
    done = scene.run(second)
    assert done.returncode == 0, done.stderr
    assert "10 had come back before, by another run of this return" in done.stderr
    assert columns(scene, "copy") == [10, 0, 10, 0, 0, 0]


@pytest.mark.parametrize("order", ["the delete first", pytest.param("the update first", marks=pytest.mark.soak)])
async def test_an_update_under_a_delete_is_undone_in_either_order(scene: Scene, order: str) -> None:
    name = order.replace(" ", "_")
    orders = scene.client["shop"].create_collection(name, **KEPT)
    orders.insert_many([{"_id": n, "s": "ok"} for n in range(20)])
    since = scene.now()
    orders.update_many({}, {"$set": {"s": "BAD"}})
    update = done_since(scene, since, "u", f"shop.{name}")
    orders.delete_many({"_id": {"$lt": 15}})
    delete = done_since(scene, since, "d", f"shop.{name}")
    if order == "the update first":
        scene.must_run(await undo(scene, update, "first", 20, "BAD"))
        assert columns(scene, "first") == [20, 5, 0, 15, 0, 0]
        done = scene.run(await undo(scene, delete, "second"))
        assert done.returncode == 3, "what it brought back still has what the update left"
        assert sorted(listed(scene, "second")) == list(range(15))
        assert all("undo that one again" in why for why in listed(scene, "second").values())
    else:
        scene.must_run(await undo(scene, delete, "first"))
        assert orders.count_documents({"s": "BAD"}) == 20
    scene.must_run(await undo(scene, update, "third", 20, "BAD"))
    assert orders.count_documents({"s": "ok"}) == 20
    assert columns(scene, "third")[0] == 20


@pytest.mark.parametrize("whose", ["the tool", pytest.param("control", marks=pytest.mark.soak)])
async def test_only_what_the_tool_wrote_back_is_no_write_of_others(scene: Scene, whose: str) -> None:
    """The deleted documents are brought back by the tool, or manually with the bad value: then they are others'."""
    name = f"back_{whose[-4:]}"
    orders = scene.client["shop"].create_collection(name, **KEPT)
    orders.insert_many([{"_id": n, "s": "ok"} for n in range(20)])
    since = scene.now()
    orders.update_many({}, {"$set": {"s": "BAD"}})
    update, bad = done_since(scene, since, "u", f"shop.{name}"), list(orders.find({"_id": {"$lt": 15}}))
    orders.delete_many({"_id": {"$lt": 15}})
    if whose == "the tool":
        scene.must_run(await undo(scene, done_since(scene, since, "d", f"shop.{name}"), "first"))
    else:
        orders.insert_many(bad)
    done = scene.run(await undo(scene, update, "second"))
    assert done.returncode == (0 if whose == "the tool" else 3), done.stderr
    assert sorted(listed(scene, "second")) == ([] if whose == "the tool" else list(range(15)))
    assert orders.count_documents({"s": "ok"}) == (20 if whose == "the tool" else 5)


async def test_what_was_undone_under_a_later_update_is_known_when_that_is_undone(scene: Scene) -> None:
    """The first return finds nothing to write, and leaves a mark in the oplog."""
    orders = scene.client["shop"].create_collection("over", **KEPT)
    orders.insert_many([{"_id": n, "s": "ok"} for n in range(20)])
    found = []
    for value in ("BAD", "WORSE"):
        since = scene.now()
        orders.update_many({}, {"$set": {"s": value}})
        found.append(done_since(scene, since, "u", "shop.over"))
    bad, worse = found
    done = scene.run(await undo(scene, bad, "first", 20, "BAD"))
    assert (done.returncode, columns(scene, "first")) == (3, [20, 0, 0, 20, 0, 0]), done.stderr
    assert scene.run(await undo(scene, worse, "second", 20, "WORSE")).returncode == 3
    assert orders.count_documents({"s": "BAD"}) == 20
    assert sorted(listed(scene, "second")) == list(range(20))
    assert all("undo that one again" in why for why in listed(scene, "second").values())
    scene.must_run(await undo(scene, bad, "third", 20, "BAD"))
    assert orders.count_documents({"s": "ok"}) == 20


async def test_old_versions_from_another_dump_are_listed(scene: Scene) -> None:
    orders = scene.client["shop"].orders
    orders.insert_many([{"_id": n, "v": "old"} for n in range(50)])
    old = scene.backup(name="old")
    orders.update_many({}, {"$set": {"v": "new"}})
    orders.insert_many([{"_id": n, "v": "new"} for n in range(50, 60)])
    backup = scene.backup("--oplog")
    since = scene.now()
    scene.tool("mongorestore", f"--uri={scene.source.uri}", "--drop", "--nsInclude=shop.*", f"--dir={old}")
    scene.settle()
    incident = await scene.incident("drop", "shop.orders")
    assert incident.last > since
    plan = await scene.plan(backup, incident.limit, incident=incident)
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    assert sorted(listed(scene)) == list(range(50))
    assert columns(scene) == [60, 10, 0, 0, 50, 0]


@pytest.mark.parametrize(
    "accident",
    [
        "removed",
        "cut",
        *(pytest.param(one, marks=pytest.mark.soak) for one in ("another field", "replaced", "control")),
    ],
)
async def test_large_documents_come_back_or_are_listed_with_the_reason(scene: Scene, accident: str) -> None:
    """Of 9 to 16 MB. Only where a long value was replaced by another one does the repair not fit, which is said."""
    mb, end = 1024 * 1024, 100
    sizes = [9 * mb, 13 * mb, 16 * mb - end] if accident != "control" else [1, 1_000, mb]
    name = accident.replace(" ", "_")
    orders = scene.client["shop"].create_collection(name, **KEPT)
    for n, size in enumerate(sizes):
        orders.insert_one({"_id": n, "pad": "x" * (size - 50), "s": "ok"})
    since, rows = scene.now(), sorted(documents(scene.client, "shop", name, None))
    if accident in ("removed", "control"):
        orders.delete_many({})
    else:
        sets = {"another field": {"s": "BAD"}, "cut": {"pad": "", "s": "BAD"}, "replaced": {"pad": "y" * (9 * mb)}}
        orders.update_many({}, {"$set": sets[accident]})
    op = "d" if accident in ("removed", "control") else "u"
    plan = await undo(scene, done_since(scene, since, op, f"shop.{name}"), count=len(sizes))
    large = [check.title for check in plan.checks if check.id == "large-documents"]
    assert len(large) == (accident in ("another field", "cut", "replaced")), large
    done = scene.run(plan)
    if accident != "replaced":
        assert done.returncode == 0, done.stderr
        assert sorted(documents(scene.client, "shop", name, None)) == rows
        return
    assert done.returncode == 3, done.stderr
    assert {id_: "16 MB" in why for id_, why in listed(scene).items()} == dict.fromkeys(range(3), True)


@pytest.mark.parametrize(
    "accident", ["a transaction", "a rename over it", pytest.param("control", marks=pytest.mark.soak)]
)
async def test_a_plan_without_an_incident_never_says_done_over_what_it_leaves(scene: Scene, accident: str) -> None:
    """Of a transaction it undoes the deletes, of a rename over another collection nothing that is live: both say so
    beforehand and end with 3, where a plan for the incident does all of it. A plain delete ends with 0."""
    shop = scene.client["shop"]
    orders = shop.create_collection(accident.replace(" ", "_"))
    orders.insert_many([{"_id": n, "s": "ok"} for n in range(40)])
    shop.other.insert_many([{"_id": n, "s": "other"} for n in range(40)])
    backup, since = scene.backup("--oplog"), scene.now()
    if accident == "a transaction":
        with scene.client.start_session() as session, session.start_transaction():
            orders.update_many({"_id": {"$lt": 5}}, {"$set": {"s": "BAD"}}, session=session)
            orders.delete_one({"_id": 39}, session=session)
        limit = scene.first_entry({"o.applyOps.ns": f"shop.{orders.name}"}, since)
    elif accident == "a rename over it":
        shop.other.rename(orders.name, dropTarget=True)
        limit = scene.first_entry({"o.renameCollection": "shop.other"}, since)
    else:
        orders.delete_one({"_id": 39})
        limit = scene.first_entry({"op": "d"}, since)
    scene.settle()
    plan = await scene.plan(backup, limit)
    assert ("not-undone" in ids(plan, Level.WARN)) == (accident != "control")
    done = scene.run(plan)
    assert done.returncode == (0 if accident == "control" else 3), done.stderr
    assert ("Plan with --incident" in done.stderr) or accident == "control"
    assert orders.count_documents({"s": "ok"}) == {"a transaction": 35, "a rename over it": 0, "control": 40}[accident]


@pytest.mark.parametrize(
    "kind", ["0 for False", *(pytest.param(one, marks=pytest.mark.soak) for one in ("Int64", "double", "control"))]
)
async def test_ids_that_others_inserted_again_as_an_equal_number_are_theirs(scene: Scene, kind: str) -> None:
    """Listed with the live document that counts as this one; where nobody inserted one, all come back."""
    orders = scene.client["shop"].create_collection(f"equal_{kind[0]}", **KEPT)
    orders.insert_many([{"_id": n, "s": "ok"} for n in range(10)])
    since = scene.now()
    orders.delete_many({})
    incident = done_since(scene, since, "d", f"shop.equal_{kind[0]}")
    if kind != "control":
        again: dict[str, Any] = {"Int64": Int64(0), "double": 0.0, "0 for False": -0.0}
        orders.insert_one({"_id": again[kind], "s": "theirs"})
    done = scene.run(await undo(scene, incident))
    assert done.returncode == (0 if kind == "control" else 3), done.stderr
    assert orders.count_documents({"s": "ok"}) == (10 if kind == "control" else 9)
    if kind != "control":
        assert list(listed(scene)) == [0]
        assert "counts as this one" in listed(scene)[0]
        assert columns(scene)[:2] == [10, 9]


@pytest.mark.parametrize("inserted", [200, pytest.param(0, marks=pytest.mark.soak)], ids=["with inserts", "control"])
async def test_what_a_merge_inserted_before_it_updated_is_named_and_listed(scene: Scene, inserted: int) -> None:
    shop = scene.client["shop"]
    orders = shop.create_collection(f"merged_{inserted}", **KEPT)
    orders.insert_many([{"_id": n, "s": "ok"} for n in range(200)])
    shop.staged.insert_many([{"_id": n, "s": "BAD"} for n in range(200 + inserted)])
    since = scene.now()
    into = {"into": orders.name, "whenMatched": "replace", "whenNotMatched": "insert"}
    shop.staged.aggregate([{"$sort": {"s": 1, "_id": -1}}, {"$merge": into}])
    orders.update_one({"_id": 0}, {"$set": {"seen": True}})
    incident = done_since(scene, since, "u", f"shop.{orders.name}")
    plan = await undo(scene, incident, count=200)
    rows = [row for row in plan.undo.left_out if "$merge" in row.why]
    assert [(row.what, row.entries) for row in rows] == ([("inserted", 200)] if inserted else [])
    assert scene.run(plan).returncode == (3 if inserted else 0)
    assert orders.count_documents({"s": "ok"}) == 200
    assert not inserted or sorted(listed(scene)) == list(range(200, 400))


@pytest.mark.parametrize(
    "numbers", ["equal", *(pytest.param(one, marks=pytest.mark.soak) for one in ("different", "control"))]
)
async def test_one_of_two_equal_increments_is_solved_or_listed(scene: Scene, numbers: str) -> None:
    """Nothing is called done over what is left of it; where it ran once, it is taken back."""
    accounts = scene.client["shop"].create_collection(f"{numbers}_sums", **KEPT)
    before = {n: 100 + n % (7 if numbers == "equal" else 500) for n in range(500)}
    accounts.insert_many([{"_id": n, "balance": balance} for n, balance in before.items()])
    since = scene.now()
    accounts.update_many({}, {"$inc": {"balance": 5}})
    first, left = done_since(scene, since, "u", f"shop.{accounts.name}"), 0
    if numbers != "control":
        accounts.update_many({}, {"$inc": {"balance": 5}})
        left = 5
    scene.settle()
    plan = await scene.undo(first, evidence=read_evidence("updateMany({}, {$inc: {balance: 5}})", 500))
    done = scene.run(plan)
    if done.returncode != 0:
        assert numbers != "control", done.stderr
        assert "1,000 writes do what was run" in done.stderr or sorted(listed(scene)) == sorted(before), done.stderr
        left = 10
    assert {row["_id"]: row["balance"] - before[row["_id"]] for row in accounts.find()} == dict.fromkeys(before, left)
