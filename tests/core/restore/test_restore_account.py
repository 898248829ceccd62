"""One document after the return: what of the accident is still in it, by the oplog alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from operator import itemgetter
from typing import Any, cast
from uuid import UUID

import bson
import pytest
from bson import Binary, Decimal128, ObjectId
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument

from builders.history import Row, Server, diff, entry
from tallyglass.errors import PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.oplog.entry.changes import changes_of
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo import documents, judgement
from tallyglass.restore.undo.accident import UpdateEffect
from tallyglass.restore.undo.account import DocumentState as State
from tallyglass.restore.undo.account import DocumentTrace
from tallyglass.restore.undo.beside import _holds
from tallyglass.restore.undo.expiry import expiry_of
from tallyglass.restore.undo.judgement import Judgement, judge_documents

Step = tuple[str, str, dict[str, Any]]
COPY = {"_id": 1, "status": "ok", "name": "n", "balance": 5, "addr": {"zip": 7, "street": "s"}, "tags": [1, 2]}
BAD: Step = ("accident", "u", diff(u={"status": "BAD", "balance": 10}, d={"name": False}))
FIX: Step = ("repair", "u", diff(u={"status": "ok", "balance": 5}, i={"name": "n"}))
ZIP: Step = ("accident", "u", diff(u={"addr": {"zip": 0}}))
MADE: Step = ("accident", "u", diff(i={"m": {"k": 100}}))
ZERO: Step = ("accident", "u", diff(saddr={"u": {"zip": 0}}))
EXACT: Step = ("accident", "u", diff(u={"balance": Decimal128("1.5")}))
TEN: Step = ("accident", "u", diff(u={"balance": 10}))
UNSET: Step = ("accident", "u", diff(d={"name": False}))
BOTH_TEXTS: Step = ("accident", "u", diff(u={"status": "o2", "name": "b"}))
BACK: Step = ("repair", "u", diff(i={"name": "n"}))
GONE: Step = ("accident", "d", {"_id": 1})
AT, REF = DatetimeMS(978_307_200_007), ObjectId("5f0000000000000000000001")
DATED: Step = ("accident", "u", diff(i={"ends": AT}))


def after(*steps: Step, copy: dict[str, Any] | None = COPY) -> DocumentTrace:
    trace = DocumentTrace(None if copy is None else bson.encode(copy))
    for who, op, o in steps:
        getattr(trace, who)(op, bson.encode(o))
    return trace


def test_a_document_that_may_have_expired_by_the_accident_is_not_right_before_it_is_there_again() -> None:
    steps = bson.encode(BAD[2]), bson.encode({"_id": 1}), bson.encode(COPY)
    for field, state in (("status", State.EXPIRED), ("addr.zip", State.RIGHT)):
        trace = DocumentTrace(bson.encode(COPY), expiring={field})
        trace.accident("u", steps[0])
        trace.others("d", steps[1], may_be_expiry=True)
        assert trace.state is state
        trace.others("i", steps[2])
        assert trace.state is State.RIGHT


def others(**sections: Any) -> Step:
    return "others", "u", diff(**sections)


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([BAD], State.HOLDS),
        ([BAD, FIX], State.RIGHT),
        ([others(u={"balance": 6}), BAD, ("repair", "u", COPY | {"balance": 6})], State.RIGHT),
        ([BAD, others(u={"status": "ok", "balance": 5}, i={"name": "n"})], State.COMPUTED),
        ([BAD, ("others", "u", COPY | {"status": "BAD", "balance": "none"})], State.COMPUTED),
        ([GONE, ("others", "i", {"_id": 1, "n": 5})], State.REPLACED),
        ([BAD, FIX, BAD], State.HOLDS),
        ([BAD, ("accident", "u", diff(u={"status": "WORSE"})), FIX], State.RIGHT),
        ([BAD, ("others", "d", {"_id": 1})], State.RIGHT),
        ([BAD, others(u={"status": "theirs"}, i={"name": "m"})], State.COMPUTED),
        ([BAD, others(u={"status": True}, i={"name": "m"})], State.HOLDS),
        ([BAD, others(u={"balance": 15})], State.COMPUTED),
        ([("accident", "u", diff(u={"balance": None})), others(u={"balance": 15})], State.COMPUTED),
        ([("accident", "u", diff(u={"balance": "x"})), others(u={"balance": 15})], State.RIGHT),
        ([BAD, others(u={"balance": "closed", "status": "theirs"}, i={"name": "m"})], State.COMPUTED),
        ([BAD, others(u={"balance": False, "status": True}, i={"name": "m"})], State.RIGHT),
        ([BAD, others(u={"balance": 15}), FIX], State.UNCLEAR),
        ([BAD, FIX, others(u={"balance": 15})], State.RIGHT),
        ([BAD, others(u={"status": "was BAD", "balance": 5}, i={"name": "n"})], State.COMPUTED),
        ([BAD, others(i={"old": "BAD"}), FIX], State.COMPUTED),
        ([BAD, others(d={"status": False}, i={"state": "BAD"})], State.COMPUTED),
        ([BAD, ("others", "d", {"_id": 1}), ("others", "i", COPY | {"status": "BAD"})], State.COMPUTED),
        ([BAD, FIX, ("others", "u", COPY | {"status": "BAD"})], State.COMPUTED),
        ([GONE], State.MISSING),
        ([GONE, ("others", "i", COPY)], State.RIGHT),
        ([GONE, ("others", "i", {"_id": 1, "seq": 1})], State.REPLACED),
        ([GONE, ("others", "i", COPY | {"balance": 6}), TEN], State.REPLACED),
        ([GONE, ("others", "i", {"_id": 1, "seq": 1}), ("others", "d", {"_id": 1})], State.RIGHT),
        ([BAD, GONE, ("others", "i", COPY)], State.RIGHT),
        ([GONE, ("accident", "i", COPY | {"status": "BAD"})], State.HOLDS),
        ([("accident", "u", diff(d={"addr": False})), others(i={"addr": {"zip": 1}})], State.COMPUTED),
        ([ZIP, others(d={"addr": False})], State.RIGHT),
        ([ZIP, others(d={"addr": False}, i={"at": {"zip": 0}})], State.COMPUTED),
        ([("accident", "u", diff(u={"tags": []})), others(stags={"a": True, "u0": 9})], State.COMPUTED),
        ([others(smissing={"u": {"x": 1}})], State.UNCLEAR),
        ([GONE, ("others", "i", {"_id": 1, "s": "x"}), ("others", "d", {"_id": 1}), ("repair", "i", COPY)], State.LATE),
        ([UNSET, ("others", "d", {"_id": 1}), ("others", "i", {"_id": 1, "s": "x"}), BACK], State.HOLDS),
        ([UNSET, others(i={"name": "theirs"}), others(d={"name": False}), BACK], State.HOLDS),
        ([UNSET, BACK, others(d={"name": False}), BACK], State.HOLDS),
        ([UNSET, BACK, ("undone", *UNSET[1:]), BACK], State.RIGHT),
        ([BAD, ("undone", "d", {"_id": 1}), ("repair", "i", COPY | {"status": "BAD"})], State.HOLDS),
        ([BAD, ("undone", "d", {"_id": 1}), ("repair", "i", COPY)], State.RIGHT),
        ([GONE, ("others", "i", {"_id": 1, "s": "x"}), ("undone", "d", {"_id": 1}),
          ("repair", "i", {"_id": 1, "s": "x"})], State.UNCLEAR),
        ([BOTH_TEXTS, others(u={"name": "!o2"}), ("repair", "u", diff(u={"status": "ok"}))], State.COMPUTED),
        ([BOTH_TEXTS, others(u={"name": "!n2", "status": "x"})], State.RIGHT),
        ([BOTH_TEXTS, others(u={"name": "!o2", "status": "x"})], State.COMPUTED),
        ([MADE, others(i={"total": 500}), ("repair", "u", diff(d={"m": False}))], State.COMPUTED),
        ([MADE, others(i={"total": 7_777}), ("repair", "u", diff(d={"m": False}))], State.RIGHT),
        ([GONE, others(u={"balance": 6})], State.UNCLEAR),
        ([ZERO, ("accident", "u", diff(u={"addr": 5}))], State.UNCLEAR),
        ([ZIP, ("accident", "u", diff(u={"addr": 5})), ZIP, ZERO], State.UNCLEAR),
        ([ZERO, ("accident", "u", diff(saddr={"u": {"street": "t"}}))], State.HOLDS),
        ([EXACT, others(i={"total": Decimal128("1.5")}), ("repair", "u", diff(u={"balance": 5}))], State.COMPUTED),
        ([EXACT, others(i={"total": Decimal128("2.5")}), ("repair", "u", diff(u={"balance": 5}))], State.RIGHT),
        ([TEN, others(i={"total": 17}), ("repair", "u", diff(u={"balance": 5}))], State.COMPUTED),
        ([TEN, others(i={"total": 18}), ("repair", "u", diff(u={"balance": 5}))], State.RIGHT),
        *(
            ([TEN, others(i={"total": total}), ("repair", "u", diff(u={"balance": 5}))], State.COMPUTED)
            for total in (10, 11, 9, 20, 110, -10, 30, 5, 100, 1_000)
        ),
        *(
            ([others(i={"more": 37}), TEN, others(i={"total": total}), ("repair", "u", diff(u={"balance": 5}))], state)
            for total, state in ((47, State.COMPUTED), (-27, State.COMPUTED), (27, State.COMPUTED),
                                 (370, State.COMPUTED), (48, State.RIGHT), (28, State.RIGHT))
        ),
        ([UNSET, others(i={"note": "none"}), ("repair", "u", diff(i={"name": "n"}))], State.COMPUTED),
        ([UNSET, others(i={"note": "nonesuch"}), ("repair", "u", diff(i={"name": "n"}))], State.COMPUTED),
        ([UNSET, others(i={"note": 7}), ("repair", "u", diff(i={"name": "n"}))], State.RIGHT),
        ([("accident", "u", diff(d={"balance": False})), others(i={"total": 0}),
          ("repair", "u", diff(i={"balance": 5}))], State.COMPUTED),
        *(
            ([DATED, others(**{how: {field: DatetimeMS(978_307_200_007 + moved)}}), *fixed], state)
            for how, field, fixed in (("u", "ends", []), ("i", "due", [("repair", "u", diff(d={"ends": False}))]))
            for moved, state in ((30 * 86_400_000, State.COMPUTED), (-60_000, State.COMPUTED), (60_001, State.RIGHT))
        ),
        *(
            ([("accident", "u", diff(u={"name": bad})), others(i={"copy": bad}),
              ("repair", "u", diff(u={"name": "n"}))], state)
            for bad, state in ((AT, State.COMPUTED), (REF, State.COMPUTED), (Binary(b"x" * 16, 4), State.COMPUTED),
                               (True, State.RIGHT), (None, State.RIGHT), ([], State.RIGHT))
        ),
    ],
)  # fmt: skip
def test_what_is_left_of_the_accident(steps: list[Step], state: State) -> None:
    assert after(*steps).state is state


@pytest.mark.parametrize(
    ("steps", "copy", "theirs"),
    [
        ([BAD, ("others", "d", {"_id": 1})], COPY, True),
        ([BAD, FIX, ("others", "d", {"_id": 1})], COPY, False),
        ([GONE, ("others", "i", {"_id": 1, "n": 5}), ("others", "d", {"_id": 1})], COPY, True),
        ([GONE, ("others", "d", {"_id": 1})], COPY, False),
        ([("accident", "i", COPY), ("others", "d", {"_id": 1})], None, True),
        ([BAD, others(u={"status": True, "balance": False}, i={"name": "m"})], COPY, True),
        ([BAD, others(u={"balance": 11})], COPY, False),
    ],
)
def test_whether_others_wrote_over_what_the_accident_left(steps: list[Step], copy: Row | None, theirs: bool) -> None:
    assert after(*steps, copy=copy).theirs is theirs


def test_a_number_that_others_increased_to_what_the_accident_had_left_is_right() -> None:
    """``$inc`` twice, and the first undone: 5, 10, 15, and 10 again."""
    trace = DocumentTrace(bson.encode(COPY), increments={(b"balance",): 5})
    trace.accident("u", bson.encode(diff(u={"balance": 10})))
    trace.others("u", bson.encode(diff(u={"balance": 15})))
    assert trace.state is State.HOLDS
    trace.repair("u", bson.encode(diff(u={"balance": 10})))
    assert trace.state is State.RIGHT
    trace.others("u", bson.encode(diff(u={"status": "theirs"})))
    assert trace.state is State.RIGHT


@pytest.mark.parametrize(
    ("steps", "back"),
    [
        ([("repair", "u", diff(u={"balance": 6}))], False),
        ([BAD, ("repair", "u", diff(u={"other": 6}))], False),
        ([BAD, FIX], True),
        ([GONE, ("repair", "i", COPY)], True),
        ([GONE, ("repair", "i", COPY | {"balance": 6})], False),
        ([GONE, ("others", "i", COPY)], True),
    ],
)
def test_what_a_return_set_back_came_back_by_it(steps: list[Step], back: bool) -> None:
    assert after(*steps).brought_back is back


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (0, ""), (1, " Fields: a0."), (3, " Fields: a0, a1, a2."), (4, " Fields: a0, a1, a2 and 1 more."),
        (6, " Fields: a0, a1, a2 and 3 more."),
    ],
)  # fmt: skip
def test_some_fields_that_hold_what_the_accident_left_are_named(fields: int, said: str) -> None:
    trace = after(("accident", "u", diff(i={f"a{n}": n for n in range(fields)})))
    assert judgement._where(trace) == said


def test_a_removed_document_with_one_name_twice_comes_back_byte_for_byte() -> None:
    """No other bytes of it can be compared with what it was."""
    body = b"".join(bson.encode({name: value})[4:-1] for name, value in (("_id", 1), ("s", "a"), ("s", "b")))
    twice, other = ((len(one) + 5).to_bytes(4, "little") + one + b"\0" for one in (body, body + b"\x0an\0"))
    for came, state in ((twice, State.RIGHT), (other, State.TWICE)):
        trace = DocumentTrace(twice)
        trace.accident("d", b"")
        trace.repair("i", came)
        assert (trace.state, trace.brought_back) == (state, state is State.RIGHT)


def test_a_removed_document_that_others_inserted_as_it_was_came_back() -> None:
    assert after(GONE, ("others", "i", COPY)).brought_back
    assert not after(GONE, ("others", "i", {"_id": 1, "seq": 1})).brought_back


def test_an_insert_of_the_accidents_stays_and_is_named() -> None:
    assert after(("accident", "i", COPY), copy=None).state is State.INSERTED
    assert after(("accident", "i", COPY), BAD, copy=None).state is State.INSERTED
    assert after(BAD, copy=None).state is State.UNCLEAR
    assert after(("accident", "i", COPY), ("others", "d", {"_id": 1}), copy=None).state is State.RIGHT


SESSION = {"lsid": {"id": Binary.from_uuid(UUID(int=1))}, "txnNumber": 1, "stmtId": 0}
FIELDS = {"_id": 0, "s": "ok", "flag": False, "n": 0}


def judgements(
    source: Server, spare: Server, accident: Accident, *, ns: str = "s.c", began: Ts | None = None
) -> AsyncIterator[Judgement]:
    return judge_documents(cast("Gateway", source), cast("Gateway", spare), accident, ns, Ts(100, 1), began, None)


def update(second: int, id_: int, **more: Any) -> dict[str, Any]:
    return entry(second, "u", diff(u=more), id_)


@pytest.mark.parametrize(
    ("value", "second", "states"),
    [
        ("BAD", 106, {State.HOLDS, State.SAME}),
        ("BAD", 100, {State.HOLDS, State.SAME}),
        ("BAD", 164, {State.HOLDS, State.SAME}),
        ("BAD", 165, {State.HOLDS}),
        ("other", 106, {State.HOLDS}),
        ("BAD", 200, {State.HOLDS}),
    ],
)
async def test_an_update_beside_the_accident_that_set_the_same_is_listed_while_its_value_is_live(
    value: str, second: int, states: set[State]
) -> None:
    oplog = [
        entry(50, "n", {}, ns=""),
        *(update(second, n, s="BAD", flag=True) for n, second in enumerate(range(101, 105))),
        update(second, 9, s=value),
    ]
    oplog.sort(key=itemgetter("ts"))
    live = [FIELDS | {"_id": n, "s": "BAD", "flag": True} for n in range(4)] + [FIELDS | {"_id": 9, "s": value}]
    spare = Server([], *(FIELDS | {"_id": n} for n in range(10)))
    source = Server(oplog, *live)
    effect = UpdateEffect(changes_of(bson.encode(diff(u={"s": "BAD", "flag": True})))).stored()
    accident = Accident("updates", "s.c", Ts(101, 1), Ts(104, 1), updates=True, effect=effect, entries=4)
    found = judgements(source, spare, accident, began=Ts(300, 1))
    assert {one.state async for one in found} == states


@pytest.mark.parametrize(
    ("inserts", "listed"),
    [
        ([(103, 103, {})], {50}),
        ([(103, 103, SESSION)], set()),
        ([(105, 304, {})], {50}),
        ([(105, 305, {})], set()),
        ([(105, 304, {}), (106, 504, {}), (107, 705, {}), (108, 706, {})], {50, 51}),
        ([(99, -99, {})], {50}),
        ([(99, -100, {})], set()),
        ([(98, -299, {}), (99, -99, {})], {50, 51}),
        ([(98, -300, {}), (99, -99, {})], {51}),
        ([(99, 99, SESSION)], set()),
        ([(41, 99, {})], {50}),
        ([(40, 99, {})], set()),
    ],
)
async def test_an_insert_beside_the_accidents_updates_is_listed(
    inserts: list[tuple[int, int, dict[str, Any]]], listed: set[int]
) -> None:
    """``$merge`` inserts before, between and after its updates, without a pause of more than 200 ms."""
    oplog = [
        *(update(101 + at, n, s="BAD") for n, at in enumerate((0, 1, 3))),
        *(
            entry(second, "i", {"_id": 50 + n, "s": "new"}, wall=DatetimeMS(wall), **more)
            for n, (second, wall, more) in enumerate(inserts)
        ),
        entry(30, "n", {}, ns=""),
    ]
    live = [*(FIELDS | {"_id": n, "s": "BAD"} for n in range(3)), *({"_id": 50 + n} for n in range(len(inserts) - 1))]
    spare, source = (
        Server([], *(FIELDS | {"_id": n} for n in range(3))),
        Server(sorted(oplog, key=itemgetter("ts")), *live, {"_id": 49 + len(inserts), "s": "new"}),
    )
    effect = UpdateEffect(changes_of(bson.encode(diff(u={"s": "BAD"})))).stored()
    accident = Accident("updates", "s.c", Ts(101, 1), Ts(104, 1), updates=True, effect=effect, entries=3)
    found = judgements(source, spare, accident, began=Ts(300, 1))
    assert {one.key[1] async for one in found if one.state is State.BESIDE} == listed


@pytest.mark.parametrize("value", [7, None])
@pytest.mark.parametrize(
    ("alike", "of", "states"), [(1, 4, set()), (2, 4, {State.SAME}), (3, 30, {State.SAME}), (2, 30, set())]
)
async def test_a_value_that_some_of_the_accidents_updates_left_alike_is_looked_for(
    value: Any, alike: int, of: int, states: set[State]
) -> None:
    """A tenth of them, and two at least: others may set any value by chance."""
    numbers = [value if n < alike else 100 + n for n in range(of)]
    oplog = [entry(100, "n", {}, ns=""), *(update(101 + n, n, n=left) for n, left in enumerate(numbers))]
    oplog.append(update(150 + of, 99, n=value))
    live = [*(FIELDS | {"_id": n, "n": left} for n, left in enumerate(numbers)), FIELDS | {"_id": 99, "n": value}]
    source, spare = Server(oplog, *live), Server([], *(FIELDS | {"_id": n} for n in (*range(of), 99)))
    effect = UpdateEffect({}, frozenset({(b"n",)})).stored()
    accident = Accident(
        "updates", "s.c", Ts(101, 1), Ts(100 + of, 1), updates=True, effect=effect, entries=of, proven=True
    )  # fmt: skip
    found = judgements(source, spare, accident, began=Ts(300, 1))
    assert {one.state async for one in found if one.key[1] == 99} == states


async def test_an_insert_beside_deletes_of_another_collection_is_none_of_the_accidents() -> None:
    """What is undone from a point on are all deletes, and the updates of one collection."""
    oplog = [entry(100, "n", {}, ns=""), entry(100, "i", {"_id": 50}, ns="s.d"), entry(101, "d", {"_id": 1}, ns="s.d")]
    oplog += [entry(102, "i", {"_id": 51}, ns="s.d"), entry(103, "d", {"_id": 2}, ns="s.d")]
    source, spare = Server(oplog, {"_id": 50}, {"_id": 51}), Server([], {"_id": 1}, {"_id": 2})
    effect = UpdateEffect(changes_of(bson.encode(diff(u={"s": "BAD"})))).stored()
    accident = Accident("everything", "s.c", Ts(101, 1), Ts(104, 1), updates=True, effect=effect)
    found = judgements(source, spare, accident, ns="s.d", began=Ts(300, 1))
    assert [one.state async for one in found] == [State.MISSING] * 2


def test_a_document_with_one_field_name_twice_may_hold_any_value() -> None:
    twice = bson.encode({"a": 1, "b": 2}).replace(b"b\0", b"a\0")
    assert [_holds(raw, ((b"a",), (16, b"\1\0\0\0"))) for raw in (twice, bson.encode({"a": 2}))] == [True, False]


@pytest.mark.parametrize(
    ("later", "began", "judged"),
    [
        (update(120, 0, s=5), 110, (State.RIGHT, False, True)),
        (update(120, 0, s=5), 130, (State.RIGHT, False, True)),
        (update(120, 0, n=5), 110, (State.HOLDS, False, False)),
        (entry(120, "d", {"_id": 0}), 110, (State.RIGHT, False, True)),
    ],
    ids=["written over", "before it began", "another field", "deleted"],
)
async def test_what_others_made_right_was_not_restored(
    later: Row, began: int, judged: tuple[State, bool, bool]
) -> None:
    effect = UpdateEffect(changes_of(bson.encode(diff(u={"s": "BAD"})))).stored()
    accident = Accident("updates", "s.c", Ts(102, 1), Ts(102, 1), updates=True, effect=effect, entries=1)
    live = [] if later["op"] == "d" else [FIELDS | {"_id": 0, "s": "BAD"} | later["o"]["diff"]["u"]]
    oplog = [entry(100, "n", {}, ns=""), update(102, 0, s="BAD"), later | SESSION]
    rows = judgements(Server(oplog, *live), Server([], FIELDS), accident, began=Ts(began, 1))
    assert [(one.state, one.restored, one.theirs) async for one in rows] == [judged]


class Counting(Server):
    """Notes how many documents each query asks for."""

    asked: tuple[int, ...] = ()

    async def find_raw(self, ns: Namespace, query: Any, **how: Any) -> AsyncIterator[bytes]:
        if isinstance(query, RawBSONDocument):
            self.asked += (len(query["_id"]["$in"]),)
        async for batch in super().find_raw(ns, query, **how):
            yield batch


@pytest.mark.parametrize(("count", "asked"), [(3, (3,)), (4, (3, 1)), (6, (3, 3))])
async def test_live_documents_are_asked_for_many_at_once(
    monkeypatch: pytest.MonkeyPatch, count: int, asked: tuple[int, ...]
) -> None:
    monkeypatch.setattr(judgement, "AT_ONCE", 3)
    source = Counting([entry(100, "n", {}, ns=""), *(entry(101 + n, "d", {"_id": n}) for n in range(count))])
    spare, accident = (
        Server([], *({"_id": n} for n in range(count))),
        Accident("deletes", "s.c", Ts(101, 1), Ts(200, 1)),
    )
    found = judgements(source, spare, accident)
    assert [(one.key[1], one.state) async for one in found] == [(n, State.MISSING) for n in range(count)]
    assert source.asked == asked


@pytest.mark.parametrize(("room", "asked"), [(28, (3,)), (27, (2, 1)), (1, (1, 1, 1))])
async def test_large_live_documents_are_asked_for_in_smaller_groups(
    monkeypatch: pytest.MonkeyPatch, room: int, asked: tuple[int, ...]
) -> None:
    """Each of these has 14 bytes: the group ends with the one that passes the limit."""
    monkeypatch.setattr(judgement, "HELD_BYTES", room)
    source = Counting([entry(100, "n", {}, ns=""), *(entry(101 + n, "d", {"_id": n}) for n in range(3))])
    spare = Server([], *({"_id": n} for n in range(3)))
    accident = Accident("deletes", "s.c", Ts(101, 1), Ts(200, 1))
    found = judgements(source, spare, accident)
    assert len([one async for one in found]) == 3
    assert source.asked == asked


async def test_one_batch_of_large_documents_is_held_at_a_time() -> None:
    rows = [{"_id": n} for n in (1, 2, 3)]
    read = list[int]()

    class Slow(Server):
        async def find_raw(self, ns: Namespace, query: Any, **how: Any) -> AsyncIterator[bytes]:
            for row in rows[::2]:
                read.append(row["_id"])
                yield bson.encode(row)

    keys = {id_key(bson.encode(row)): row["_id"] for row in rows}
    found = documents.with_documents(cast("Gateway", Slow([])), "s.c", keys.items())
    seen = [(len(read), document and bson.decode(document)["_id"], item) async for _, document, item in found]
    assert seen == [(1, 1, 1), (2, 3, 3), (2, None, 2)]


@pytest.mark.parametrize(("room", "asked"), [(30, (3,)), (29, (2, 1)), (20, (2, 1)), (19, (1, 1, 1)), (1, (1, 1, 1))])
async def test_ids_that_fill_a_query_are_asked_for_in_several(
    monkeypatch: pytest.MonkeyPatch, room: int, asked: tuple[int, ...]
) -> None:
    """Each of these takes 10 bytes."""
    monkeypatch.setattr(documents, "_QUERY_BYTES", room)
    rows = [{"_id": f"{n}234"} for n in range(3)]
    source, keys = Counting([], *rows), [id_key(bson.encode(row)) for row in rows]
    found = await documents.documents_by_id(cast("Gateway", source), "s.c", keys)
    assert (list(found), source.asked, {len(key) for key in keys}) == (keys, asked, {10})
    assert await documents.documents_by_id(cast("Gateway", source), "s.c", []) == {}
    assert source.asked == asked


TTL = {"v": 2, "key": {"s": 1}, "name": "s_1", "expireAfterSeconds": 0}
FILTERED = TTL | {"key": {"exp": 1}, "partialFilterExpression": {"$and": [{"s": "BAD"}]}}
DROPPED = entry(106, "c", {"dropIndexes": "c", "index": "s_1"}, ns="s.$cmd", o2=TTL)
DELETED = entry(104, "d", {"_id": 0})
REMOVED = entry(104, "c", {"drop": "c"}, ns="s.$cmd")
BUILT = entry(101, "c", {"createIndexes": "c", **TTL}, ns="s.$cmd")


@pytest.mark.parametrize(
    ("indexes", "command", "removal", "state"),
    [
        ([TTL], None, DELETED, State.EXPIRED),
        ([FILTERED], None, DELETED, State.EXPIRED),
        ([TTL], None, DELETED | SESSION, State.RIGHT),
        ([], DROPPED, DELETED, State.EXPIRED),
        ([], BUILT, DELETED, State.EXPIRED),
        ([], None, DELETED, State.RIGHT),
        ([TTL], None, REMOVED, State.RIGHT),
    ],
)
async def test_a_delete_without_a_session_by_a_field_of_a_ttl_index_is_no_decision_of_others(
    indexes: list[Row], command: Row | None, removal: Row, state: State
) -> None:
    oplog = [
        entry(100, "n", {}, ns=""),
        update(102, 0, s="BAD"),
        removal,
        *([command] if command else []),
    ]
    source, spare = Server(sorted(oplog, key=itemgetter("ts"))), Server([], FIELDS | {"_id": 0})
    source.indexes = indexes
    effect = UpdateEffect(changes_of(bson.encode(diff(u={"s": "BAD"})))).stored()
    accident = Accident("updates", "s.c", Ts(102, 1), Ts(102, 1), updates=True, effect=effect, entries=1)
    found = judgements(source, spare, accident)
    assert [one.state async for one in found] == [state]


async def test_what_is_live_must_be_what_the_oplog_says() -> None:
    oplog = [entry(100, "n", {}, ns=""), entry(101, "d", {"_id": 1}), entry(102, "d", {"_id": 2})]
    spare = Server([], {"_id": 1}, {"_id": 2})
    source = Server(oplog, {"_id": 2, "from": "nowhere"})
    accident = Accident("deletes", "s.c", Ts(101, 1), Ts(102, 1))
    rows = judgements(source, spare, accident)
    assert {one.key: one.state async for one in rows} == {
        b"\x10\x01\0\0\0": State.MISSING, b"\x10\x02\0\0\0": State.DIFFERS,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("live", "state"),
    [
        ({"s": "ok", "n": 2}, State.RIGHT),
        ({"s": "new", "n": 1}, State.RIGHT),
        ({"s": "BAD", "n": 1}, State.RIGHT),
        ({"s": "new", "n": 2}, State.DIFFERS),
        (None, State.DIFFERS),
    ],
    ids=["as the oplog ends", "as it began", "as it was between", "as it never was", "gone"],
)
async def test_a_live_document_that_was_read_earlier_or_later_is_a_state_through_which_it_went(
    live: Row | None, state: State
) -> None:
    oplog = [entry(100, "n", {}, ns=""), update(101, 0, s="BAD"), update(102, 0, s="ok"), update(103, 0, n=2)]
    source = Server(oplog, *([{"_id": 0} | live] if live else []))
    spare = Server([], {"_id": 0, "s": "new", "n": 1})
    effect = UpdateEffect(changes_of(bson.encode(diff(u={"s": "BAD"})))).stored()
    accident = Accident("updates", "s.c", Ts(101, 1), Ts(101, 1), updates=True, effect=effect, entries=1)
    found = judgements(source, spare, accident)
    assert [one.state async for one in found] == [state]


async def test_what_a_rename_brought_back_is_compared_with_what_was_removed() -> None:
    """No entry of the collection tells of it: its documents were inserted under another name."""
    oplog = [
        entry(100, "n", {}, ns=""), update(101, 1, v=2), update(101, 2, v=2),
        entry(102, "d", {"_id": 1}), entry(102, "d", {"_id": 2}),
    ]  # fmt: skip
    source = Server(oplog, {"_id": 1, "v": 2}, {"_id": 2, "v": 1})
    accident = Accident("deletes", "s.c", Ts(102, 1), Ts(102, 1))
    spare = Server([], {"_id": 1, "v": 1}, {"_id": 2, "v": 1})
    rows = judgements(source, spare, accident)
    assert {one.key: (one.state, one.restored) async for one in rows} == {
        b"\x10\x01\0\0\0": (State.RIGHT, False), b"\x10\x02\0\0\0": (State.DIFFERS, False),
    }  # fmt: skip


async def test_what_went_with_its_collection_is_not_right_where_another_one_was_renamed_to_it() -> None:
    """As a return of a later drop does: it brings the collection back as it was then, without these documents."""
    deleted = [entry(100, "n", {}, ns=""), entry(101, "d", {"_id": 1}), entry(101, "d", {"_id": 2})]
    dropped = entry(102, "c", {"drop": "c"}, ns="s.$cmd")
    new = {"ui": Binary.from_uuid(UUID(int=7))}
    renamed = entry(103, "c", {"renameCollection": "s.c_pitr_1", "to": "s.c"}, ns="s.$cmd", **new)
    again = entry(104, "d", {"_id": 2}, **new)
    accident = Accident("deletes", "s.c", Ts(101, 1), Ts(101, 1))
    for later, states in (
        ([dropped], [State.RIGHT, State.RIGHT]),
        ([dropped, renamed], [State.RENAMED, State.RENAMED]),
        ([dropped, renamed, again], [State.RENAMED, State.RIGHT]),
    ):
        source, spare = Server([*deleted, *later]), Server([], {"_id": 1}, {"_id": 2})
        rows = judgements(source, spare, accident)
        assert [one.state async for one in rows] == states


class Indexed(Server):
    """A server that lists these indexes, or whose user may not list them."""

    def __init__(self, *indexes: Row, denied: bool = False) -> None:
        super().__init__([])
        self.indexes, self.denied = list(indexes), denied

    async def list_indexes(self, ns: Namespace) -> list[Row]:
        if self.denied:
            raise PrivilegeError("Denied.")
        return await super().list_indexes(ns)


@pytest.mark.parametrize(
    ("kind", "updates", "denied", "found"),
    [
        ("updates", True, False, {"s.c": {"exp", "s"}}),
        ("transaction", False, False, {"s.c": {"exp", "s"}}),
        ("deletes", False, False, {}),
        ("updates", True, True, {"s.c": None}),
    ],
)
async def test_the_fields_of_ttl_indexes_are_read_where_the_accident_may_have_changed_them(
    kind: str, updates: bool, denied: bool, found: dict[str, set[str] | None]
) -> None:
    accident = Accident(kind, "s.c", Ts(102, 1), Ts(102, 1), updates=updates)
    gateway = cast("Gateway", Indexed(FILTERED, {"v": 2, "key": {"n": 1}, "name": "n_1"}, denied=denied))
    assert await expiry_of(gateway, accident, ["s.c"]) == found
