"""What others wrote while a collection was replaced: what comes along with its return, and what is said of the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import bson
import pytest
from bson import Binary, Timestamp
from bson.raw_bson import RawBSONDocument

from builders.history import COLLECTION, Row, Server, diff, entry
from builders.plan_folder import plan, step
from builders.plans import changed
from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.restore.backup.bson_file import decode
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.history_file import seen_file
from tallyglass.restore.undo.outcome import account
from tallyglass.restore.undo.since import carried_over, left_behind

BACK = Binary.from_uuid(UUID(int=2))
ROW = Return("s.c", Strategy.REPLACE, "s.c_pitr", away="s.c_before")


class Held(Server):
    """Answers with the documents of each collection, and has the collections of ``live`` by their UUID."""

    def __init__(self, oplog: list[Row], live: dict[str, Binary], **documents: list[Row]) -> None:
        super().__init__([entry(9, "n", {}, ns=""), *oplog])
        self.live, self.held = live, documents

    async def command(self, *_: Any, **__: Any) -> Row:
        return {"lastWrite": {"majorityOpTime": {"ts": Timestamp(50, 1), "t": 1}}}

    async def find_one(self, *_: Any, **__: Any) -> Row:
        return {"ts": Timestamp(50, 1)}

    async def list_collections(self, _: str) -> list[CollectionInfo]:
        return [CollectionInfo(Namespace.parse(ns), "collection", {}, bytes(uuid)) for ns, uuid in self.live.items()]

    async def find_raw(self, ns: Namespace, query: Any, **how: Any) -> AsyncIterator[bytes]:
        if isinstance(query, RawBSONDocument):
            wanted = query["_id"]["$in"]
            yield b"".join(bson.encode(row) for row in self.held.get(ns.collection, ()) if row["_id"] in wanted)
            return
        if ns.db != "local":
            yield b"".join(bson.encode(row) for row in self.held.get(ns.collection, ()))
            return
        async for batch in super().find_raw(ns, query, **how):
            yield batch


def back(second: int, op: str, o: Row, id_: int = 0, **more: Any) -> Row:
    """A write to the collection that came back."""
    return entry(second, op, o, id_, ui=BACK, **more)


BEFORE = [
    entry(10, "i", {"_id": 1, "v": 1}),
    entry(11, "u", diff(u={"v": 2}), 1),
    entry(12, "i", {"_id": 2}),
    entry(13, "d", {"_id": 2}),
    entry(14, "u", diff(u={"v": 9}), 3),
    entry(15, "i", {"_id": 4, "v": 4}),
]
SPARE: Any = Held([], {}, c=[{"_id": 4, "v": 0}])


async def carried(server: Held, seen: Path) -> list[tuple[str, Row]]:
    rows = carried_over(server, SPARE, ROW, Ts(10, 1), seen)  # type: ignore[arg-type]
    return [(target, decode(document)) async for target, _, document in rows]


async def left(server: Held, seen: Path | None = None) -> dict[int, str]:
    found = left_behind(server, SPARE, ROW, Ts(10, 1), seen)  # type: ignore[arg-type]
    return {int.from_bytes(key[1:], "little"): why async for key, why in found}


@pytest.mark.parametrize("live", [{"s.c_pitr": BACK, "s.c": COLLECTION}, {"s.c": BACK}], ids=["before", "after"])
async def test_what_the_oplog_no_longer_holds_is_not_taken_for_nothing(tmp_path: Path, live: dict[str, Binary]) -> None:
    server = Held([], live)
    server.oplog = BEFORE[1:]
    for work in (carried(server, tmp_path / "seen"), left(server)):
        with pytest.raises(ReadError, match="what others wrote since is unknown"):
            await work


async def test_what_others_inserted_is_carried_into_the_copy_and_the_rest_is_named(tmp_path: Path) -> None:
    seen = tmp_path / "state" / "seen"
    server = Held(BEFORE, {"s.c_pitr": BACK, "s.c": COLLECTION})
    assert await carried(server, seen) == [("s.c_pitr", {"_id": 1, "v": 2})]
    assert seen.read_text() == "50:1"
    server.held["c_pitr"] = [{"_id": 1, "v": 2}]
    assert await carried(server, seen) == [], "a second run has nothing to write"
    words = await left(server)
    assert list(words) == [4], "one that the accident had left does not come back"
    assert "compare it with s.c_before" in words[4], "the copy has another of that _id"


async def test_an_id_that_counts_as_one_that_came_back_is_named() -> None:
    """A number of another type: no run can write it."""
    server = Held(BEFORE[:2], {"s.c": BACK, "s.c_before": COLLECTION}, c=[{"_id": 1.0}])
    assert await left(server) == {1: "The live document 1.0 has an _id that counts as this one."}


async def test_what_others_inserted_with_a_field_name_twice_is_named(tmp_path: Path) -> None:
    """No update of such a document can be followed."""
    raw = bson.encode({"_id": 5, "v": 1, "w": 1}).replace(b"w\0", b"v\0")
    updates = [entry(second, "u", diff(u={"v": 2}), 5) for second in (12, 13)]
    for oplog, named in (([], False), (updates[:1], True), (updates, True), ([entry(12, "d", {"_id": 5})], False)):
        inserted = entry(11, "i", RawBSONDocument(raw))  # type: ignore[arg-type]
        server = Held([inserted, *oplog], {"s.c": COLLECTION, "s.c_pitr": BACK})
        assert len([one async for one in carried_over(server, SPARE, ROW, Ts(10, 1), tmp_path / "seen")]) == (not oplog)  # type: ignore[arg-type]
        server.held["c_pitr"] = [] if oplog else [RawBSONDocument(raw)]
        assert [5] * named == [key for key, why in (await left(server)).items() if "compare it with s.c_before" in why]


async def test_what_was_carried_over_and_cannot_be_followed_stays(tmp_path: Path) -> None:
    raw = bson.encode({"_id": 1, "v": 1, "w": 1}).replace(b"w\0", b"v\0")
    staged = [entry(20, "i", RawBSONDocument(raw), **STAGED), entry(21, "u", diff(u={"v": 2}), 1, **STAGED)]  # type: ignore[arg-type]
    server = Held([*BEFORE[:2], *staged], {"s.c": BACK, "s.c_before": COLLECTION}, c=[{"_id": 1, "v": 3}])
    (tmp_path / "seen").write_text("10:1")
    assert await carried(server, tmp_path / "seen") == []
    assert "could not be written" in (await left(server, tmp_path / "seen"))[1]


STAGED = {"ns": "s.c_pitr", "ui": BACK}
CHANGED = back(40, "u", diff(u={"v": 5}), 1)


@pytest.mark.parametrize(
    ("later", "now", "wanted", "why"),
    [
        ([], {"_id": 1, "v": 1}, {"_id": 1, "v": 2}, "could not be written"),
        ([back(40, "i", {"_id": 1, "v": 1})], {"_id": 1, "v": 1}, {"_id": 1, "v": 2}, "could not be written"),
        ([entry(20, "i", {"_id": 1, "v": 2}, **STAGED)], {"_id": 1, "v": 2}, None, ""),
        ([entry(20, "i", {"_id": 1, "v": 2}, **STAGED | {"ui": COLLECTION})], {"_id": 1, "v": 1}, {"_id": 1, "v": 2},
         "could not be written"),
        ([entry(20, "u", diff(u={"v": 2}), 1, **STAGED)], {"_id": 1, "v": 2}, None, ""),
        ([back(40, "u", diff(u={"v": 2}), 1)], {"_id": 1, "v": 2}, None, ""),
        ([CHANGED], {"_id": 1, "v": 5}, None, "compare"),
        ([entry(20, "i", {"_id": 1, "v": 2}, **STAGED), CHANGED], {"_id": 1, "v": 5}, None, ""),
        ([entry(20, "u", diff(u={"v": 2}), 1, **STAGED), CHANGED], {"_id": 1, "v": 5}, None, ""),
        ([back(40, "d", {"_id": 1}), back(41, "i", {"_id": 1, "v": 7})], {"_id": 1, "v": 7}, None, "compare"),
        ([], {"_id": 1, "v": 77}, None, "could not be written"),
        ([], None, None, "could not be written"),
    ],
    ids=["older", "joined", "copied", "copied elsewhere", "updated", "repaired", "changed by others",
         "changed after it was copied", "changed after it was updated", "made again",
         "changed since it was read", "gone"],
)  # fmt: skip
async def test_after_the_names_changed_it_goes_into_the_collection(
    tmp_path: Path, later: list[Row], now: Row | None, wanted: Row | None, why: str
) -> None:
    seen = tmp_path / "seen"
    seen.write_text("10:1")
    server = Held([*BEFORE[:2], *later], {"s.c": BACK, "s.c_before": COLLECTION}, c=[now] if now else [])
    assert await carried(server, seen) == ([("s.c", wanted)] if wanted else [])
    assert seen.read_text() == "10:1", "up to where it was carried over before"
    said = await left(server, seen)
    assert (why in said.get(1, ""), bool(said)) == (True, bool(why))


async def test_what_others_deleted_meanwhile_is_named_while_it_is_there() -> None:
    server = Held(BEFORE[2:4], {"s.c": BACK, "s.c_before": COLLECTION}, c=[{"_id": 2}])
    assert "delete it again" in (await left(server))[2]
    server.held["c"] = []
    assert await left(server) == {}


@pytest.mark.parametrize(
    ("later", "why"),
    [
        ([back(40, "u", diff(u={"v": 3}), 2)], "before and after"),
        ([back(40, "u", {"_id": 2, "v": 3}, 2)], ""),
        ([back(40, "d", {"_id": 2}), back(41, "i", {"_id": 2, "v": 3})], ""),
        ([back(40, "i", {"_id": 2, "v": 3})], ""),
    ],
    ids=["changed", "replaced", "deleted and made again", "made again"],
)
async def test_what_others_deleted_meanwhile_and_wrote_again_holds_what_they_deleted(
    later: list[Row], why: str
) -> None:
    now = {"s.c": BACK, "s.c_before": COLLECTION}
    found = await left(Held([*BEFORE[2:4], *later], now, c=[{"_id": 2, "v": 3}]))
    assert (why in found.get(2, ""), bool(found)) == (True, bool(why))


@pytest.mark.parametrize(
    ("first", "why"), [(12, "from 12 to 30"), (30, "from 30 to 30"), (31, "")], ids=["below", "the last again", "above"]
)
async def test_a_counter_that_went_on_below_its_last_number_is_named(first: int, why: str) -> None:
    oplog = [
        entry(10, "u", diff(u={"seq": 29}), "a"),  # type: ignore[arg-type]
        entry(11, "u", diff(u={"seq": 30}), "a"),  # type: ignore[arg-type]
        back(40, "u", diff(u={"seq": first}), "a"),  # type: ignore[arg-type]
    ]
    row = [{"_id": "a", "seq": first}]
    server: Any = Held(
        [one | {"ns": "s.counters"} for one in oplog], {"s.counters": BACK, "s.c_before": COLLECTION}, counters=row
    )
    spare: Any = Held([], {}, counters=[{"_id": "a", "seq": 11}])
    returned = Return("s.counters", Strategy.REPLACE, "s.c_pitr", away="s.c_before")
    said = [text async for _, text in left_behind(server, spare, returned, Ts(10, 1), None)]
    assert [why in text for text in said] == ([True] if why else [])


@pytest.mark.parametrize(("last", "why"), [({"seq": 30}, "from 12 to 30"), (30, "")], ids=["its parent", "a number"])
async def test_the_last_number_of_a_counter_may_be_inside_a_value(last: Any, why: str) -> None:
    oplog = [
        entry(10, "u", diff(u={"auto": last}), "a"),  # type: ignore[arg-type]
        back(40, "u", diff(sauto={"u": {"seq": 12}}), "a"),  # type: ignore[arg-type]
    ]
    rows, row = [one | {"ns": "s.__schema__"} for one in oplog], {"_id": "a", "name": "shop", "auto": {"seq": 12}}
    server: Any = Held(rows, {"s.__schema__": BACK, "s.c_before": COLLECTION}, __schema__=[row])
    spare: Any = Held([], {}, __schema__=[row | {"auto": {"seq": 11}}])
    returned = Return("s.__schema__", Strategy.REPLACE, "s.c_pitr", away="s.c_before")
    said = [text async for _, text in left_behind(server, spare, returned, Ts(10, 1), None)]
    assert [why in text for text in said] == ([True] if why else [])


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        (None, "It could not be written: run the script again."),
        ({"expired": "t_1"}, "The TTL index t_1 would remove it again: raise its time first."),
        ({"refused": "too deep"}, "The server refuses it: too deep."),
        ({"index": "a_1", "by": 7}, "The index a_1 has its value for the live document 7."),
        (
            {"index": "a_1", "by": 7, "waits": True},
            "The index a_1 has its value for the live document 7, which is to be set back too, but is left out or "
            "waits for this one, as where two have each other's value: set both back manually.",
        ),
    ],
    ids=["not marked", "expired", "refused", "taken", "waits"],
)
async def test_the_account_says_why_what_others_wrote_is_not_there(tmp_path: Path, mark: Row | None, why: str) -> None:
    seen = seen_file(tmp_path, 1)
    seen.parent.mkdir(exist_ok=True)
    seen.write_text("10:1")
    marks = [{"_id": 1, "x": mark}] if mark else []
    live = {"s.c": BACK, "s.c_before": COLLECTION}
    server: Any = Held(BEFORE[:2], live, c=[{"_id": 4, "v": 0}], c_pitr_since=marks)
    made = changed(plan(step("true")), returns=(ROW,), limit=Ts(10, 1))
    (found,) = [one async for one in account(server, SPARE, made, None, tmp_path)]
    assert [(one.id, one.why) for one in found.damaged] == [('{"$numberInt": "1"}', why)]
    assert (found.restored, found.unclear, found.still_damaged) == (1, 0, 1)
    server.oplog.append(entry(20, "i", {"_id": 1, "v": 2}, **STAGED))
    server.held["c"].append({"_id": 1, "v": 2})
    (found,) = [one async for one in account(server, SPARE, made, None, tmp_path)]
    assert found.damaged == [], "it was carried over since the moment in the file"


@pytest.mark.parametrize("there", [True, False])
async def test_what_others_wrote_of_the_copy_is_counted_once(there: bool) -> None:
    """It is neither restored as well, nor missing as well."""
    live = {"s.c": BACK, "s.c_before": COLLECTION}
    oplog = [entry(15, "i", {"_id": 4, "v": 4}), *([] if there else [back(20, "d", {"_id": 4}, 4)])]
    server: Any = Held(oplog, live, c=[{"_id": 4, "v": 0}] * there)
    made = changed(plan(step("true")), returns=(ROW,), limit=Ts(10, 1))
    (found,) = [one async for one in account(server, SPARE, made, None)]
    assert (found.touched, found.restored, len(found.damaged)) == (1, 0, 1)
