"""The proof as a whole, from a backup on disk and an oplog in memory: where it begins, what it leaves out or loses."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, Int64, Timestamp

from tallyglass.errors import InputError, PrivilegeError, RefusedError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, CollectionInfo, Extent, Namespace
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.backup.backup import ARCHIVE, DIRECTORY
from tallyglass.restore.checks.all_checks import run_checks
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.proof import Slice
from tallyglass.restore.model.source import Backup
from tallyglass.restore.plan.facts import entry_line
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.plan.precheck import quick_answer
from tallyglass.restore.plan.steps.restore_steps import reads_gzip
from tallyglass.restore.proof.findings import Assessed, Findings
from tallyglass.restore.proof.progress import Step
from tallyglass.restore.proof.prove import prove
from tallyglass.restore.proof.request import RestoreRequest

UUID = Binary(bytes(range(16)), 4)
OTHER = Binary(bytes(range(16, 32)), 4)
GONE = Binary(bytes(16), 4)
NONE = {"ts": Timestamp(0, 0), "t": Int64(-1)}
BACKUP_BEGAN, LIMIT, NEWEST = Ts(100, 1), Ts(200, 1), Ts(300, 1)
TESTS = {"$gte": lambda a, b: a >= b, "$lte": lambda a, b: a <= b, "$lt": lambda a, b: a < b}


def entry(t: int, op: str, o: dict[str, Any], ns: str = "s.c", **more: Any) -> dict[str, Any]:
    return {"ts": Timestamp(t, 1), "t": Int64(1), "v": 2, "op": op, "ns": ns, "ui": UUID, "o": o, **more}


def insert(t: int, number: int, **more: Any) -> dict[str, Any]:
    return entry(t, "i", {"_id": number}, **more)


def noop(t: int) -> dict[str, Any]:
    return entry(t, "n", {"msg": "periodic noop"}, "")


def group(t: int, *inner: dict[str, Any], previous: int | None = None, session: int = 1, **o: Any) -> dict[str, Any]:
    """A group of operations, of a transaction if ``previous`` is given: the second of the entry before, 0 for none."""
    operations = [{name: row[name] for name in ("op", "ns", "ui", "o", "o2") if name in row} for row in inner]
    more: dict[str, Any] = {}
    if previous is not None:
        link = NONE if previous == 0 else {"ts": Timestamp(previous, 1), "t": Int64(1)}
        more = {"lsid": {"id": session}, "txnNumber": Int64(1), "prevOpTime": link}
    return entry(t, "c", {"applyOps": operations, **o}, "admin.$cmd", **more)


class Source:
    """A replica set of one member: its oplog, and the collections that are live."""

    def __init__(self, *oplog: dict[str, Any], live: tuple[str, ...] = ("s.c",), version: str = "6.0.5") -> None:
        self.oplog = sorted(oplog, key=lambda row: row["ts"])
        self.live = live
        self.version = version
        self.refused: set[str] = set()

    async def command(self, name: str, *_: Any, **__: Any) -> dict[str, Any]:
        if name in ("shardingState", "replSetGetStatus"):
            raise RefusedError("no", code=59)
        return {
            "hello": {"setName": "rs", "me": "h:1", "lastWrite": {"majorityOpTime": {"ts": Timestamp(*NEWEST)}}},
            "buildInfo": {"version": self.version},
            "getParameter": {"featureCompatibilityVersion": {"version": self.version[:3]}},
            "collStats": {"size": 10, "maxSize": 1000},
            "getCmdLineOpts": {},
        }[name]

    async def find_one(self, ns: Namespace, query: dict[str, Any], *, sort: Any, **_: Any) -> dict[str, Any]:
        return self.oplog[0 if sort[0][1] > 0 else -1]

    async def extent(self, *_: Any, **__: Any) -> Extent:
        return Extent(0, 0)

    async def find_raw(
        self, ns: Namespace, query: dict[str, Any], *, sort: Any = (), limit: int = 0, **_: Any
    ) -> AsyncIterator[bytes]:
        rows = self.oplog if ns == OPLOG else []
        wanted = query.get("ts", {})
        bounds = wanted if isinstance(wanted, dict) else {"$gte": wanted, "$lte": wanted}
        rows = [row for row in rows if all(TESTS[test](row["ts"], edge) for test, edge in bounds.items())]
        if "ns" in query:
            rows = [row for row in rows if row["ns"] in query["ns"]["$in"]]
        rows = rows[::-1] if sort and sort[0][1] < 0 else rows
        yield b"".join(bson.encode(row) for row in rows[: limit or None])

    async def catch_up(self) -> float | None:
        return None

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        if db in self.refused:
            raise PrivilegeError("no")
        return [CollectionInfo(Namespace.parse(ns), "collection", {}) for ns in self.live if ns.startswith(f"{db}.")]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        return []


def backup(folder: Path, *ids: int, sidecar: bool = False, began: Ts = BACKUP_BEGAN) -> Path:
    """A dump of ``s.c``."""
    (folder / "s").mkdir(parents=True)
    (folder / "s" / "c.bson").write_bytes(b"".join(bson.encode({"_id": one}) for one in ids))
    metadata = {
        "indexes": [{"v": 2, "key": {"_id": 1}, "name": "_id_"}],
        "uuid": bytes(UUID).hex(),
        "collectionName": "c",
    }
    (folder / "s" / "c.metadata.json").write_text(json.dumps(metadata))
    if sidecar:
        (folder / "pitr.json").write_text(
            json.dumps({"format": 1, "term": 1, "before": str(began), "after": str(began)})
        )
    else:
        ends = (began, Ts(began.t + 1, 1))
        rows = [noop(ts.t) for ts in ends]
        (folder / "oplog.bson").write_bytes(b"".join(map(bson.encode, rows)))
    return folder


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A backup of two documents."""
    return backup(tmp_path / "dump", 1, 2)


async def proved(folder: Path, source: Source, **how: Any) -> Findings:
    request = RestoreRequest(folder, "mongodb://h:1/", **({"before": LIMIT} | how))
    return await prove(source, request)  # type: ignore[arg-type]


def assessed(found: Findings) -> Assessed:
    assert found.assessed is not None
    return found.assessed


@pytest.mark.parametrize(("hello", "check"), [({"msg": "isdbgrid"}, "sharded"), ({}, "no-oplog")])
async def test_nothing_more_is_read_where_no_oplog_can_be_replayed(dump: Path, hello: Any, check: str) -> None:
    class Alone(Source):
        async def command(self, name: str, *_: Any, **__: Any) -> dict[str, Any]:
            assert name in ("hello", "buildInfo", "shardingState")
            return {"hello": hello, "buildInfo": {"version": "6.0.5"}}.get(name, {})

    found = await proved(dump, Alone())
    assert (found.located, found.inputs.source_uri) == (None, None)
    assert {one.id for one in run_checks(found) if one.level is Level.BLOCK} == {check, "not-majority"}


@pytest.mark.parametrize(("sidecar", "begins"), [(False, 90), (True, 100)])
async def test_the_replay_begins_before_what_mongodump_may_have_missed(
    tmp_path: Path, sidecar: bool, begins: int
) -> None:
    source = Source(noop(80), noop(90), noop(95), noop(100), insert(150, 3), noop(200), noop(300))
    found = await proved(backup(tmp_path / "b", 1, 2, sidecar=sidecar), source)
    assert assessed(found).covered.start.ts == Ts(begins, 1)


@pytest.mark.parametrize("begins", [90, 95])
async def test_a_window_without_the_beginning_that_the_oplog_has_is_torn(dump: Path, begins: int) -> None:
    """Two members may hold different entries: the window would be read for ever."""

    class Torn(Source):
        async def find_raw(self, ns: Namespace, query: dict[str, Any], **how: Any) -> AsyncIterator[bytes]:
            oplog = self.oplog
            if isinstance(query.get("ts"), dict) and "$lt" in query["ts"]:
                self.oplog = [row for row in oplog if row["ts"].time != begins or row["op"] == "n"]
            batches = [batch async for batch in super().find_raw(ns, query, **how)]
            self.oplog = oplog
            for batch in batches:
                yield batch

    rows = [noop(80), noop(90), group(begins, previous=0, partialTxn=True), group(110, previous=begins)]
    rows = [row for row in rows if row["op"] != "n" or row["ts"].time != begins]
    found = assessed(await proved(dump, Torn(*rows, noop(200), noop(300))))
    assert found.covered.lost_beginning == Ts(begins, 1)


async def test_a_drop_that_a_lagging_member_lacks_is_waited_for(dump: Path) -> None:
    """A listing comes from the primary, and a find may go to a secondary."""

    class Lagging(Source):
        lags = True

        async def catch_up(self) -> float | None:
            self.lags = False
            return await super().catch_up()

        async def list_collections(self, db: str) -> list[CollectionInfo]:
            self.lags = True
            return await super().list_collections(db)

        async def find_raw(self, ns: Namespace, query: dict[str, Any], **how: Any) -> AsyncIterator[bytes]:
            oplog, self.oplog = self.oplog, self.oplog[: -1 if self.lags else None]
            batches = [batch async for batch in super().find_raw(ns, query, **how)]
            self.oplog = oplog
            for batch in batches:
                yield batch

    drop = entry(250, "c", {"drop": "c"}, "s.$cmd", ui=UUID, o2={"numRecords": 2})
    found = await proved(dump, Lagging(noop(90), noop(100), noop(200), drop, live=()))
    assert assessed(found).covered.stale == ()


@pytest.mark.parametrize(
    ("limit", "between"), [(150, False), (151, True), (152, False), (160, False), (161, True), (162, False)]
)
async def test_a_point_between_the_two_entries_of_a_time_series_is_none(dump: Path, limit: int, between: bool) -> None:
    options = {"timeseries": {"timeField": "at"}}
    bucket, view = "system.buckets.t", {"_id": "s.t", "viewOn": "system.buckets.t", "pipeline": []}
    rows = [
        noop(90),
        entry(150, "c", {"create": bucket, **options}, "s.$cmd", ui=OTHER),
        entry(151, "i", view, "s.system.views", ui=OTHER, o2={"_id": "s.t"}),
        entry(160, "d", {"_id": "s.t"}, "s.system.views", ui=OTHER),
        entry(161, "c", {"drop": bucket}, "s.$cmd", ui=OTHER, o2={"numRecords": 0}),
        noop(300),
    ]
    words = f"The point {limit}:1 is between the two entries that create or drop the time series s.t: "
    with pytest.raises(InputError, match=words) if between else nullcontext():
        await proved(dump, Source(*rows), before=Ts(limit, 1))


async def test_the_start_moves_back_to_the_first_of_all_transactions(dump: Path) -> None:
    rows = [
        noop(50), group(60, insert(60, 8), previous=0, partialTxn=True), noop(70),
        group(80, insert(80, 9), previous=0, session=2, partialTxn=True), noop(85), noop(90),
        group(110, previous=80, session=2), group(120, previous=60), noop(200), noop(300),
    ]  # fmt: skip
    found = assessed(await proved(dump, Source(*rows)))
    assert (found.covered.start.ts, found.covered.moved_for_transaction) == (Ts(60, 1), True)
    assert found.covered.lost_beginning is None
    assert found.replayed.base.documents == {"s.c": 4}


@pytest.mark.parametrize("held", [[], [80]], ids=["none of both", "one of two"])
async def test_a_transaction_whose_beginning_is_lost_is_named(dump: Path, held: list[int]) -> None:
    rows = [noop(70), noop(90), group(110, previous=80, session=2), group(120, previous=60), noop(200), noop(300)]
    rows += [group(t, previous=0, session=2, partialTxn=True) for t in held]
    found = assessed(await proved(dump, Source(*rows)))
    assert found.covered.lost_beginning in (Ts(60, 1), Ts(80, 1))


@pytest.mark.parametrize(
    ("at_limit", "held"),
    [
        (insert(200, 7), (4, Ts(200, 1))),
        (insert(201, 7), (3, Ts(150, 1))),
        (entry(200, "u", {"$v": 2}, "config.transactions", o2={"_id": 1}), (3, Ts(150, 1))),
    ],
)
async def test_the_replay_file_holds_the_window_and_the_entry_at_the_limit(
    dump: Path, at_limit: dict[str, Any], held: tuple[int, Ts]
) -> None:
    found = assessed(await proved(dump, Source(noop(90), insert(110, 3), insert(150, 4), at_limit, noop(300))))
    made = found.replayed.slice
    assert isinstance(made, Slice)
    assert (made.entries, made.first, made.last) == (held[0], Ts(90, 1), held[1])


@pytest.mark.parametrize(("version", "left_out"), [("6.0.5", False), ("8.0.4", False), ("8.1.0", True)])
async def test_an_update_of_what_is_gone_is_left_out_where_it_would_stop_the_replay(
    dump: Path, version: str, left_out: bool
) -> None:
    update = entry(95, "u", {"$v": 2, "diff": {}}, o2={"_id": 77})
    rows = [noop(90), update, entry(96, "d", {"_id": 77}), insert(150, 3), noop(200), noop(300)]
    found = assessed(await proved(dump, Source(*rows, version=version)))
    assert found.covered.replay.without == (frozenset({Ts(95, 1)}) if left_out else frozenset())
    assert found.covered.replay.applied == (2 if left_out else 3)
    assert found.replayed.base.documents == {"s.c": 3}


async def test_a_group_on_a_collection_gone_before_the_backup_is_left_out(dump: Path) -> None:
    ghost = insert(95, 1, ui=GONE) | {"ns": "s.gone"}
    drop = entry(97, "c", {"drop": "gone"}, "s.$cmd") | {"ui": GONE}
    rows = [noop(90), group(95, ghost, insert(95, 2)), drop, noop(200), noop(300)]
    found = assessed(await proved(dump, Source(*rows)))
    assert found.covered.replay.without == {Ts(95, 1)}
    assert found.covered.replay.problems == []
    late = entry(150, "c", {"drop": "gone"}, "s.$cmd") | {"ui": GONE}
    rows[2] = late
    kept = assessed(await proved(dump, Source(*rows)))
    assert "dead-operation" in {problem.kind for problem in kept.covered.replay.problems}


async def test_a_collection_missing_from_the_backup_is_reported_and_blocks(dump: Path) -> None:
    rows = [noop(90), insert(150, 1, ui=GONE) | {"ns": "s.lacking"}, noop(200), noop(300)]
    found = assessed(await proved(dump, Source(*rows)))
    assert [problem.kind for problem in found.covered.replay.problems] == ["base-incomplete"]
    request = RestoreRequest(dump, "mongodb://h:1/", before=LIMIT)
    plan = await plan_restore(Source(*rows), request)  # type: ignore[arg-type]
    assert (plan.level, plan.steps.commands) == (Level.BLOCK, ())
    rows = [noop(90), noop(100), noop(101), insert(150, 3), noop(200), noop(300)]
    fine = await plan_restore(Source(*rows), request)  # type: ignore[arg-type]
    assert fine.level is Level.WARN
    titles = [step.title for step in fine.steps.commands]
    assert "Stage the backup" in titles
    assert not any("archive" in title or "Decompress" in title for title in titles)


async def test_everything_from_the_limit_on_is_lost(dump: Path) -> None:
    open_one = group(150, insert(150, 10), insert(150, 11), previous=0, partialTxn=True)
    rows = [noop(90), insert(110, 3), open_one, insert(200, 12), group(210, previous=150), insert(250, 13), noop(300)]
    found = assessed(await proved(dump, Source(*rows)))
    assert found.loss.changed["s.c"].inserts == 4
    assert found.inferred is not None
    assert found.inferred.accident.last == NEWEST
    assert found.replayed.base.documents == {"s.c": 3}
    nothing = assessed(await proved(dump, Source(noop(90), insert(110, 3), noop(150)), before=Ts(150, 1)))
    assert nothing.loss.changed == {}
    assert nothing.inferred is not None
    assert nothing.inferred.accident.last == Ts(150, 1)


async def test_a_database_that_may_not_be_listed_is_not_taken_for_empty(dump: Path) -> None:
    incident = Incident(1, "drop", "drop", "s.c", Harm.LOSS, LIMIT, LIMIT, None, None, 1, None)
    drop = entry(200, "c", {"drop": "c"}, "s.$cmd")
    source = Source(noop(90), insert(110, 3), drop, noop(300), live=())
    (whole,) = assessed(await proved(dump, source, before=None, incident=incident)).returns
    source.refused.add("s")
    (beside,) = assessed(await proved(dump, source, before=None, incident=incident)).returns
    assert (whole.beside != "", beside.beside) == (True, "")


class Younger(Source):
    """Another member than the one that is asked for single entries is read through: its oplog begins later."""

    async def find_raw(self, ns: Namespace, query: dict[str, Any], **how: Any) -> AsyncIterator[bytes]:
        held = [row for row in self.oplog if how.get("limit") == 1 or row["ts"] > Timestamp(110, 1)]
        async for batch in Source.find_raw(Source(*held), ns, query, **how):
            yield batch


@pytest.mark.parametrize(("member", "is_cut"), [(Source, False), (Younger, True)])
async def test_a_window_that_another_member_does_not_hold_whole_is_cut(
    dump: Path, member: type[Source], is_cut: bool
) -> None:
    rows = (noop(90), insert(110, 3), insert(150, 4), noop(200), noop(300))
    found = await proved(dump, member(*rows))
    assert found.covered is not None
    assert (found.covered.start.ts, found.covered.is_cut) == (Ts(90, 1), is_cut)


@pytest.mark.parametrize("before", [Ts(90, 1), Ts(80, 1)])
async def test_there_is_no_window_before_its_start(dump: Path, before: Ts) -> None:
    found = await proved(dump, Source(noop(70), noop(90), noop(200), noop(300)), before=before)
    assert found.located is not None
    assert found.covered is None


class Ends(Source):
    """Refuses to be read through."""

    async def find_raw(self, ns: Namespace, query: dict[str, Any], **how: Any) -> AsyncIterator[bytes]:
        assert how.get("limit") == 1, "nothing but single entries is read"
        async for batch in super().find_raw(ns, query, **how):
            yield batch


async def test_the_first_answer_reads_the_ends_of_the_oplog_alone(dump: Path) -> None:
    rows = [noop(90), noop(100), noop(101), insert(110, 3), insert(150, 4), noop(200), noop(300)]
    request = RestoreRequest(dump, "mongodb://me:secret@h:1/", before=LIMIT)
    found = await quick_answer(Ends(*rows), request)  # type: ignore[arg-type]
    assert (found.start, found.blocking) == (Ts(90, 1), ())
    assert found.save.startswith("umask 077; mongodump")
    assert "secret" not in found.save
    query = json.loads(next(word for word in shlex.split(found.save) if word.startswith("--query="))[8:])
    assert query["ts"] == {"$gte": {"$timestamp": {"t": 90, "i": 1}}, "$lte": {"$timestamp": {"t": 200, "i": 1}}}
    none = await quick_answer(Ends(*rows), replace(request, before=Ts(90, 1)))  # type: ignore[arg-type]
    assert (none.start, none.save) == (None, ""), "nothing lies between"
    late = await quick_answer(Ends(*rows[4:]), request)  # type: ignore[arg-type]
    assert (late.start, late.save) == (None, "")
    assert [check.id for check in late.blocking] == ["coverage"]


async def test_the_proof_tells_how_far_it_is(dump: Path) -> None:
    rows = [noop(90), insert(110, 3), insert(150, 4), noop(200), insert(250, 9), noop(300)]
    steps: list[Step] = []
    request = RestoreRequest(dump, "mongodb://h:1/", before=LIMIT)
    await prove(Source(*rows), request, steps.append)  # type: ignore[arg-type]
    assert [(step.entries, step.at, step.share) for step in steps] == [
        (3, Ts(150, 1), pytest.approx(60 / 210)),
        (3, Ts(250, 1), pytest.approx(160 / 210)),
    ]


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (insert(5, 7), "5:1 s.c insert "),
        (entry(5, "d", {"_id": 7}), "5:1 s.c "),
        (entry(5, "c", {"drop": "c"}, "s.$cmd"), "5:1 s.c drop"),
    ],
)
def test_the_entries_around_the_point_are_named_by_what_they_do(row: dict[str, Any], shown: str) -> None:
    line = entry_line(read_entry(bson.encode(row)))
    assert line.startswith(shown)
    assert line.count("insert") == shown.count("insert")
    assert entry_line(None) == ""


@pytest.mark.parametrize(
    ("form", "gzip", "reads"), [(DIRECTORY, True, True), (DIRECTORY, False, False), (ARCHIVE, True, False)]
)
def test_an_archive_is_no_longer_compressed_when_the_oplog_is_replayed(form: str, gzip: bool, reads: bool) -> None:
    assert reads_gzip(Backup(Path("/b"), form, gzip, None, None, "oplog")) is reads
