"""Which way a plan takes, what it refuses before it reads, and where it may be written."""

from __future__ import annotations

import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from builders.history import COLLECTION
from builders.incidents import incident
from builders.plans import changed, make_plan
from builders.replay import insert
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.source import FromImages
from tallyglass.restore.model.step import Command, Phase
from tallyglass.restore.model.undo import Choice
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, WITHOUT_SPARE, Way
from tallyglass.restore.plan import make, way_from_images, ways
from tallyglass.restore.plan.folder import check_free, mode_of
from tallyglass.restore.plan.precheck import QuickAnswer
from tallyglass.restore.plan.prepare import Preparation
from tallyglass.restore.plan.ways import Decision, possible_ways
from tallyglass.restore.pre_images.settings import ROLE, Retention, how_to_enable
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.undo.evidence import KnownStatement

LOST = incident(1, 50, ns="shop.orders", title="deleteMany on shop.orders")
LIMIT, START = LOST.limit, Ts(5, 1)
FOLDER, NEWEST = Path("/b"), Path("/b/2")
WANTED = RestoreRequest(FOLDER, "mongodb://h/", incident=LOST)
REACHED = QuickAnswer(LIMIT, START, 7.25, (), "")
REACHES = f"the oplog reaches from {START} to {LIMIT}"
DISK = Check("disk", Level.BLOCK, "Full.", "Make room.")
PLAN = make_plan(LIMIT, FromImages(), datetime.now(UTC), commands=(Command(Phase.SECURE, "a", (), "true"),))
BLOCKED = changed(PLAN, checks=(DISK,))


@pytest.mark.parametrize(
    ("request_", "answer", "way"),
    [
        (
            WANTED,
            REACHED,
            Way(FROM_BACKUP, True, f"Restores the whole backup on a spare and replays the oplog from {START}."),
        ),
        (replace(WANTED, backup=None), REACHED, Way(FROM_BACKUP, None, "No backup is named.")),
        (WANTED, InputError("Gone.", "Look."), Way(FROM_BACKUP, False, "Gone.", "Look.")),
        (
            WANTED,
            replace(REACHED, blocking=(DISK, replace(DISK, title="x"))),
            Way(FROM_BACKUP, False, "Full.", "Make room."),
        ),
        (
            WANTED,
            replace(REACHED, start=None),
            Way(FROM_BACKUP, False, "The oplog does not reach from the backup to the point."),
        ),
    ],
)
async def test_the_backup_is_a_way_as_far_as_a_first_look_tells(
    monkeypatch: pytest.MonkeyPatch, request_: RestoreRequest, answer: Any, way: Way
) -> None:
    asked = AsyncMock(side_effect=[answer])
    monkeypatch.setattr(ways, "newest_backup", AsyncMock(return_value=NEWEST))
    monkeypatch.setattr(ways, "quick_answer", asked)
    images = Way(FROM_IMAGES, None, "")
    monkeypatch.setattr(ways, "way_from_images", AsyncMock(return_value=images))
    found = await possible_ways(AsyncMock(), LOST, request_)
    assert found == ((way, images) if way.possible else (images, way)), "the best first"
    assert [call.args[1] for call in asked.call_args_list] == [replace(WANTED, backup=NEWEST)] * bool(request_.backup)
    expired = (await possible_ways(AsyncMock(), replace(LOST, kind="ttl"), request_))[1]
    assert (expired.possible, expired.why.split(":")[0]) == (False, "These documents expired")


@pytest.mark.parametrize(
    ("changes", "image", "newest", "steps"),
    [
        ({}, PLAN, NEWEST, [FROM_IMAGES, PLAN]),
        ({}, BLOCKED, NEWEST, [FROM_IMAGES, BLOCKED, FROM_BACKUP, NEWEST, REACHED, PLAN]),
        ({"backup": None}, BLOCKED, NEWEST, [FROM_IMAGES, BLOCKED]),
        ({"way": FROM_BACKUP}, PLAN, FOLDER, [FROM_BACKUP, REACHED, PLAN]),
        ({"way": FROM_BACKUP, "backup": None}, PLAN, FOLDER, [FROM_BACKUP, REACHED, PLAN]),
    ],
)
async def test_a_plan_from_a_backup_follows_a_blocked_one_from_images(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], image: Any, newest: Path, steps: list[Any]
) -> None:
    images, backup, first = AsyncMock(return_value=image), AsyncMock(return_value=PLAN), AsyncMock(return_value=REACHED)
    monkeypatch.setattr(make, "possible_ways", AsyncMock(return_value=(Way(FROM_IMAGES, True, ""),)))
    monkeypatch.setattr(make, "plan_undo", images)
    monkeypatch.setattr(make, "plan_restore", backup)
    monkeypatch.setattr(make, "quick_answer", first)
    monkeypatch.setattr(make, "newest_backup", AsyncMock(return_value=newest))
    request = replace(WANTED, **changes)
    found = [one.way if isinstance(one, Decision) else one async for one in make.make_plan(AsyncMock(), request)]
    assert found == steps
    asked = replace(request, backup=request.backup and newest)
    assert [call.args[1] for call in first.call_args_list] == [asked] * (REACHED in steps)


@pytest.mark.parametrize(
    ("changes", "title", "advice"),
    [
        ({"incident": replace(LOST, reason="usual", title="routine: a job", ns="a.b")}, "a job", "--only a.b"),
        ({"incident": replace(LOST, reason="usual", ns="some")}, "deleteMany on shop.orders", "--only NS"),
        (
            {"incident": replace(LOST, kind="ttl")},
            "deleteMany on shop.orders",
            "These documents expired",
        ),
        ({"incident": replace(LOST, reason="usual"), "choice": Choice("a.b", "a.c")}, "", ""),
        ({"incident": replace(LOST, reason="usual"), "evidence": KnownStatement("", 5)}, "", ""),
        ({"before": LIMIT, "incident": None}, "", ""),
        ({}, "", ""),
    ],
)
def test_a_row_of_routine_is_refused_unless_a_person_says_what_it_was(
    changes: dict[str, Any], title: str, advice: str
) -> None:
    request = replace(WANTED, **changes)
    if not title:
        make._refuse_routine(request)
        return
    with pytest.raises(InputError) as refused:
        make._refuse_routine(request)
    assert refused.value.title == f"Incident {LIMIT} is routine ({title}): there is no statement to undo."
    assert advice in refused.value.advice


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, f"{REACHES}, for about 7.2 h more; nothing blocks so far."),
        ({"hours_left": None}, f"{REACHES}, for an unknown time more; nothing blocks so far."),
        ({"saved": True, "blocking": (DISK, DISK)}, f"{REACHES} in the saved slices; blocked so far by disk, disk."),
        ({"saved": True, "save": "x"}, f"{REACHES}, for about 7.2 h more; nothing blocks so far."),
        ({"start": None}, f"the point {LIMIT} cannot be reached; blocked by the backup."),
        ({"start": None, "blocking": (DISK,)}, f"the point {LIMIT} cannot be reached; blocked by disk."),
    ],
)
def test_the_first_answer_is_one_sentence(changes: dict[str, Any], line: str) -> None:
    assert replace(REACHED, **changes).line == f"First answer: {line}"


def collection(kind: str = "collection", name: str = "orders", **options: Any) -> CollectionInfo:
    return CollectionInfo(Namespace("shop", name), kind, options, bytes(COLLECTION))


KEPT = collection(changeStreamPreAndPostImages={"enabled": True})
ADVICE = f"For the next time: {how_to_enable('shop', 'orders')}"
SLOWLY = "This user may not read config.system.preimages: a change stream is read, more slowly."
NOT_HELD = "Its first pre-image is not held: expired, or not kept then."
FORWARD = "The backup has the documents; the plan carries each forward through the oplog."


@pytest.mark.parametrize(
    ("info", "held", "backup", "way"),
    [
        (KEPT, 1, None, (True, "Its first pre-image is held (kept for 60 s): seconds, no backup, no spare.")),
        (KEPT, 0, None, (False, NOT_HELD)),
        (collection(), 0, None, (False, "shop.orders keeps no pre-images.", ADVICE)),
        (collection(), 0, InputError("Broken."), (False, "shop.orders keeps no pre-images. Broken.", ADVICE)),
        (KEPT, 0, True, (True, f"{NOT_HELD} {FORWARD}", "", WITHOUT_SPARE)),
        (replace(KEPT, options=None), 0, None, (False, NOT_HELD)),
        (KEPT, PrivilegeError("no"), None, (True, SLOWLY, f"In mongosh: {ROLE}")),
        (collection(), PrivilegeError("no"), None, (None, SLOWLY, f"In mongosh: {ROLE}")),
        (None, 0, None, (False, "shop.orders is not there any more.", way_from_images.images.GONE)),
    ],
)
async def test_the_first_image_says_whether_images_are_a_way(
    monkeypatch: pytest.MonkeyPatch, info: CollectionInfo | None, held: Any, backup: Any, way: tuple[Any, ...]
) -> None:
    async def images(*_: object) -> Any:
        if isinstance(held, Exception):
            raise held
        for _ in range(held):
            yield b"", b""

    found = backup if isinstance(backup, Exception) else SimpleNamespace(contents=SimpleNamespace(is_dump=backup))
    deployment = Deployment(Kind.REPLICA_SET, version="6.0.5", set_name="rs", primary="a:1", me="a:1")
    monkeypatch.setattr(way_from_images, "look_at", AsyncMock(return_value=deployment))
    monkeypatch.setattr(
        way_from_images, "live_collections", AsyncMock(return_value={"shop.orders": info} if info else {})
    )
    edge = AsyncMock(return_value=insert(50, 1))
    monkeypatch.setattr(way_from_images, "edge", edge)
    monkeypatch.setattr(way_from_images, "images_between", images)
    monkeypatch.setattr(way_from_images, "retention", AsyncMock(return_value=Retention(60)))
    monkeypatch.setattr(way_from_images, "usable_backup", AsyncMock(side_effect=[found]))
    request = replace(WANTED, backup=None if backup is None else FOLDER)
    judge: Any = way_from_images.way_from_images
    assert await judge(AsyncMock(), LOST, request) == Way(FROM_IMAGES, *way)
    edge.return_value = None
    unread = Way(FROM_IMAGES, None, "The oplog has no single entry of it: the plan reads its transactions.")
    assert info is None or await judge(AsyncMock(), LOST, request) == unread
    reads = Way(FROM_IMAGES, None, "The plan reads which collections the transaction wrote.")
    assert await judge(AsyncMock(), replace(LOST, kind="transaction"), request) == reads
    dropped = await judge(AsyncMock(), replace(LOST, kind="drop"), request)
    series = await judge(AsyncMock(), replace(LOST, ns="shop.system.buckets.orders"), request)
    for way_of in (dropped, series):
        assert (way_of.possible, way_of.advice) == (False, "Restore from a backup and the oplog.")


def test_a_plan_is_only_written_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for free in ("empty", "new"):
        check_free(tmp_path / free)
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="exists already"):
            check_free(taken)
    with pytest.raises(InputError, match="its parent is missing or read-only"):
        check_free(tmp_path / "none" / "new")
    assert [oct(mode_of(name)) for name in ("restore.sh", "plan.json")] == ["0o700", "0o600"]


def test_the_note_of_a_backup_is_for_its_owner_alone_and_written_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "pitr.json"
    made = Preparation(path, "text", START, PLAN.steps.commands[0])
    assert made.write().read_text() == "text"
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]
    with pytest.raises(InputError, match="exists already"):
        made.write()
    with pytest.raises(InputError, match="cannot be written: No such file"):
        replace(made, path=Path("/proc/none/pitr.json")).write()
