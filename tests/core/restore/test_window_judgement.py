"""What can be restored from what is stored: the window, its state for monitoring, and its metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp, encode

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.moment import Ts
from tallyglass.restore.backup.backup import DATA_FILES, DIRECTORY, Contents
from tallyglass.restore.catalogue.backups import Listed, why_unfit
from tallyglass.restore.catalogue.window import (
    RecoverableWindow,
    Status,
    Stretch,
    _merged,
    families,
    find_window,
    judge,
)
from tallyglass.restore.model.source import Backup

SET = Deployment(Kind.REPLICA_SET, "6.0.5", set_name="rs")
BACKUP = Backup(Path("b"), DIRECTORY, False, Ts(9, 1), Ts(10, 1), "oplog", "6.0.5")


def stretch(first: int, last: int) -> Stretch:
    return Stretch(Ts(first, 1), Ts(last, 1))


def listed(name: str, end: int | None, why: str = "", *, compared: bool = True) -> Listed:
    backup = None if end is None else replace(BACKUP, end=Ts(end, 1))
    return Listed(Path(name), backup, why, compared)


def window(*restorable: Stretch, bases: tuple[Listed, ...] = (), **more: Any) -> RecoverableWindow:
    return RecoverableWindow(bases, restorable, restorable, **more)


@pytest.mark.parametrize(
    ("found", "holes", "seconds"),
    [
        (window(), (), 0),
        (window(stretch(10, 50)), (), 40),
        (window(stretch(10, 50), stretch(60, 90)), (stretch(50, 60),), 30),
        (window(stretch(10, 50), newest=Ts(50, 1)), (), 40),
        (window(stretch(10, 50), newest=Ts(49, 1)), (), 40),
        (window(stretch(10, 50), newest=Ts(51, 1)), (stretch(50, 51),), 40),
        (window(newest=Ts(51, 1)), (), 0),
    ],
)
def test_a_hole_lies_between_what_can_be_restored_and_what_there_is(
    found: RecoverableWindow, holes: tuple[Stretch, ...], seconds: int
) -> None:
    assert (found.holes, found.seconds) == (holes, seconds)


def test_the_newest_base_ended_last_or_cannot_be_read() -> None:
    unread, old, new = listed("unread", None), listed("old", 10), listed("new", 20)
    assert window(bases=(unread, new, old)).newest_base == new
    assert window(bases=(unread,)).newest_base == unread
    assert window().newest_base is None


ALL_WELL = window(stretch(0, 7_200), bases=(listed("new", 10),), newest=Ts(7_200, 1), hours_left=2.0)


@pytest.mark.parametrize(
    ("change", "status", "reasons"),
    [
        ({}, Status.OK, ()),
        ({"restorable": ()}, Status.CRITICAL, ("nothing can be restored",)),
        (
            {"bases": (listed("new", 10, "It is damaged."),)},
            Status.CRITICAL,
            ("the newest base, new, cannot be proven: It is damaged.",),
        ),
        (
            {
                "bases": (
                    listed("new", 10),
                    listed("old", 9, "It is old."),
                    listed("x", 8, "It is cut.", compared=False),
                )
            },
            Status.WARNING,
            ("the base x cannot be used: It is cut.",),
        ),
        ({"newest": Ts(7_201, 1)}, Status.CRITICAL, ("nothing after 1970-01-01T02:00:00Z can be restored",)),
        (
            {"restorable": (stretch(-7_200, -60), stretch(0, 7_200))},
            Status.WARNING,
            ("a hole from 1969-12-31T23:59:00Z to 1970-01-01T00:00:00Z",),
        ),
        ({"problems": ("a slice is damaged",)}, Status.WARNING, ("a slice is damaged",)),
        ({"restorable": (stretch(1, 7_200),)}, Status.WARNING, ("the window is 2.0 h long, less than 2 h",)),
        (
            {"hours_left": 1.99},
            Status.WARNING,
            ("in 2.0 h the live oplog no longer continues the newest slice",),
        ),
        ({"hours_left": None}, Status.OK, ()),
    ],
)
def test_the_state_is_that_of_the_worst_reason(
    change: dict[str, Any], status: Status, reasons: tuple[str, ...]
) -> None:
    found = replace(ALL_WELL, **change)
    assert judge(found, least_hours=2, head_room_hours=2) == (status, reasons)


@pytest.mark.parametrize(
    ("found", "values"),
    [
        (
            ALL_WELL,
            {"status": 1, "seconds": 7_200, "start_timestamp_seconds": 0, "end_timestamp_seconds": 7_200, "holes": 0,
             "head_room_seconds": 7_200},
        ),
        (window(), {"status": 1, "seconds": 0, "holes": 0}),
    ],
)  # fmt: skip
def test_the_metrics_leave_out_what_is_not_known(found: RecoverableWindow, values: dict[str, float]) -> None:
    rows = {one.name.partition("restore_window_")[2]: one.rows[0][1] for one in families(found, 1)}
    assert rows == values


@pytest.mark.parametrize(
    ("change", "more", "why"),
    [
        ({}, {}, ""),
        ({}, {"problems": ("a is missing", "b is missing")}, "It is damaged or incomplete: a is missing."),
        ({"form": DATA_FILES}, {}, "Data files are read through a mongod that runs on them: plan with --spare."),
        ({"start": None}, {}, "It does not record when it began. mongodump --oplog records that."),
        ({}, {"set_name": "rs"}, ""),
        ({}, {"set_name": "other"}, "It is from the set other, not from rs."),
        ({"server_version": "6.0.27"}, {}, ""),
        ({"server_version": ""}, {}, ""),
        ({"server_version": "5.0.5"}, {}, "It was made on MongoDB 5.0.5; the source runs 6.0.5."),
    ],
)
def test_a_backup_says_why_it_does_not_fit(change: dict[str, Any], more: dict[str, Any], why: str) -> None:
    contents = Contents(replace(BACKUP, **change), **more)
    assert why_unfit(contents, SET) == why
    of_the_set = bool(more.get("set_name")) or "server_version" in change
    assert why_unfit(contents, None) == ("" if of_the_set else why)


TOO_LATE = "The oplog does not reach back to it: its oldest entry is 1006:1, and 995:1 is needed."


@pytest.mark.parametrize(
    ("slices", "restorable", "why"),
    [
        (range(900, 1_020), (stretch(1_006, 1_019),), ""),
        (range(900, 1_007), (stretch(1_006, 1_006),), ""),
        (range(900, 1_006), (), "No oplog reaches to 1006:1."),
        (range(1_006, 1_020), (), TOO_LATE),
    ],
)
async def test_a_base_is_proven_by_the_slices_that_continue_it(
    tmp_path: Path, slices: range, restorable: tuple[Stretch, ...], why: str
) -> None:
    def entries(times: Any) -> bytes:
        rows = ({"ts": Timestamp(t, 1), "t": 1, "op": "n", "ns": "", "o": {}} for t in times)
        return b"".join(map(encode, rows))

    base, saved = tmp_path / "monday", tmp_path / "oplog.rs.bson"
    (base / "shop").mkdir(parents=True)
    (base / "shop" / "a.bson").write_bytes(encode({"_id": 1}))
    (base / "shop" / "a.metadata.json").write_text('{"indexes": [], "type": "collection", "collectionName": "a"}')
    (base / "oplog.bson").write_bytes(entries((1_005, 1_006)))
    saved.write_bytes(entries(slices))
    found = await find_window([base], [saved])
    (judged,) = found.bases
    assert (found.oplog, found.restorable) == ((stretch(slices[0], slices[-1]),), restorable)
    assert (judged.path, judged.compared, judged.provable, judged.why) == (base, True, not why, why)


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ([], ()),
        ([(1, 5), (3, 4)], [(1, 5)]),
        ([(3, 9), (1, 5), (9, 12)], [(1, 12)]),
        ([(6, 9), (1, 5)], [(1, 5), (6, 9)]),
        ([(1, 5), (7, 9), (8, 10), (8, 8)], [(1, 5), (7, 10)]),
    ],
)
def test_stretches_that_touch_are_one(given: list[tuple[int, int]], merged: list[tuple[int, int]]) -> None:
    assert _merged(stretch(*ends) for ends in given) == tuple(stretch(*ends) for ends in merged)
