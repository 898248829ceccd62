"""Page and command plan in the same way: the decision is core's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from builders.plans import make_plan
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.source import Backup, FromBackup, FromImages
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, Way
from tallyglass.restore.plan import make
from tallyglass.restore.plan.precheck import QuickAnswer
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass_tui.cli.restore import plan_made as command
from tallyglass_tui.restore.draft import Draft, Planned
from tallyglass_tui.restore.feed import plan_once

LIMIT = Ts(1_700_000_000, 1)
GATEWAY: Any = None
INCIDENT = Incident(1, "deleteMany", "deleteMany", "s.c", Harm.LOSS, LIMIT, LIMIT, None, None, 1, None)


def planned(form: str, level: Level = Level.OK) -> Plan:
    backup = Backup(Path("/backup"), form, False, None, None, "")
    source = FromImages() if form == FROM_IMAGES else FromBackup(backup, "")
    checks = (Check("coverage", level, ""),)
    return make_plan(LIMIT, source, datetime(2026, 11, 23, tzinfo=UTC), checks=checks)


@pytest.fixture(params=[Level.OK, Level.BLOCK], ids=["images complete", "images with gaps"])
def images(request: pytest.FixtureRequest) -> Level:
    level: Level = request.param
    return level


@pytest.mark.parametrize(
    ("held", "reaches", "backup", "oplog", "way", "taken"),
    [
        (True, True, "/backup", "", "", FROM_IMAGES),
        (True, None, "", "", "", FROM_IMAGES),
        (True, True, "/backup", "/slices", "", FROM_BACKUP),
        (True, True, "/backup", "", FROM_BACKUP, FROM_BACKUP),
        (None, True, "/backup", "", "", FROM_BACKUP),
        (None, False, "/backup", "", "", FROM_BACKUP),
        (False, True, "/backup", "", "", FROM_BACKUP),
        (False, True, "/backup", "", FROM_IMAGES, FROM_IMAGES),
    ],
)
async def test_page_and_command_take_the_same_way(
    monkeypatch: pytest.MonkeyPatch, images: Level,
    held: bool | None, reaches: bool | None, backup: str, oplog: str, way: str, taken: str,
) -> None:  # fmt: skip
    ways = [Way(FROM_IMAGES, held, "images"), Way(FROM_BACKUP, reaches, "backup")]
    ways.sort(key=lambda one: (True, None, False).index(one.possible))
    answers = {
        "possible_ways": tuple(ways),
        "plan_undo": planned(FROM_IMAGES, images),
        "plan_restore": planned(FROM_BACKUP),
        "quick_answer": QuickAnswer(LIMIT, LIMIT, None, (), ""),
        "newest_backup": Path(backup),
    }

    def answering(found: Any) -> Any:
        async def answer(*_: object) -> Any:
            return found

        return answer

    for name, found in answers.items():
        monkeypatch.setattr(make, name, answering(found))
    monkeypatch.setattr("tallyglass.restore.plan.ways.possible_ways", answering(tuple(ways)))

    request = RestoreRequest(
        Path(backup) if backup else None, "", incident=INCIDENT, oplog=Path(oplog) if oplog else None, way=way
    )
    by_command = await command._make(GATEWAY, request)
    draft = Draft(LIMIT, INCIDENT, backup, way=way, oplog=oplog)
    answers_of_page = [found async for found in plan_once(GATEWAY, draft, "")]
    by_page = answers_of_page[-1]
    assert isinstance(by_page, Planned)
    assert by_page.plan is not None
    falls_back = taken == FROM_IMAGES and images is Level.BLOCK and backup
    assert by_command.source.form == (FROM_BACKUP if falls_back else taken)
    # Whoever asks the page for pre-images is shown what blocks them; the command has printed it.
    shown = taken if way else by_command.source.form
    assert (by_page.plan.source.form, by_page.way) == (shown, shown)


async def test_without_a_backup_the_page_asks_for_one_where_no_image_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ways(*_: object) -> tuple[Way, ...]:
        return Way(FROM_BACKUP, None, "No backup is named."), Way(FROM_IMAGES, False, "None.")

    monkeypatch.setattr(make, "possible_ways", ways)
    found = [one async for one in plan_once(GATEWAY, Draft(LIMIT, INCIDENT), "")]
    title = "This needs a backup, and none is named. pre-images: not possible. None."
    assert found == [Planned(None, title, "", await ways(), FROM_BACKUP, needs_backup=True)]


@pytest.mark.parametrize(
    ("kind", "title", "advice"),
    [
        ("trickle", "routine: updates on s.c", "tallyglass restore plan --before TIME --only s.c brings back"),
        ("ttl", "TTL deletes on s.c", "the TTL index would delete them again"),
    ],
)
async def test_a_row_of_routine_is_refused_with_a_way_to_its_documents(kind: str, title: str, advice: str) -> None:
    row = replace(INCIDENT, kind=kind, title=title, reason="as every minute")
    with pytest.raises(InputError) as refused:
        await command._make(GATEWAY, RestoreRequest(Path("/backup"), "", incident=row))
    what = title.removeprefix("routine: ")
    assert refused.value.title == f"Incident {LIMIT} is routine ({what}): there is no statement to undo."
    assert advice in refused.value.advice
    by_page = [found async for found in plan_once(GATEWAY, Draft(LIMIT, row, "/backup"), "")]
    assert by_page == [Planned(None, refused.value.title, refused.value.advice)]


async def test_what_a_person_knows_of_a_statement_among_routine_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ways(*_: object) -> tuple[Way, ...]:
        return (Way(FROM_BACKUP, None, "No backup is named."),)

    monkeypatch.setattr(make, "possible_ways", ways)
    row = replace(INCIDENT, reason="as every minute")
    found = [one async for one in plan_once(GATEWAY, Draft(LIMIT, row, reported=3), "")]
    title = "This needs a backup, and none is named."
    assert found == [Planned(None, title, "", await ways(), FROM_BACKUP, needs_backup=True)]
