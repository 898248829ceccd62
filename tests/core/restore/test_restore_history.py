"""The operations on a collection since the point: kept between the steps of a return, and as if read again."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest
from bson import Binary, Int64

from builders.history import COLLECTION, Row, Server, entry
from tallyglass.errors import ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.model.undo import Accident, FieldChange
from tallyglass.restore.saved_oplog.joined import JoinedOplog
from tallyglass.restore.saved_oplog.saved_oplog import read_saved
from tallyglass.restore.undo.account import DocumentState
from tallyglass.restore.undo.counterfactual import Verdict, repair
from tallyglass.restore.undo.history import OLDER, OTHERS, OWN, REPAIR, UNCERTAIN, UNDONE, HistoryStep
from tallyglass.restore.undo.history_reader import read_history
from tallyglass.restore.undo.judgement import judge_documents
from tallyglass.restore.undo.recovery import _compare, compare_documents

_POINT = Ts(100, 1)
_OTHER_COLLECTION = Binary(bytes(16), 4)


def change(second: int, id_: int, **more: Any) -> Row:
    """The accident's update of a part of a document, or with a session another client's of a field beside it."""
    diff = {"u": {"n": second}} if more else {"sown": {"u": {"a": 7}}}
    return entry(second, "u", {"$v": 2, "diff": diff}, id_, **more)


async def read(server: Server, accident: Accident, kept: Path | None) -> tuple[list[Any], list[Any], bool]:
    """What a history says: the operations on documents that were hit, the removals, and whether it is ambiguous."""
    gateway = cast("Gateway", server)
    with closing(await read_history(gateway, gateway, accident, "s.c", _POINT, kept)) as history:
        return list(history.hit()), history.removals, history.ambiguous


_SET = FieldChange((b"own".hex(), b"a".hex()), "1007000000")
_UPDATES = Accident("everything", "s.c", Ts(102, 1), Ts(105, 1), updates=True, effect=(_SET,))
_DOCUMENTS = tuple({"_id": n, "own": {"a": 0, "b": 0}, "n": 0} for n in range(10))
_OTHER: Row = {"lsid": {"id": COLLECTION}, "txnNumber": 1, "stmtId": 0}
_OPLOG = [
    entry(100, "n", {}, ns=""),
    entry(101, "u", {"$v": 2, "diff": {"u": {"n": 1}}}, 9),
    entry(102, "u", {"$v": 2, "diff": {"u": {"own": {"a": 7, "b": 0}}}}, 1),
    change(103, 2),
    change(104, 9, **_OTHER),
    change(105, 3),
    entry(106, "d", {"_id": 1}),
    change(107, 2, **_OTHER),
    entry(108, "c", {"drop": "c"}, ns="s.$cmd", o2={"numRecords": 3}),
    entry(109, "i", {"_id": 1, "n": 9}),
]


@pytest.mark.parametrize("accident", [_UPDATES, replace(_UPDATES, first=_POINT, last=None)], ids=["bounded", "open"])
@pytest.mark.parametrize("first", range(2, len(_OPLOG) + 1))
async def test_a_kept_history_reads_what_is_new_and_says_the_same(
    tmp_path: Path, first: int, accident: Accident
) -> None:
    """Wherever the first of two readings ended."""
    kept = tmp_path / "history" / "1.sqlite"
    await read(Server(_OPLOG[:first], *_DOCUMENTS), accident, kept)
    assert kept.stat().st_mode & 0o777 == 0o600
    whole, rest = Server(_OPLOG, *_DOCUMENTS), Server(_OPLOG, *_DOCUMENTS)
    wanted = await read(whole, accident, None)
    assert [len(key) for key, _ in wanted[0]] == [5, 5, 5]
    assert len(wanted[1]) == 1
    assert await read(rest, accident, kept) == wanted
    # The last known entry twice: looked for, and the bound of what is read.
    assert rest.sent == len(_OPLOG) - first + 2
    assert list(kept.parent.iterdir()) == [kept]


def loaded(second: int, id_: int, *undone: tuple[int, int]) -> Row:
    """A repair of what was written at some times, that is loaded into the staging collection."""
    before, after = ({"_id": id_, "own": {"a": a, "b": 0}, "n": 0} for a in (7, 0))
    key = (0x10, id_.to_bytes(4, "little"))
    made = repair(key, bson.encode(before), bson.encode(after), [Ts(*one) for one in undone])
    assert made is not None
    return entry(second, "i", bson.decode(made), ns=_STAGING)


_STAGING = "s.c_pitr_T"
_BEGUN = {"$v": 2, "diff": {"i": {"b": 1}}}
_BACK = {"$v": 2, "diff": {"sown": {"u": {"a": 0}}}}
_RETURNED = [
    *_OPLOG[:8],
    entry(111, "c", {"create": "c_pitr_T"}, ns="s.$cmd"),
    loaded(112, 3, (105, 1)),
    loaded(113, 2, (103, 1)),
    entry(114, "u", _BACK, 2),
    entry(115, "u", _BEGUN, 3, ns=_STAGING),
    entry(116, "u", _BACK, 2),
    entry(117, "u", _BACK, 2),
    loaded(118, 3, (105, 1)),
    entry(119, "u", _BEGUN, 3, ns=_STAGING),
    entry(120, "u", _BACK, 3),
    entry(121, "u", _BACK, 3),
]


@pytest.mark.parametrize("first", range(2, len(_RETURNED) + 1))
async def test_what_a_return_wrote_is_known_wherever_the_first_reading_ended(tmp_path: Path, first: int) -> None:
    """The first write after the return began, once for each repair that was loaded."""
    kept = tmp_path / "1.sqlite"
    accident = replace(_UPDATES, last=Ts(105, 1))
    await read(Server(_RETURNED[:first], *_DOCUMENTS), accident, kept)
    hit, _, _ = await read(Server(_RETURNED, *_DOCUMENTS), accident, kept)
    owners = {key[1]: [step.owner for step in steps if step.op == "u"] for key, steps in hit}
    assert owners[2] == [OWN, OTHERS, OTHERS, REPAIR, OTHERS]
    assert owners[3] == [OWN, REPAIR, REPAIR]


@pytest.mark.parametrize("first", range(4, len(_RETURNED) + 1))
async def test_what_another_return_undid_is_known_wherever_the_first_reading_ended(tmp_path: Path, first: int) -> None:
    """What it undid before the point of this one is a part of the copy: only its repair is there to see."""
    known, older = [UNDONE, OTHERS, OTHERS, REPAIR, OTHERS], [OTHERS, OTHERS, OLDER, OTHERS]
    for limit, undone in ((_POINT, known), (Ts(104, 1), older)):
        kept = tmp_path / f"{limit.t}.sqlite"
        accident = Accident("deletes", "s.c", Ts(106, 1), Ts(106, 1))
        for entries in (_RETURNED[:first], _RETURNED):
            gateway = cast("Gateway", Server(entries, *_DOCUMENTS))
            with closing(await read_history(gateway, gateway, accident, "s.c", limit, kept)) as history:
                steps = history.of(id_key(bson.encode({"_id": 2})))
        assert [step.owner for step in steps if step.op == "u"] == undone


@pytest.mark.parametrize(
    ("began", "judged"),
    [(110, (True, False)), (118, (True, False)), (121, (False, True)), (None, (True, False))],
    ids=["before", "while it wrote nothing", "after an earlier one", "not known"],
)
async def test_a_document_came_back_by_the_return_that_made_it_right(
    began: int | None, judged: tuple[bool, bool]
) -> None:
    source, spare = Server(_RETURNED, {"_id": 3, "own": {"a": 0, "b": 0}, "n": 0}), Server([], *_DOCUMENTS)
    rows = judge_documents(
        cast("Gateway", source), cast("Gateway", spare), replace(_UPDATES, last=Ts(105, 1)), "s.c", _POINT,
        None if began is None else Ts(began, 1), None,
    )  # fmt: skip
    found = {one.key[1]: one async for one in rows}
    assert (found[3].state, (found[3].restored, found[3].returned)) == (DocumentState.RIGHT, judged)


async def test_a_run_that_wrote_nothing_does_not_claim_what_others_wrote_after_the_next() -> None:
    """The next run loaded its repair again and wrote it; a write of a session is no return's."""
    session = {"lsid": {"id": COLLECTION}, "txnNumber": 1, "stmtId": 0}
    entries = [*_OPLOG[:8]]
    for second in (111, 115):
        made = entry(second, "c", {"create": "c_pitr_T"}, ns="s.$cmd")
        entries += [made, loaded(second + 1, 3, (105, 1)), entry(second + 2, "u", _BEGUN, 3, ns=_STAGING)]
    entries += [entry(118, "u", _BACK, 3, **session), entry(119, "u", _BACK, 3), entry(120, "u", _BACK, 3)]
    hit, _, _ = await read(Server(entries, *_DOCUMENTS), replace(_UPDATES, last=Ts(105, 1)), None)
    owners = {key[1]: [step.owner for step in steps if step.op == "u"] for key, steps in hit}
    assert owners[3] == [OWN, OTHERS, REPAIR, OTHERS]


async def test_a_removal_is_undone_in_the_documents_that_came_back() -> None:
    made = [repair((0x10, id_.to_bytes(4, "little")), None, bson.encode({"_id": id_}), [Ts(108, 1)]) for id_ in (4, 5)]
    entries = [
        *_OPLOG[:9],
        entry(111, "c", {"create": "c_pitr_T"}, ns="s.$cmd"),
        *(entry(112 + at, "i", bson.decode(one or b""), ns=_STAGING) for at, one in enumerate(made)),
        entry(115, "u", _BEGUN, 4, ns=_STAGING),
        entry(116, "i", {"_id": 4}),
    ]
    gateway = cast("Gateway", Server(entries, *_DOCUMENTS))
    with closing(await read_history(gateway, gateway, _UPDATES, "s.c", _POINT)) as history:
        owners = [[step.owner for step in history.of(id_key(bson.encode({"_id": n})))] for n in (4, 5)]
    assert owners == [[UNDONE, REPAIR], [OTHERS]]


async def test_a_history_that_does_not_fit_is_read_again(tmp_path: Path) -> None:
    kept = tmp_path / "1.sqlite"
    wanted = await read(Server(_OPLOG, *_DOCUMENTS), _UPDATES, None)
    rolled_back = [*_OPLOG[:4], change(104, 3)]
    await read(Server(rolled_back, *_DOCUMENTS), _UPDATES, kept)
    assert await read(Server(_OPLOG, *_DOCUMENTS), _UPDATES, kept) == wanted
    other = Accident("deletes", "s.c", Ts(106, 1), Ts(106, 1))
    assert len((await read(Server(_OPLOG, *_DOCUMENTS), other, kept))[0]) == 1
    kept.write_bytes(b"cut off")
    assert await read(Server(_OPLOG, *_DOCUMENTS), _UPDATES, kept) == wanted
    # A process that was killed leaves its file under another name, with some of the rows.
    with closing(sqlite3.connect(kept)) as rows:
        rows.execute("DELETE FROM operation WHERE n = 2")
        rows.commit()
    kept.rename(tmp_path / "1.sqlite.part")
    assert await read(Server(_OPLOG, *_DOCUMENTS), _UPDATES, kept) == wanted
    with pytest.raises(ReadError, match="does not reach back"):
        await read(Server(_OPLOG[2:4]), _UPDATES, kept)
    assert list(kept.parent.iterdir()) == [], "what could not be read to the end"
    with pytest.raises(ReadError, match="does not reach back"):
        await read(Server(_OPLOG[2:4]), _UPDATES, None)


@pytest.mark.parametrize(("had", "refused"), [(7, False), (6, True)], ids=["had it", "had it not"])
async def test_an_entry_that_lacks_a_field_is_the_statements_only_if_its_document_had_the_value(
    had: int, refused: bool
) -> None:
    """Another statement that sets a part of the same fields shows in the documents before, which the plan lacks."""
    accident = replace(_UPDATES, kind="updates", effect=(_SET, FieldChange((b"n".hex(),), "1001000000")), entries=2)
    both = entry(102, "u", {"$v": 2, "diff": {"u": {"n": 1}, "sown": {"u": {"a": 7}}}}, 1)
    one = entry(103, "u", {"$v": 2, "diff": {"u": {"n": 1}}}, 2)
    server = Server([entry(100, "n", {}, ns=""), both, one], *({"_id": n, "own": {"a": had}, "n": 0} for n in (1, 2)))
    if refused:
        with pytest.raises(ReadError, match=r"2 updates of one statement; .* 1 are"):
            await read(server, accident, None)
        return
    hit, _, _ = await read(server, accident, None)
    assert [steps[0].owner for _, steps in hit] == [OWN, OWN]


async def test_other_numbers_in_some_of_the_fields_alone_are_others() -> None:
    """Though the document had the value of the rest."""
    accident = replace(_UPDATES, effect=(_SET, FieldChange((b"n".hex(),), "1001000000")))
    row = entry(103, "u", {"$v": 2, "diff": {"u": {"n": 2}}}, 1)
    server = Server([entry(100, "n", {}, ns=""), row], {"_id": 1, "own": {"a": 7}, "n": 0})
    assert (await read(server, accident, None))[0] == []


class WithOptions(Server):
    """A server whose collection has these options, and perhaps another name by now."""

    options: Row | None
    name = "c"

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        assert db == "s"
        return [CollectionInfo(Namespace("s", self.name), "collection", self.options, bytes(COLLECTION))]


_TAKEN = Accident("deletes", "s.c", Ts(101, 1), Ts(104, 1), statement='deleteMany({s: "bad"})')
_SET_N = FieldChange((b"n".hex(),), "1007000000")
_CHANGED = replace(_TAKEN, kind="updates", updates=True, effect=(_SET_N,))


def _set(second: int, id_: int, n: Any) -> Row:
    return entry(second, "u", {"$v": 2, "diff": {"u": {"n": n}}}, id_)


@pytest.mark.parametrize(
    ("options", "accident", "rows", "owners"),
    [
        ({}, _TAKEN, [entry(100 + n, "d", {"_id": n}) for n in (1, 2)], [OWN, OTHERS]),
        ({"collation": {}}, _TAKEN, [entry(100 + n, "d", {"_id": n}) for n in (1, 2)], [OWN, OWN]),
        (None, _TAKEN, [entry(100 + n, "d", {"_id": n}) for n in (1, 2)], [OWN, OWN]),
        ({}, replace(_CHANGED, statement='updateMany({s: "bad"}, {$set: {n: 7}})'),
         [_set(101, 1, 7), _set(102, 2, 7)], [OWN, UNCERTAIN]),
        ({}, replace(_CHANGED, statement="updateMany({}, {$set: {n: 7}})"),
         [_set(101, 1, 7), entry(102, "u", {"$v": 2, "diff": {"u": {"n": 7, "s": "ok"}}}, 2)], [OWN, OTHERS]),
        ({}, replace(_CHANGED, statement="updateMany({}, {$set: {n: 7}})"),
         [_set(101, 1, 7), entry(102, "u", {"$v": 2, "diff": {"u": {"n": 7, "m": 5.0}}}, 2)], [OWN, OTHERS]),
    ],
    ids=["deletes", "collation", "unknown", "updates", "another field", "the type of another field"],
)  # fmt: skip
async def test_a_statement_says_which_writes_are_its_own(
    options: Row | None, accident: Accident, rows: list[Row], owners: list[int]
) -> None:
    server = WithOptions([entry(100, "n", {}, ns=""), *rows], *({"_id": n, "s": s, "n": 0, "m": 5} for n, s in _TEXTS))
    server.options = options
    gateway = cast("Gateway", server)
    with closing(await read_history(gateway, gateway, accident, "s.c", _POINT)) as history:
        assert [history.of(id_key(bson.encode({"_id": n})))[0].owner for n in (1, 2)] == owners


_TEXTS = ((1, "bad"), (2, "good"))


@pytest.mark.parametrize("number", [None, 4, 5])
async def test_one_command_of_a_session_is_known_by_its_number(number: int | None) -> None:
    """Whatever its updates set."""
    sent: Row = {"lsid": {"id": COLLECTION}, "stmtId": 0} | ({} if number is None else {"txnNumber": Int64(number)})
    server = WithOptions([entry(100, "n", {}, ns=""), _set(101, 1, 7) | sent, _set(102, 2, 8) | sent])
    server.options, gateway = {}, cast("Gateway", server)
    session = read_entry(bson.encode(server.oplog[1])).session_text
    accident = Accident("updates", "s.c", Ts(101, 1), Ts(102, 1), session, updates=True, command=5)
    with closing(await read_history(gateway, gateway, accident, "s.c", _POINT)) as history:
        assert [key[1] for key, _ in history.hit()] == ([1, 2] if number == 5 else [])


@pytest.mark.parametrize(
    ("filter_", "count", "refused"),
    [("bad", 1, ""), ("bad", 2, "1 writes do what was run, .* 2 were reported"), ("none", None, "No write")],
)
async def test_a_run_stops_where_a_statement_did_not_do_what_a_person_says(
    filter_: str, count: int | None, refused: str
) -> None:
    accident = replace(_TAKEN, statement=f'deleteMany({{s: "{filter_}"}})', count=count)
    rows = [entry(100, "n", {}, ns=""), *(entry(100 + n, "d", {"_id": n}) for n in (1, 2))]
    server = WithOptions(rows, *({"_id": n, "s": s} for n, s in _TEXTS))
    server.options = {}
    if refused:
        with pytest.raises(ReadError, match=refused):
            await read(server, accident, None)
    else:
        assert [key[1] for key, _ in (await read(server, accident, None))[0]] == [1]


@pytest.mark.parametrize(("statement", "refused"), [(_TAKEN.statement, True), ("", False)], ids=["one", "several"])
async def test_a_run_stops_where_one_statement_hit_a_document_twice(statement: str, refused: bool) -> None:
    rows = [entry(100, "n", {}, ns=""), entry(101, "d", {"_id": 1}), entry(102, "i", {"_id": 1, "s": "bad"})]
    server = WithOptions([*rows, entry(103, "d", {"_id": 1})], {"_id": 1, "s": "bad"})
    server.options = {}
    accident = replace(_TAKEN, statement=statement, count=2, proven=True)
    if refused:
        with pytest.raises(ReadError, match=r"2 writes .* before, 1 of them once more on a document; 2 were reported"):
            await read(server, accident, None)
    else:
        assert [step.owner for step in (await read(server, accident, None))[0][0][1]] == [OWN, OTHERS, OWN]


@pytest.mark.parametrize(
    ("accident", "owners"),
    [(replace(_TAKEN, statement=""), [OWN, OTHERS]), (replace(_CHANGED, statement=""), [OTHERS] * 2),
     (replace(_UPDATES, first=Ts(101, 1)), [OWN, OWN]),
     (Accident("everything", "", Ts(101, 1), Ts(104, 1)), [OWN, OWN])],
    ids=["deletes", "updates", "everything", "every removal"],
)  # fmt: skip
async def test_deletes_are_those_of_the_sender_unless_everything_is_undone(
    accident: Accident, owners: list[int]
) -> None:
    rows = [entry(100, "n", {}, ns=""), entry(101, "d", {"_id": 1}), entry(102, "d", {"_id": 2}, **_OTHER)]
    gateway = cast("Gateway", Server(rows, *_DOCUMENTS))
    with closing(await read_history(gateway, gateway, accident, "s.c", _POINT)) as history:
        assert [history.of(id_key(bson.encode({"_id": n})))[0].owner for n in (1, 2)] == owners
        assert not history.ambiguous


@pytest.mark.parametrize(
    ("accident", "verdicts"),
    [
        (replace(_TAKEN, statement=""), {1: Verdict.DAMAGED, 2: Verdict.DAMAGED}),
        (Accident("everything", "", Ts(101, 1), Ts(104, 1)), {1: Verdict.DAMAGED, 2: Verdict.LEFT}),
    ],
    ids=["deletes", "everything"],
)
async def test_without_an_incident_only_what_was_there_at_the_point_comes_back(
    accident: Accident, verdicts: dict[int, Verdict]
) -> None:
    rows = [entry(100, "n", {}, ns=""), entry(101, "i", {"_id": 2}, **_OTHER)]
    rows += [entry(101 + id_, "d", {"_id": id_}) for id_ in (1, 2)]
    gateway, copy = cast("Gateway", Server(rows)), cast("Gateway", Server([], {"_id": 1}))
    with closing(await read_history(gateway, copy, accident, "s.c", _POINT)) as history:
        assert {one.key[1]: one.verdict async for one in compare_documents(copy, history)} == verdicts
    judged = {
        one.key[1]: one.state async for one in judge_documents(gateway, copy, accident, "s.c", _POINT, None, None)
    }
    damaged = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.DAMAGED]
    assert judged == dict.fromkeys(damaged, DocumentState.MISSING)


@pytest.mark.parametrize("others", [True, False])
async def test_what_others_compute_in_the_same_field_makes_the_accident_unclear(others: bool) -> None:
    """Nothing but the time tells the one from the other."""
    numbers = {1: 0, 2: 3, 3: 200, 4: 7, 9: 1}
    rows = [_set(100 + id_, id_, n + 5) for id_, n in numbers.items() if id_ != 9]
    rows += [_set(300, 9, 6)] if others else []
    documents = [{"_id": id_, "n": n} for id_, n in numbers.items()]
    source, copy = Server([entry(100, "n", {}, ns=""), *rows]), cast("Gateway", Server([], *documents))
    source.documents = tuple(row | {"n": row["n"] + 5} for row in documents)
    effect = (FieldChange((b"n".hex(),), None),)
    accident = Accident("updates", "s.c", Ts(101, 1), Ts(104, 1), updates=True, effect=effect, entries=4)
    with closing(await read_history(cast("Gateway", source), copy, accident, "s.c", _POINT)) as history:
        assert history.ambiguous is others
        found = {one.key[1]: one.verdict async for one in compare_documents(copy, history)}
    assert found == dict.fromkeys(range(1, 5), Verdict.UNCLEAR if others else Verdict.DAMAGED)
    judged = judge_documents(cast("Gateway", source), copy, accident, "s.c", _POINT, None, None)
    state = DocumentState.UNCLEAR if others else DocumentState.HOLDS
    assert {one.key[1]: one.state async for one in judged} == dict.fromkeys(range(1, 5), state)


class Whole(Server):
    """Gives all its documents at once."""

    async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        yield b"".join(bson.encode(row) for row in self.documents)


async def test_what_others_inserted_after_a_removal_is_none_of_it() -> None:
    rows = [entry(100, "n", {}, ns=""), entry(101, "c", {"drop": "c"}, ns="s.$cmd"), entry(102, "i", {"_id": 50})]
    rows += [entry(103, "i", {"_id": 2, "theirs": 1}), entry(104, "i", {"_id": 51}), entry(105, "d", {"_id": 51})]
    server, copy = WithOptions(rows), cast("Gateway", Whole([], {"_id": 1}, {"_id": 2}))
    server.options, gateway = {}, cast("Gateway", server)
    accident = Accident("removal", "", Ts(101, 1), Ts(101, 1))
    with closing(await read_history(gateway, copy, accident, "s.c", _POINT)) as history:
        found = [(one.key[1], one.verdict, one.undone) async for one in compare_documents(copy, history)]
    at = {Ts(101, 1): None}
    assert found == [(1, Verdict.DAMAGED, at), (2, Verdict.LEFT, at), (50, Verdict.WHOLE, at)]
    server.documents = ({"_id": 2, "theirs": 1}, {"_id": 50})
    judged = judge_documents(gateway, copy, accident, "s.c", _POINT, None, None)
    assert [(one.key[1], one.state) async for one in judged] == [
        (1, DocumentState.MISSING),
        (2, DocumentState.REPLACED),
    ]


@pytest.mark.parametrize(
    ("command", "db", "removes"),
    [
        ({"drop": "c"}, "s", True),
        ({"drop": "d"}, "s", False),
        ({"drop": "c"}, "t", False),
        ({"dropDatabase": 1}, "s", True),
        ({"dropDatabase": 1}, "t", False),
        ({"emptycapped": "c"}, "s", True),
        ({"create": "c"}, "s", False),
        ({"renameCollection": "s.c", "to": "s.d"}, "s", True),
        ({"renameCollection": "s.d", "to": "s.e"}, "s", False),
    ],
)
async def test_a_command_removes_the_documents_of_its_own_collection(command: Row, db: str, removes: bool) -> None:
    server = WithOptions([entry(100, "n", {}, ns=""), entry(102, "c", command, ns=f"{db}.$cmd")])
    server.options, gateway = {}, cast("Gateway", server)
    accident = Accident("removal", "", Ts(102, 1), Ts(102, 1))
    with closing(await read_history(gateway, gateway, accident, "s.c", _POINT)) as history:
        assert [(step.ts, step.owner) for step in history.removals] == [(Ts(102, 1), OWN)] * removes


def _rename(second: int, source: str, to: str, **more: Any) -> Row:
    return entry(second, "c", {"renameCollection": source, "to": to, **more}, ns="s.$cmd")


@pytest.mark.parametrize(
    ("later", "verdict"),
    [
        (entry(103, "c", {"drop": "c"}, ns="s.$cmd"), Verdict.LEFT),
        (_rename(103, "s.new", "s.c", dropTarget=COLLECTION), Verdict.LEFT),
        (_rename(103, "s.new", "s.d", dropTarget=_OTHER_COLLECTION), Verdict.DAMAGED),
        (_rename(103, "s.new", "s.c"), Verdict.DAMAGED),
    ],
    ids=["dropped", "replaced", "another replaced", "none was replaced"],
)
@pytest.mark.parametrize("named", [True, False], ids=["named", "all that was removed"])
async def test_what_was_deleted_does_not_come_back_into_what_was_put_in_its_place(
    named: bool, later: Row, verdict: Verdict
) -> None:
    """Where no incident is named, a drop is undone too, but not what replaces a collection."""
    server = WithOptions([entry(100, "n", {}, ns=""), entry(101, "d", {"_id": 1}), later], *_DOCUMENTS)
    server.options, gateway = {}, cast("Gateway", server)
    accident = replace(_TAKEN, statement="") if named else Accident("everything", "", _POINT, Ts(109, 1))
    with closing(await read_history(gateway, gateway, accident, "s.c", _POINT)) as history:
        if not named and "drop" in later["o"]:
            assert history.removed
            return
        found = {one.key[1]: one.verdict async for one in compare_documents(gateway, history)}
    assert found == {1: verdict}


@pytest.mark.parametrize(("o", "verdict"), [(bson.encode({"_id": 1}), Verdict.WHOLE), (b"broken", Verdict.UNCLEAR)])
def test_a_document_with_a_broken_entry_is_unclear(o: bytes, verdict: Verdict) -> None:
    history: Any = SimpleNamespace(increments={}, expiring=(), ambiguous=False, accident=_TAKEN)
    steps = [HistoryStep(1, OTHERS, "u", o, Ts(101, 1))]
    assert _compare(history, id_key(bson.encode({"_id": 1})), bson.encode({"_id": 1, "n": 0}), steps).verdict is verdict


_AWAY, _HOME = _rename(103, "s.c", "s.away"), _rename(106, "s.away", "s.c")
_REPLACED = entry(104, "i", {"_id": 1}, ui=_OTHER_COLLECTION)
_IN_TRANSACTION = entry(104, "c", {"applyOps": [{k: _REPLACED[k] for k in ("op", "ns", "ui", "o")}]}, ns="admin.$cmd")


@pytest.mark.parametrize(
    ("rows", "name", "refused"),
    [
        ([_AWAY], "away", "s.c was renamed to s.away since, with its documents"),
        ([_AWAY], "c", ""),
        ([_AWAY, _rename(105, "s.away", "s.third")], "c", ""),
        ([_AWAY, entry(104, "d", {"_id": 5}, ns="s.away", ui=_OTHER_COLLECTION), _HOME], "c", ""),
        ([_AWAY, entry(104, "d", {"_id": 5}, ns="s.away"), _HOME], "c", "one of them was written to meanwhile"),
        ([_AWAY, _REPLACED, _HOME], "c", "one of them was written to meanwhile"),
        ([_AWAY, _IN_TRANSACTION, _HOME], "c", "one of them was written to meanwhile"),
        ([_AWAY, _rename(106, "s.away", "s.c", dropTarget=_OTHER_COLLECTION)], "c", ""),
        ([_rename(106, "s.new", "s.c")], "c", ""),
    ],
    ids=[
        "away",
        "and created again",
        "and away again",
        "back",
        "written there",
        "written here",
        "in a transaction",
        "back over another",
        "another came",
    ],
)
@pytest.mark.parametrize("saved", [False, True], ids=["live", "saved"])
async def test_a_collection_has_its_documents_again_once_it_is_renamed_back(
    tmp_path: Path, rows: list[Row], name: str, refused: str, saved: bool
) -> None:
    """The saved oplog answers fewer questions than a server."""
    server = WithOptions([entry(100, "n", {}, ns=""), entry(101, "d", {"_id": 1}), *rows, entry(109, "n", {}, ns="")])
    server.options, server.name, gateway = {}, name, cast("Gateway", server)
    if saved:
        path = tmp_path / "oplog.bson"
        path.write_bytes(b"".join(map(bson.encode, server.oplog)))
        gateway = cast("Gateway", JoinedOplog(gateway, read_saved([path]), follows=True))
    accident = replace(_TAKEN, statement="")
    if refused:
        with pytest.raises(ReadError, match=refused):
            await read_history(gateway, gateway, accident, "s.c", _POINT)
        return
    with closing(await read_history(gateway, gateway, accident, "s.c", _POINT)) as history:
        away = _AWAY in rows and not any(row["o"].get("to") == "s.c" for row in rows)
        assert [step.ts for step in history.removals] == [Ts(103, 1)] * away
