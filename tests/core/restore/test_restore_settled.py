"""The second run of a return: what the first one wrote, and nobody has written since, is not worked out again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import bson
import pytest
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument

from builders.history import Row, Server, entry
from builders.plans import make_plan
from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.model.source import FromImages
from tallyglass.restore.model.undo import Accident, FieldChange, Return, Strategy
from tallyglass.restore.undo import counterfactual
from tallyglass.restore.undo.counterfactual import Verdict
from tallyglass.restore.undo.recovery import Repairs, repairs

_ROW = Return("s.c", Strategy.MERGE, "s.c_pitr_T")
_DOCUMENTS = tuple({"_id": n, "a": 0, "b": 0, "n": 0} for n in range(3))
_BAD = {"$v": 2, "diff": {"u": {"a": 7, "b": 7}}}
_BACK = {"$v": 2, "diff": {"u": {"a": 0, "b": 0}}}
_SET = tuple(FieldChange((name.hex(),), "1007000000") for name in (b"a", b"b"))
_UPDATES = Accident("updates", "s.c", Ts(101, 1), Ts(103, 1), updates=True, effect=_SET, entries=3)
_DELETES = Accident("deletes", "s.c", Ts(101, 1), Ts(103, 1))


class Copy(Server):
    """The documents as they were; ``asked`` are the ``_id``s that were asked for."""

    def __init__(self) -> None:
        super().__init__([], *_DOCUMENTS)
        self.asked: list[int] = []

    async def find_raw(self, ns: Namespace, query: Any, **_: Any) -> AsyncIterator[bytes]:
        assert isinstance(query, RawBSONDocument)
        self.asked += (ids := bson.decode(query.raw)["_id"]["$in"])
        yield b"".join(bson.encode(row) for row in self.documents if row["_id"] in ids)


class Live(Server):
    """A server whose collections have no options."""

    async def list_collections(self, _: str) -> list[CollectionInfo]:
        return []


async def run(oplog: list[Row], accident: Accident, kept: Path | None) -> tuple[list[Row], list[int], Counter[Verdict]]:
    """One run: the repairs, which documents were worked out for it, and what was found."""
    plan = make_plan(Ts(101, 1), FromImages(), datetime.now(UTC), accident=accident, returns=(_ROW,))
    copy, counts = Copy(), Repairs("s.c")
    source = cast("Gateway", Live(oplog))
    made = [bson.decode(raw) async for raw in repairs(source, cast("Gateway", copy), plan, _ROW, counts, kept)]
    return made, sorted(set(copy.asked)), counts.verdicts


def written(made: list[Row], accident: Accident) -> list[Row]:
    """The oplog with the accident and the return that wrote these repairs."""
    deletes = accident is _DELETES
    oplog = [entry(100, "n", {}, ns="")]
    oplog += [entry(101 + n, "d", {"_id": n}) if deletes else entry(101 + n, "u", _BAD, n) for n in range(3)]
    if made:
        oplog.append(entry(111, "c", {"create": "c_pitr_T"}, ns="s.$cmd"))
        oplog += [entry(112 + n, "i", row, ns="s.c_pitr_T") for n, row in enumerate(made)]
        oplog.append(entry(119, "u", {"$v": 2, "diff": {"i": {"b": 1}}}, 0, ns="s.c_pitr_T"))
        oplog += [
            entry(120 + n, "i", dict(_DOCUMENTS[n])) if deletes else entry(120 + n, "u", _BACK, n) for n in range(3)
        ]
    return oplog


@pytest.mark.parametrize("accident", [_UPDATES, _DELETES], ids=["updates", "deletes"])
async def test_what_was_written_is_not_worked_out_again(tmp_path: Path, accident: Accident) -> None:
    kept = tmp_path / "1.sqlite"
    made, _, found = await run(written([], accident), accident, kept)
    assert (len(made), found) == (3, {Verdict.DAMAGED: 3})
    for _ in range(2):
        assert await run(written(made, accident), accident, kept) == ([], [], {Verdict.WHOLE: 3})
    again, asked, found = await run(written(made, accident), accident, None)
    assert (again, asked, found) == ([], [0, 1, 2], {Verdict.WHOLE: 3}), "as it is found without what was kept"


@pytest.mark.parametrize(
    ("accident", "at", "instead"),
    [
        (_UPDATES, 121, entry(121, "u", {"$v": 2, "diff": {"u": {"a": 0}}}, 1)),
        (_UPDATES, 121, entry(121, "u", {"$v": 2, "diff": {"u": {"a": 0, "b": 1}}}, 1)),
        (_UPDATES, 121, entry(121, "n", {}, ns="")),
        (_UPDATES, 123, entry(123, "u", _BAD, 1)),
        (_UPDATES, 110, entry(110, "u", {"$v": 2, "diff": {"u": {"n": 5}}}, 1)),
        (_DELETES, 121, entry(121, "n", {}, ns="")),
        (_DELETES, 121, entry(121, "i", {"_id": 1, "a": 0, "b": 0, "n": 1})),
        (_DELETES, 123, entry(123, "d", {"_id": 1})),
        (_DELETES, 123, entry(123, "u", {"$v": 2, "diff": {"u": {"n": 5}}}, 1)),
        (_DELETES, 110, entry(110, "i", {"_id": 1, "n": 5})),
    ],
    ids=[
        "half", "another value", "not written", "damaged since", "written before", "not inserted", "another document",
        "deleted since", "changed since", "inserted before",
    ],
)  # fmt: skip
async def test_what_was_not_written_so_or_is_written_since_is_worked_out_again(
    tmp_path: Path, accident: Accident, at: int, instead: Row
) -> None:
    """What the second run finds is what it finds without the first one, for that document alone."""
    kept = tmp_path / "1.sqlite"
    made, _, _ = await run(written([], accident), accident, kept)
    oplog = [row for row in written(made, accident) if row["ts"].time != at] + [instead]
    oplog.sort(key=lambda row: row["ts"])
    again, asked, found = await run(oplog, accident, kept)
    assert asked == [1]
    assert (again, found) == (await run(oplog, accident, None))[::2]


async def test_only_a_count_that_fits_makes_all_updates_its_own() -> None:
    """They set ``a`` and ``b``. Where the statement is known, it must explain them too."""
    proven = replace(_UPDATES, effect=_SET[:1], proven=True)
    assert (await run(written([], proven), proven, None))[2] == {Verdict.DAMAGED: 3}
    named = replace(proven, statement="updateMany({}, {$set: {a: 7}})")
    with pytest.raises(ReadError, match="No write of this incident does what was run"):
        await run(written([], named), named, None)


@pytest.mark.parametrize(
    ("largest", "more", "by_hand"), [(2**24, {}, 0), (100, {}, 1), (2**24, {"at": DatetimeMS(2**62)}, 1)]
)
async def test_the_repair_of_the_document_whose_id_is_null_is_in_the_oplog_too(
    monkeypatch: pytest.MonkeyPatch, largest: int, more: Row, by_hand: int
) -> None:
    """Or nothing there tells what the return wrote by itself from what others wrote. One that is too large, or that
    mongosh cannot write exactly, is counted."""
    monkeypatch.setattr(counterfactual, "LARGEST", largest)
    undone = replace(_UPDATES, last=Ts(101, 1), entries=1)
    plan = make_plan(Ts(101, 1), FromImages(), datetime.now(UTC), accident=undone, returns=(_ROW,))
    source, counts = Server([entry(100, "n", {}, ns=""), entry(101, "u", _BAD, None)]), Repairs("s.c")
    spare = Server([], {"_id": None, "a": 0, "b": 0} | more)
    made = repairs(cast("Gateway", source), cast("Gateway", spare), plan, _ROW, counts)
    assert [bson.decode(raw)["_id"] async for raw in made] == [None] * (1 - by_hand)
    assert (counts.by_hand, counts.verdicts) == (by_hand, {Verdict.DAMAGED: 1})
    if not more:
        assert json.loads(counts.null_id)["wanted"].keys() == {"_id", "a", "b"}


async def test_other_repairs_than_were_worked_out_settle_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "1.sqlite"
    made, _, _ = await run(written([], _DELETES), _DELETES, kept)
    made[1]["w"] = []
    _, asked, _ = await run(written(made, _DELETES), _DELETES, kept)
    assert asked == [1]


async def test_the_first_repair_says_what_was_undone_though_it_changes_nothing() -> None:
    """Others wrote over all of it before the return ran: a later one knows by it what was undone."""
    oplog = written([], _UPDATES) + [entry(110 + n, "u", _BACK, n) for n in range(3)]
    (made,), _, found = await run(oplog, _UPDATES, None)
    assert (made["_id"], made["r"], found) == (0, _DOCUMENTS[0], {Verdict.UNCLEAR: 3})
    oplog += [entry(120, "c", {"create": "c_pitr_T"}, ns="s.$cmd"), entry(121, "i", made, ns="s.c_pitr_T")]
    assert (await run(oplog, _UPDATES, None))[0] == []


async def test_a_collection_that_was_dropped_since_is_worked_out_again(tmp_path: Path) -> None:
    kept = tmp_path / "1.sqlite"
    made, _, _ = await run(written([], _DELETES), _DELETES, kept)
    dropped = entry(130, "c", {"drop": "c"}, ns="s.$cmd", o2={"numRecords": 3})
    _, asked, found = await run([*written(made, _DELETES), dropped], _DELETES, kept)
    assert (asked, found) == ([0, 1, 2], {Verdict.LEFT: 3})
