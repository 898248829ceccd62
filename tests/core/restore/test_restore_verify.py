"""The proof afterwards: any difference between the spare and the computed state blocks the return."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.plans import changed, make_plan
from tallyglass.errors import InputError, PrivilegeError, ReadError, TallyglassError
from tallyglass.moment import Ts, from_seconds
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.restore.backup.backup import DIRECTORY
from tallyglass.restore.model.check import Check, Level, block, ok
from tallyglass.restore.model.indexes import canonical_index, canonical_options
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.source import Backup, FromBackup
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.spare.spare import VIEW_OPENER
from tallyglass.restore.spare.verify import Verification, check_unchanged, verify
from tallyglass.restore.spare.writes import check_unwritten, count_writes, note_writes

ID = {"v": 2, "key": {"_id": 1}, "name": "_id_"}
BY_X = {"v": 2, "key": {"x": 1}, "name": "x_1"}
CAPPED = {"capped": True, "size": 4096}
BACKUP = Backup(Path("/b"), DIRECTORY, False, Ts(5, 1), None, "oplog")
EXPECTED = (
    ExpectedNamespace("s.c", "collection", 3, tuple(map(canonical_index, (ID, BY_X))), canonical_options(CAPPED)),
    ExpectedNamespace("s.v", "view", None, (), canonical_options({"viewOn": "c"})),
)
PLAN = make_plan(
    Ts(9, 1), FromBackup(BACKUP, "s:2"), from_seconds(99), start=Ts(5, 1), expected=EXPECTED, expected_applied=7,
)  # fmt: skip


class Spare:
    """A spare with the given contents: by default those that the plan computed."""

    def __init__(self) -> None:
        self.collections = {
            "s.c": CollectionInfo(Namespace("s", "c"), "collection", CAPPED),
            "s.v": CollectionInfo(Namespace("s", "v"), "view", {"viewOn": "c"}),
            "s.system.views": CollectionInfo(Namespace("s", "system.views"), "collection", {}),
            "admin.system.version": CollectionInfo(Namespace("admin", "system.version"), "collection", {}),
        }
        self.documents = 3
        clustered = {"v": 2, "key": {"_id": 1}, "name": "c", "unique": True, "clustered": True}
        self.indexes: list[dict[str, Any]] = [ID, BY_X, clustered]

    async def list_databases(self) -> list[str]:
        return sorted({ns.partition(".")[0] for ns in self.collections})

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [info for info in self.collections.values() if info.ns.db == db]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        return self.indexes

    async def count(self, ns: Namespace, **_: Any) -> int:
        return self.documents

    def put(self, ns: str, kind: str = "collection", options: dict[str, Any] | None = None) -> None:
        self.collections[ns] = CollectionInfo(Namespace.parse(ns), kind, options or {})


async def blocked(spare: Spare, log: Path | None = None, plan: Plan = PLAN) -> tuple[set[str], tuple[str, ...]]:
    found = await verify(plan, spare, log=log)  # type: ignore[arg-type]
    names = {check.id for check in found.checks if check.level is Level.BLOCK}
    assert (found.level is Level.BLOCK) is bool(names)
    return names, found.repair


async def test_what_could_not_be_counted_is_named() -> None:
    (collection, view), spare = EXPECTED, Spare()
    spare.documents = 7
    found = await verify(changed(PLAN, expected=(replace(collection, documents=None), view)), spare)  # type: ignore[arg-type]
    assert found.level is Level.WARN
    assert ["s.c: how many" in check.title for check in found.checks if check.id == "counts-not-computed"] == [True]


async def test_all_that_a_spare_as_computed_shows(tmp_path: Path) -> None:
    log, spare = tmp_path / "replay.log", Spare()
    log.write_text(log_of(APPLIED.format(7), END.format(0)))
    right = ok("namespace", "s.c is as computed."), ok("namespace", "s.v is as computed.")
    all_right = ok("verified", "2 of 2 collections and views are as computed.")
    assert await verify(PLAN, spare, log=log) == Verification(  # type: ignore[arg-type]
        (ok("applied", "7 operations were applied, as computed."), *right, all_right)
    )
    spare.documents = 2
    wrong = block("documents", "s.c holds 2 documents; 3 were computed.")
    half = ok("verified", "1 of 2 collections and views are as computed.")
    assert await verify(PLAN, spare) == Verification((wrong, right[1], half))  # type: ignore[arg-type]


async def test_the_documents_of_a_time_series_are_counted_where_they_are() -> None:
    spare, counted = Spare(), []

    async def count(ns: Namespace, **_: Any) -> int:
        counted.append(str(ns))
        return 5

    spare.count = count  # type: ignore[method-assign]
    spare.put("s.t", "timeseries", {"timeseries": {"timeField": "at"}})
    spare.put("s.system.buckets.t")
    expected = ExpectedNamespace("s.t", "timeseries", 5, tuple(map(canonical_index, (ID, BY_X))), "{}")
    assert await blocked(spare, plan=changed(PLAN, expected=(expected,))) == (
        {"leftover"},
        tuple(
            f'db.getSiblingDB("s").runCommand({{"drop": "{name}", "writeConcern": {{"w": "majority"}}}});'
            for name in "cv"
        ),
    )
    assert counted == ["s.system.buckets.t"]


async def test_the_indexes_and_the_expiry_of_a_time_series_are_compared() -> None:
    """What the oplog has of its other options is of its buckets; a partial filter takes no collation beside it."""
    spare = Spare()
    del spare.collections["s.c"], spare.collections["s.v"]
    part = {"key": {"at": 1}, "name": "part", "partialFilterExpression": {"m": 1}}
    series = {"timeseries": {"timeField": "at"}, "expireAfterSeconds": 60, "collation": {"locale": "fr"}}
    spare.put("s.t", "timeseries", series)
    spare.put("s.system.buckets.t")
    expected = ExpectedNamespace(
        "s.t", "timeseries", 3, tuple(map(canonical_index, (ID, BY_X))), canonical_options(series, "timeseries")
    )
    plan = changed(PLAN, expected=(expected,))
    assert await blocked(spare, plan=plan) == (set(), ())
    wanted = replace(expected, indexes=tuple(map(canonical_index, (ID, part))), options="{}")
    found, repair = await blocked(spare, plan=changed(PLAN, expected=(wanted,)))
    assert found == {"index-surplus", "index-missing", "options"}
    drop, create = repair
    assert ['"x_1"' in drop, '"part"' in create, "collation" in create] == [True, True, False]


@pytest.mark.parametrize("count", [2, 4])
async def test_another_number_of_documents(count: int) -> None:
    spare = Spare()
    spare.documents = count
    assert (await blocked(spare))[0] == {"documents"}


async def test_another_kind_or_other_options() -> None:
    spare = Spare()
    spare.put("s.v", "collection", {"viewOn": "c"})
    assert (await blocked(spare))[0] == {"namespace"}
    spare = Spare()
    spare.put("s.c", "collection", CAPPED | {"size": 8192})
    assert (await blocked(spare))[0] == {"options"}
    del spare.collections["s.c"]
    assert (await blocked(spare))[0] == {"namespace"}


@pytest.mark.parametrize(
    ("row", "right"),
    [
        (Return("s.c", Strategy.WHOLE), True),
        (Return("s.c", Strategy.COPY, "s.d"), True),
        (Return("s.c", Strategy.MERGE, "s.d"), False),
    ],
)
async def test_an_expiry_that_a_step_turned_off_is_no_difference(row: Return, right: bool) -> None:
    item = replace(EXPECTED[0], options=canonical_options(CAPPED | {"expireAfterSeconds": 60}))
    plan, spare = changed(PLAN, expected=(item, EXPECTED[1]), returns=(row,)), Spare()
    assert (await blocked(spare, plan=plan))[0] == (set() if right else {"options"})
    for options, differs in (
        ({"expireAfterSeconds": 60}, False),
        ({"expireAfterSeconds": 61}, True),
        ({"max": 1}, True),
    ):
        spare.put("s.c", "collection", CAPPED | options)
        assert (await blocked(spare, plan=plan))[0] == ({"options"} if differs else set())


async def test_indexes_that_are_missing_or_too_many_are_repaired() -> None:
    spare = Spare()
    spare.indexes = [ID]
    names, (repair,) = await blocked(spare)
    assert names == {"index-missing"}
    assert "createIndexes" in repair
    spare.indexes = [ID, BY_X, {"v": 2, "key": {"y": 1}, "name": "y_1"}]
    names, (repair,) = await blocked(spare)
    assert names == {"index-surplus"}
    assert '"dropIndexes": "c"' in repair
    assert '"y_1"' in repair


async def test_what_was_not_computed_is_left_over() -> None:
    spare = Spare()
    for ns in ("s.other", "t.x", f"t.{VIEW_OPENER}"):
        spare.put(ns)
    names, repair = await blocked(spare)
    assert names == {"leftover"}
    assert [f'"drop": "{name}"' in text for name, text in zip(("other", VIEW_OPENER, "x"), repair, strict=True)] == [
        True for _ in repair
    ]


def log_of(applied: str, end: str) -> str:
    return f"2026-11-22T04:00:00.000+0000\treplaying oplog\n{applied}{end}\n"


APPLIED = "2026-11-22T04:00:01.000+0000\tapplied {} oplog entries\n"
END = "2026-11-22T04:00:02.000+0000\t3 document(s) restored successfully. {} document(s) failed to restore."


@pytest.mark.parametrize(
    ("log", "names"),
    [
        (log_of(APPLIED.format(7), END.format(0)), set()),
        (log_of(APPLIED.format(6) + APPLIED.format(7), END.format(0)), set()),
        (log_of(APPLIED.format(6), END.format(0)), {"applied"}),
        (log_of(APPLIED.format(8), END.format(0)), {"applied"}),
        (log_of("", END.format(0)), {"applied"}),
        (log_of("2026\tapplied 7 oplog entries to x\n", END.format(0)), {"applied"}),
        (log_of(APPLIED.format(7), END.format(1)), {"failed-documents"}),
        (log_of(APPLIED.format(7), "2026-11-22T04:00:02.000+0000\trestoring s.c"), {"failed-documents"}),
    ],
)
async def test_the_tool_must_say_that_it_applied_what_was_computed(tmp_path: Path, log: str, names: set[str]) -> None:
    file = tmp_path / "replay.log"
    file.write_text(log)
    assert (await blocked(Spare(), file))[0] == names


async def test_an_unreadable_log_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        await blocked(Spare(), tmp_path / "none")


async def test_a_count_that_was_not_computed_is_not_compared() -> None:
    spare = Spare()
    spare.documents = 99
    unknown = changed(PLAN, expected=(replace(EXPECTED[0], documents=None), EXPECTED[1]))
    assert (await blocked(spare, plan=unknown))[0] == set()


async def test_nothing_is_verified_of_a_blocked_plan() -> None:
    blocked = changed(PLAN, expected=(), checks=(Check("coverage", Level.BLOCK, "Gone."),))
    found = await verify(blocked, Spare())  # type: ignore[arg-type]
    assert found.level is Level.BLOCK
    assert [check.id for check in found.checks] == ["plan-blocked"]
    assert not found.repair
    empty = Spare()
    empty.collections.clear()
    right = await verify(changed(PLAN, expected=()), empty)  # type: ignore[arg-type]
    assert (right.level, "0 of 0" in right.checks[-1].title) == (Level.OK, False)


@pytest.mark.parametrize(
    ("noted", "counted", "changed_since"),
    [
        (3, None, False),
        (4, None, False),
        (2, 3, False),
        (2, 2, True),
        (PrivilegeError("may not"), 3, False),
        (ReadError("there is none"), 0, True),
    ],
)
@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_spare_that_lacks_documents_is_read_no_more(
    strategy: Strategy, noted: int | TallyglassError, counted: int | None, changed_since: bool
) -> None:
    class Counted:
        async def command(self, name: str, value: str, *, db: str) -> dict[str, Any]:
            assert (name, value, db) == ("collStats", "c", "s")
            if isinstance(noted, TallyglassError):
                raise noted
            return {"count": noted}

        async def count(self, ns: Namespace, *, time_ms: int) -> int:
            assert (str(ns), time_ms) == ("s.c", 3_600_000)
            assert counted is not None, "a scan of a large collection takes minutes"
            return counted

    others = (Return("s.v", Strategy.WHOLE), Return("s.new", Strategy.MERGE))
    await check_unchanged(changed(PLAN, returns=others), None)  # type: ignore[arg-type]
    plan = changed(PLAN, returns=(*others, Return("s.c", strategy)))
    words = rf"s\.c holds {counted} documents there, not 3\. What it lacks is neither "
    with pytest.raises(InputError, match=words) if changed_since else nullcontext():
        await check_unchanged(plan, Counted())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("process", "count", "raised", "changed_since"),
    [(1, 5, "", False), (1, 6, "", True), (1, 0, "", True), (2, 0, "", False), (1, 6, "x.updateOne()", True),
     (1, 6, 'getCollection("c").updateOne()', False)],
)  # fmt: skip
async def test_a_spare_that_was_written_to_is_read_no_more(
    tmp_path: Path, process: int, count: int, raised: str, changed_since: bool
) -> None:
    class Counting:
        process, count = 1, 5

        async def command(self, name: str) -> dict[str, Any]:
            usage = {"note": "all times in microseconds", "s.c": {"writeLock": {"time": 9, "count": self.count}}}
            return {"serverStatus": {"pid": self.process}, "top": {"totals": usage if self.count else {}}}[name]

    plan, spare = changed(PLAN, returns=(Return("s.c", Strategy.MERGE),)), Counting()
    await check_unwritten(plan, spare, tmp_path)  # type: ignore[arg-type]
    note_writes(tmp_path, await count_writes(plan, spare))  # type: ignore[arg-type]
    (tmp_path / "raise-spare.js").write_text(raised)
    spare.process, spare.count = process, count
    with pytest.raises(InputError, match=r"s\.c was written to there") if changed_since else nullcontext():
        await check_unwritten(plan, spare, tmp_path)  # type: ignore[arg-type]


async def test_who_may_not_see_the_writes_of_a_spare_is_not_stopped(tmp_path: Path) -> None:
    class Closed:
        async def command(self, name: str) -> dict[str, Any]:
            raise PrivilegeError("may not")

    note_writes(tmp_path, await count_writes(PLAN, Closed()))  # type: ignore[arg-type]
    await check_unwritten(PLAN, Closed(), tmp_path)  # type: ignore[arg-type]
