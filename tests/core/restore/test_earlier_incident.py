"""An incident that was undone before another one: what a later undo brings back may be what the first one left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import bson
import pytest
from bson import Binary, Int64
from bson.raw_bson import RawBSONDocument

from builders.history import Row, Server, diff, entry
from tallyglass.errors import InputError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.changes import changes_of, parse
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.undo.accident import UpdateEffect
from tallyglass.restore.undo.account import DocumentState as State
from tallyglass.restore.undo.counterfactual import repair
from tallyglass.restore.undo.earlier_returns import (
    EarlierChange,
    comes_back,
    is_written_from,
    undone_by,
    with_accident,
    writes_all,
)
from tallyglass.restore.undo.history import OTHERS, OWN, HistoryStep
from tallyglass.restore.undo.judgement import judge_documents

COPY = {"_id": 0, "s": "BAD", "t": 1}
BEGUN = diff(i={"b": 1})
SESSION: Row = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1), "stmtId": 0}
FIRST = Accident(
    "updates", "s.c", Ts(101, 1), Ts(102, 1), updates=True, entries=2,
    effect=UpdateEffect(changes_of(bson.encode(diff(u={"s": "BAD"})))).stored(),
)  # fmt: skip


def loaded(id_: int, actual: Row | None, wanted: Row, undone: int, accident: Accident | None = None) -> Row:
    made = repair(
        (0x10, id_.to_bytes(4, "little")), actual and bson.encode(actual), bson.encode(wanted), [Ts(undone, 1)]
    )
    assert made is not None
    return bson.decode(with_accident(made, accident) if accident else made)


def returned(begin: int, name: str, made: Row, write: Row) -> list[Row]:
    """A return that wrote one repair."""
    return [
        entry(begin, "c", {"create": name}, ns="s.$cmd"),
        entry(begin + 1, "i", made, ns=f"s.{name}"),
        entry(begin + 2, "u", BEGUN, made["_id"], ns=f"s.{name}"),
        write | {"ts": bson.Timestamp(begin + 3, 1)},
    ]


async def judged(
    oplog: list[Row], second: Accident, live: Row, copy: Row = COPY, first: Accident = FIRST, at: int = 110
) -> State:
    """What the document 0 is after the return of ``second``, which brought it back; ``first`` was undone before."""
    undone = returned(at, "c_pitr_1", loaded(1, {"_id": 1, "s": "BAD"}, {"_id": 1, "s": "ok"}, 102, first),
                      entry(0, "u", diff(u={"s": "ok"}), 1))  # fmt: skip
    source = Server(sorted([*oplog, *undone], key=lambda row: row["ts"]), live)
    rows = judge_documents(
        cast("Gateway", source), cast("Gateway", Server([], copy)), second, "s.c", Ts(105, 1), Ts(119, 1), None
    )  # fmt: skip
    (found,) = [one async for one in rows if one.key[1] == 0]
    return found.state


DELETES = Accident("deletes", "s.c", Ts(105, 1), Ts(105, 1), entries=1)
DELETED = [
    entry(100, "n", {}, ns=""),
    entry(101, "u", diff(u={"s": "BAD"}), 0),
    entry(102, "u", diff(u={"s": "BAD"}), 1),
    entry(105, "d", {"_id": 0}),
    *returned(120, "c_pitr_2", loaded(0, None, COPY, 105), entry(0, "i", COPY)),
]


@pytest.mark.parametrize(
    ("oplog", "first", "at", "state"),
    [
        (DELETED, FIRST, 110, State.EARLIER),
        ([DELETED[0], DELETED[2], *DELETED[3:]], FIRST, 110, State.RIGHT),
        ([*DELETED[:1], entry(101, "u", diff(u={"t": 1}), 0), *DELETED[2:]], FIRST, 110, State.RIGHT),
        ([*DELETED[:1], entry(101, "d", {"_id": 0}), *DELETED[2:]], FIRST, 110, State.RIGHT),
        ([*DELETED[:1], entry(101, "d", {"_id": 0}), *DELETED[2:]], replace(FIRST, kind="everything"), 110,
         State.EARLIER),
        (DELETED, replace(FIRST, first=Ts(102, 1)), 110, State.RIGHT),
        (DELETED, FIRST, 117, State.EARLIER),
        (DELETED, FIRST, 118, State.RIGHT),
        ([*DELETED[:4], entry(106, "i", COPY)], FIRST, 110, State.RIGHT),
        ([*DELETED[:1], DELETED[1] | SESSION, *DELETED[2:]], FIRST, 110, State.RIGHT),
        ([*DELETED[:1], entry(101, "i", COPY), *DELETED[2:]], FIRST, 110, State.RIGHT),
    ],
    ids=["left", "another document", "another field", "others deleted", "it deleted", "others updated", "just before",
         "undone later", "inserted again before", "another client", "others inserted"],
)  # fmt: skip
async def test_what_came_back_may_be_what_an_incident_left_that_is_undone(
    oplog: list[Row], first: Accident, at: int, state: State
) -> None:
    assert await judged(oplog, DELETES, COPY, first=first, at=at) is state


@pytest.mark.parametrize(("field", "state"), [("s", State.EARLIER), ("t", State.RIGHT)])
async def test_a_field_that_came_back_may_be_what_an_incident_left_that_is_undone(field: str, state: State) -> None:
    effect = UpdateEffect(changes_of(bson.encode(diff(u={field: "X"})))).stored()
    second = Accident("updates", "s.c", Ts(105, 1), Ts(105, 1), updates=True, entries=1, effect=effect)
    made = loaded(0, COPY | {field: "X"}, COPY, 105)
    oplog = [
        *DELETED[:3],
        entry(105, "u", diff(u={field: "X"}), 0),
        *returned(120, "c_pitr_2", made, entry(0, "u", diff(u={field: COPY[field]}), 0)),
    ]
    assert await judged(oplog, second, COPY) is state


async def test_what_the_oplog_no_longer_holds_of_an_earlier_incident_cannot_be_compared() -> None:
    with pytest.raises(ReadError, match="what was undone earlier"):
        await judged([entry(102, "n", {}, ns=""), *DELETED[3:]], DELETES, COPY)
    assert await judged([entry(101, "n", {}, ns=""), *DELETED[3:]], DELETES, COPY) is State.RIGHT


async def test_an_earlier_return_that_only_a_kept_history_knows_of_cannot_be_compared(tmp_path: Path) -> None:
    """The oplog rolled over between two steps of the return."""
    undone = returned(110, "c_pitr_1", loaded(1, {"_id": 1, "s": "BAD"}, {"_id": 1, "s": "ok"}, 102, FIRST),
                      entry(0, "u", diff(u={"s": "ok"}), 1))  # fmt: skip
    source, spare = [cast("Gateway", Server([*DELETED[:4], *undone, *DELETED[4:]], COPY)) for _ in range(2)]
    about = (DELETES, "s.c", Ts(105, 1), Ts(119, 1), tmp_path / "1.sqlite")
    assert [one.state async for one in judge_documents(source, spare, *about)] == [State.EARLIER]
    cast("Server", source).oplog = DELETED[4:]
    with pytest.raises(ReadError, match="what was undone earlier"):
        [one async for one in judge_documents(source, spare, *about)]


@pytest.mark.parametrize(
    ("ts", "undone", "owner", "op", "paths", "back"),
    [
        (104, 106, OWN, "d", [(b"s",)], True),
        (105, 106, OWN, "d", [(b"s",)], False),
        (104, 105, OWN, "d", [(b"s",)], False),
        (104, 106, OTHERS, "d", [(b"s",)], False),
        (104, 106, OWN, "u", [(b"s",)], True),
        (104, 106, OWN, "u", [(b"x",), (b"s", b"k")], True),
        (104, 106, OWN, "u", [(b"x",)], False),
        (104, 106, OWN, "u", [], True),
    ],
)
def test_an_undo_brings_back_what_was_left_before_and_undone_after(
    ts: int, undone: int, owner: int, op: str, paths: list[tuple[bytes, ...]], back: bool
) -> None:
    o = b"" if op == "d" else bson.encode(diff(u={"s": 1}))
    steps = [HistoryStep(1, OTHERS, "d", b"", Ts(100, 1)), HistoryStep(2, owner, op, o, Ts(105, 1))]
    assert comes_back([EarlierChange(Ts(ts, 1), Ts(undone, 1), frozenset(paths))], steps) is back
    assert not comes_back([], steps)


ACTUAL, WANTED = {"_id": 0, "s": "BAD", "m": 1, "n": 5}, {"_id": 0, "s": "ok", "n": 5, "m": {"x": 1}, "z": 2}


@pytest.mark.parametrize(
    ("op", "o", "left", "all_of_it"),
    [
        ("u", diff(u={"s": "ok", "m": {"x": 1}}, i={"z": 2}), True, True),
        ("u", diff(u={"s": "ok"}), True, False),
        ("u", diff(u={"s": "ok", "n": 5}), True, False),
        ("u", diff(u={"s": "ok", "n": 6}), False, None),
        ("u", diff(u={"n": 5}), False, None),
        ("u", diff(u={"s": "other"}), False, None),
        ("u", diff(d={"s": False}), False, None),
        ("u", diff(sm={"u": {"x": 1}}, u={"s": "ok"}), True, False),
        ("u", diff(sm={"u": {"x": 2}}, u={"s": "ok"}), False, None),
        ("u", WANTED, True, True),
        ("u", WANTED | {"n": 6}, True, True),
        ("u", WANTED | {"s": "other"}, False, None),
        ("i", WANTED, False, None),
        ("d", {}, False, None),
    ],
)
def test_what_a_repair_leaves_is_known_by_its_operation(op: str, o: Row, left: bool, all_of_it: bool | None) -> None:
    """Some of its fields may have been right by then; fields behind those may move."""
    made = parse(bson.encode(loaded(0, ACTUAL, WANTED, 105)))
    assert is_written_from(made, op, bson.encode(o)) is left
    assert all_of_it is None or writes_all(made, op, bson.encode(o)) is all_of_it


def test_no_repair_writes_one_field_name_twice() -> None:
    made = parse(bson.encode(loaded(0, ACTUAL, WANTED, 105)))
    assert is_written_from(made, "u", bson.encode(WANTED | {"y": 1}))
    assert not is_written_from(made, "u", bson.encode(WANTED | {"y": 1}).replace(b"\x10y\0", b"\x10n\0"))


def test_what_a_repair_inserts_is_the_whole_document() -> None:
    made = bson.encode(loaded(0, None, WANTED, 105))
    fields: Any = parse(made)
    assert is_written_from(fields, "i", bson.encode(WANTED))
    assert writes_all(fields, "i", bson.encode(WANTED))
    assert not is_written_from(fields, "i", bson.encode(WANTED | {"n": 6}))
    assert not is_written_from(fields, "u", bson.encode(WANTED))
    assert undone_by(made) == [Ts(105, 1)]
    assert undone_by(bson.encode(WANTED)) == []


TWICE = RawBSONDocument(bson.encode({"_id": 7, "a": "x", "b": "x"}).replace(b"\x02b\0", b"\x02a\0"))


@pytest.mark.parametrize(
    "held",
    [
        {"_id": 7, "a": 5},
        {"_id": 7, "a": "x"},
        {"_id": 7, "a": {"b": "x"}, "r": "x"},
        {"_id": 7, "a": Binary(b"\x02a\0" + b"\xff" * 9), "r": {}},
        {"_id": 7, "a": "x", "r": ["x"]},
        {"_id": 7, "a": "x", "r": {}},
        TWICE,
    ],
    ids=["number", "text", "document", "bytes", "array", "both", "twice"],
)
async def test_a_copy_in_a_staging_collection_is_no_earlier_return(held: Any) -> None:
    """Its documents may have any fields: those of a restore under another name, for one."""
    copied = [
        entry(106, "c", {"create": "c_pitr_0"}, ns="s.$cmd"),
        entry(107, "i", held, ns="s.c_pitr_0"),
        entry(108, "u", BEGUN, 7, ns="s.c_pitr_0"),
    ]
    assert await judged([*DELETED[:4], *copied, *DELETED[4:]], DELETES, COPY) is State.EARLIER


async def test_what_another_version_undid_is_not_taken_for_nothing() -> None:
    made = loaded(1, {"_id": 1, "s": "BAD"}, {"_id": 1, "s": "ok"}, 102) | {"a": "{}"}
    undone = [
        entry(106, "c", {"create": "c_pitr_0"}, ns="s.$cmd"),
        entry(107, "i", made, ns="s.c_pitr_0"),
    ]
    with pytest.raises(InputError, match="cannot be read"):
        await judged([*DELETED[:4], *undone, *DELETED[4:]], DELETES, COPY)
