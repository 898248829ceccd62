"""Whose each operation after the point is: part of the mistake, which is taken back, or someone else's, which stays."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Binary, Int64, Timestamp

from builders.replay import after_point
from tallyglass.moment import Ts
from tallyglass.oplog.entry.batch import BatchWalker
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.model.proof import Loss
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.incident_scope import DEFINITIONS, REPLACED, why_not_undone, written

TXN = {"lsid": {"id": 1}, "txnNumber": Int64(1)}


def incident(kind: str, point: Ts | None = None) -> Incident:
    return Incident(1, kind, kind, "s.c", Harm.LOSS, Ts(5, 1), Ts(6, 1), None, None, 1, None, point=point)


def row(at: Ts, op: str, number: int, ns: str = "s.c", **more: Any) -> dict[str, Any]:
    what = {"o": {"$v": 2, "diff": {}}, "o2": {"_id": number}} if op == "u" else {"o": {"_id": number}}
    return {"ts": Timestamp(*at), "t": Int64(1), "v": 2, "op": op, "ns": ns, **what, **more}


def group(at: Ts, *inner: dict[str, Any], **more: Any) -> dict[str, Any]:
    operations = [{name: one[name] for name in ("op", "ns", "o", "o2") if name in one} for one in inner]
    return row(at, "c", 0, "admin.$cmd", **more) | {"o": {"applyOps": operations}}


def whose(what: Incident | None, *rows: dict[str, Any]) -> tuple[int, int]:
    """How many operations on ``s.c`` are the incident's, and how many are others'."""
    count = LossCount(what)
    sink = after_point(count)
    for one in rows:
        sink.feed(read_entry(bson.encode(one)))
    changed = count.changed["s.c"]
    return changed.by_incident, changed.others


@pytest.mark.parametrize(("kind", "op"), [("updateMany", "u"), ("deleteMany", "d")])
def test_what_is_of_its_kind_and_in_its_span_belongs_to_the_incident(kind: str, op: str) -> None:
    inside = row(Ts(5, 1), op, 1), row(Ts(5, 9), op, 2), row(Ts(6, 1), op, 3)
    others = (
        row(Ts(5, 0), op, 10),
        row(Ts(6, 2), op, 11),
        row(Ts(5, 2), "i", 12),
        row(Ts(5, 3), op, 13, **TXN),
    )
    assert whose(incident(kind), *inside, *others) == (3, 4)
    assert whose(None, *inside) == (0, 3)


SESSION = {"id": Binary(b"s" * 16, 4)}


@pytest.mark.parametrize(
    ("kind", "op", "named", "mine"),
    [
        ("deletes", "d", SESSION["id"].hex(), 2),
        ("updates", "u", SESSION["id"].hex(), 2),
        ("batch", "u", SESSION["id"].hex(), 2),
        ("slow_loop", "d", SESSION["id"].hex(), 2),
        ("slow_loop", "u", "", 1),
        ("fan_out", "d", "", 3),
    ],
)
def test_single_writes_belong_to_the_incident_by_their_session(kind: str, op: str, named: str, mine: int) -> None:
    one = replace(incident(kind), op=op, session=named, sessions=3 if kind == "fan_out" else 0)
    rows = [
        row(Ts(5, 1), op, 1, lsid=SESSION, txnNumber=Int64(1)),
        row(Ts(5, 2), op, 2, lsid=SESSION, txnNumber=Int64(2)),
        row(Ts(5, 3), op, 3, **TXN),
        row(Ts(5, 4), op, 4),
        row(Ts(5, 5), "u" if op == "d" else "d", 5, lsid=SESSION, txnNumber=Int64(3)),
    ]
    assert whose(one, *rows) == (mine, 5 - mine)


COMMANDS = {"drop", "dropDatabase", "transaction", *REPLACED, *DEFINITIONS}


def test_every_kind_of_incident_is_undone_or_explained() -> None:
    listed = re.findall(r"\w+", (Incident.__doc__ or "").partition("short word: ")[2].partition("``title``")[0])
    kinds = set(listed) - {"routine", "are", "and"}
    assert {"deletes", "slow_loop", "setFCV", "ttl", "trickle"} <= kinds
    for kind in kinds:
        one = replace(incident(kind), op="d" if kind in ("batch", "fan_out", "slow_loop", "job", "trickle") else "")
        assert [bool(written(one)), kind in COMMANDS, bool(why_not_undone(one))].count(True) == 1, kind


def usual(second: int, op: str, number: Any, ns: str = "s.c", **more: Any) -> dict[str, Any]:
    """An entry as servers write it, which needs no decoding where it is of one document."""
    place = {"ts": Timestamp(second, 1), "t": Int64(1), "v": Int64(2), "wall": datetime(2026, 11, 20, tzinfo=UTC)}
    what = {"o": {"$v": 2, "diff": {}}, "o2": {"_id": number}} if op == "u" else {"o": {"_id": number}}
    return {"op": op, "ns": ns, "ui": Binary(b"u" * 16, 4), **what, **place} | more


@pytest.mark.parametrize("what", [None, "deleteMany"])
@pytest.mark.parametrize("batched", [True, False])
def test_all_that_is_lost_is_counted_alike_however_it_is_read(batched: bool, what: str | None) -> None:
    named = replace(incident(what), first=Ts(12, 1), last=Ts(13, 1)) if what else None
    commands = {"drop": "d"}, {"renameCollection": "s.e", "to": "s.f"}, {"emptycapped": "g"}, {"collMod": "h"}
    rows = [
        usual(10, "i", 7), usual(10, "i", Int64(3)), usual(10, "i", "x"), usual(11, "u", 7), usual(12, "d", 7),
        usual(13, "d", "x"), usual(14, "d", 3), usual(15, "u", 1, "s.d"), usual(16, "i", 1, "config.system.sessions"),
        *(usual(20 + n, "c", 0, "s.$cmd", o=o) for n, o in enumerate(commands)),
        usual(30, "u", "featureCompatibilityVersion", "admin.system.version"),
        usual(31, "n", 0, "", o={"msg": "x"}),
    ]  # fmt: skip
    count = LossCount(named)
    sink = after_point(count)
    held = [bson.encode(row) for row in rows]
    if batched:
        assert count.last is None
        for entry in BatchWalker(sink).walk(b"".join(held)):
            sink.feed(entry)
    else:
        for raw in held:
            sink.feed(read_entry(raw))
    mine = 2 if what else 0
    assert count.changed == {
        "s.c": Changed(3, 1, 3, 0, mine, 7 - mine, numbers=(3, 7)),
        "s.d": Changed(updates=1, commands=1, others=1, dropped=True, removed=True, replaced=True),
        "s.e": Changed(commands=1, removed=True, replaced=True),
        "s.f": Changed(commands=1, replaced=True),
        "s.g": Changed(commands=1, removed=True, replaced=True),
        "s.h": Changed(commands=1),
    }
    assert (count.last, count.fcv_changed) == (Ts(31, 1), Ts(30, 1))
    assert count.losses() == (
        Loss("s.c", 3, 1, 3), Loss("s.d", 0, 1, 0, 1), *(Loss(f"s.{name}", 0, 0, 0, 1) for name in "efgh"),
    )  # fmt: skip


def test_the_same_in_another_collection_is_someone_elses() -> None:
    count = LossCount(incident("updateMany"))
    after_point(count).feed(read_entry(bson.encode(row(Ts(5, 2), "u", 1, "s.d"))))
    assert (count.changed["s.d"].by_incident, count.changed["s.d"].others) == (0, 1)


@pytest.mark.parametrize(("point", "mine", "others"), [(None, 2, 2), (Ts(5, 5), 1, 3)])
def test_of_transactions_only_the_one_at_the_point_is_taken_back(point: Ts | None, mine: int, others: int) -> None:
    none = {"ts": Timestamp(0, 0), "t": Int64(-1)}
    rows = [
        group(Ts(5, 5), row(Ts(5, 5), "u", 1), prevOpTime=none, lsid={"id": 1}, txnNumber=Int64(1)),
        group(Ts(6, 1), *(row(Ts(6, 1), "u", n) for n in (2, 4)), prevOpTime=none, lsid={"id": 2}, txnNumber=Int64(1)),
        row(point or Ts(6, 1), "u", 3),
    ]
    rows.sort(key=lambda one: one["ts"])
    assert whose(incident("transaction", point), *rows) == (mine, others)
