"""The Restore page: pick an incident, see the plan, copy the commands; nothing is run."""

from __future__ import annotations

import re
import stat
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from builders.incidents import CHANGED, HOSTILE, LOST, SCAN, incident
from builders.plans import changed, make_plan
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Authorship, Candidate, Certainty, Harm, IncidentScan
from tallyglass.restore.drill.last_window import LastWindow
from tallyglass.restore.drill.past_drills import LastDrill
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.proof import Loss, Reissue
from tallyglass.restore.model.source import Backup, FromBackup, FromImages
from tallyglass.restore.model.step import Command, Effect, Phase
from tallyglass.restore.model.undo import Return, Strategy, WriteGroup
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, WITHOUT_SPARE, Way
from tallyglass.restore.plan.at_hand import SourcesAtHand, name_of
from tallyglass.text import clean
from tallyglass_tui.incidents.cells import INCIDENT_COLUMNS, incident_cell
from tallyglass_tui.restore.draft import Draft, First, Planned, Reading, Room
from tallyglass_tui.restore.head import head_lines
from tallyglass_tui.restore.page import RestorePage
from tallyglass_tui.restore.plan_folder import write_new
from tallyglass_tui.shell.messages import RestoreRequested
from tallyglass_tui.widgets.input_line import InputLine

MADE = datetime(2026, 11, 20, 18, 6, 14, tzinfo=UTC)


ARGV = (
    "mongorestore",
    "--config=spare.yml",
    "--oplogReplay",
    "--oplogFile=oplog/oplog.bson",
    "--oplogLimit=1795197974:2",
)
COMMAND = Command(
    Phase.RESTORE, "Replay", ARGV, " ".join(ARGV), why="Once.", undo="Drop it.", seconds=90.0,
    effect=Effect.WRITES_SPARE, counts=("shop.orders: 300 inserted",),
)  # fmt: skip
CHECK = Command(Phase.VERIFY, "Verify", ("tallyglass", "restore", "verify"), "tallyglass restore verify")
PLAN = make_plan(
    Ts(1795197974, 2),
    FromBackup(Backup(Path("/backup"), "directory", False, None, None, "oplog"), spare="127.0.0.1:27117"),
    MADE,
    start=Ts(1795190000, 1),
    before="1795197974:1 shop.orders insert 1",
    after=f"1795197974:2 {HOSTILE} delete 2",
    checks=(Check("coverage", Level.OK, "Whole."), Check("loss", Level.WARN, "Lost.", "Stop.")),
    commands=(COMMAND, replace(COMMAND, title="Again"), CHECK),
    loss=(Loss("shop.orders", 3, 2, 300),),
    reissue=(Reissue("shop.counters", "orders", "next", 10, 12, "db.counters.updateOne()"),),
    work_dir="/work-dir",
)


@asynccontextmanager
async def page(screen_at: Any, backup: str = "/backup", size: tuple[int, int] = (80, 24)) -> AsyncIterator[Any]:
    """The page with two incidents."""
    async with screen_at(size, backup=Path(backup) if backup else None) as screen:
        await screen.press("4")
        await screen.put("incidents", SCAN)
        yield screen


async def plan(screen: Any, planned: Planned) -> str:
    """Let the planner answer; the screen then."""
    await screen.put("restore plan", planned)
    await screen.pilot.pause()
    return str(screen.text)


async def fill(screen: Any, text: str) -> None:
    """Put a text into the line that is open, and press Enter."""
    screen.app.screen.query_one(InputLine).value = text
    await screen.press("enter")


def draft(screen: Any) -> Draft:
    return cast(RestorePage, screen.app.screen).draft


@pytest.mark.parametrize("in_time", [True, False], ids=["quick answer", "with the progress"])
async def test_planning_says_how_far_it_is_and_escape_stops_it(screen_at: Any, in_time: bool) -> None:
    async with page(screen_at) as screen:
        await screen.press("enter")
        first = First("It reaches, for about 9.2 h more.", "umask 077; mongodump")
        await screen.put("restore plan", first if in_time else Reading(1_000_000, Ts(1795197974, 1), 0.4, first))
        assert "for about 9.2 h more" in screen.text
        await screen.press("j", "y")
        assert screen.app.clipboard == "umask 077; mongodump"
        await screen.press("tab")
        await screen.put("restore plan", Reading(1_234_567, Ts(1795197974, 1), 0.5, first))
        await screen.pilot.pause()
        assert "read 1,234,567 entries up to 18:06:14Z" in screen.text
        assert "for about 9.2 h more" not in screen.text, "the part that was chosen stays"
        await screen.press("escape")
        assert " no plan  Planning was stopped. r plans again." in screen.text
        assert "for about 9.2 h more" not in screen.text
        assert draft(screen).backup == "/backup"
        await plan(screen, Planned(None, "No server answers."))
        assert " no plan  Planning was stopped." in screen.text, "it was on its way"
    assert Reading(1, Ts(1, 1), 0.25).seconds_left(30) == 90


async def test_a_saved_oplog_is_asked_for_and_kept(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await screen.press("enter", "s")
        assert "Saved oplog" in screen.text
        await fill(screen, "/slices")
        planned = Draft(LOST.point, LOST, "/backup", planning=True, way=FROM_BACKUP, oplog="/slices")
        assert draft(screen) == planned
        assert "backup   /backup  oplog /slices" in screen.text
        await screen.press("d")
        await fill(screen, "h:1")
        assert draft(screen).oplog == "/slices"
        await screen.press("s")
        await fill(screen, "")
        assert draft(screen).oplog == ""


async def test_lost_data_comes_first_and_enter_plans_for_it(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        assert screen.text.index(clean(HOSTILE)[-12:]) < screen.text.index("updateMany")
        assert "restore plan" not in screen.feeds.named
        await screen.press("enter")
        assert "reading the oplog and the backup" in screen.text
        assert draft(screen) == Draft(LOST.point, LOST, "/backup", planning=True)
        text = await plan(screen, Planned(PLAN))
        assert "YES      it can come back; 1 warning" in text
        assert "next     w writes the folder to run" in text
        assert "(about 3 min)" in text
        assert "just before 1795197974:2" in text
        assert "2026-11-20 18:06:14Z" in text
        assert "keeps    1795197974:1 shop.orders insert 1" in text
        assert text.index("warn  Lost.") < text.index("ok    Whole.")
        await screen.put("restore room", Room(2.5))
        assert "to run within 2 h 30 (about 3 min)" in screen.text
        await screen.put("restore room", Room(0.0, gone=True))
        assert "NO       its start has left the oplog, so this plan is void" in screen.text


async def test_a_step_says_what_will_run_and_lines_break_at_options(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await screen.press("enter")
        await plan(screen, Planned(PLAN))
        await screen.press("tab", "tab", "tab")
        text = screen.text
        for said in (
            "1 restore",
            "writes spare",
            "Once. Takes about 2 min.",
            "shop.orders: 300 inserted",
            "To undo: Drop",
        ):
            assert said in text
        lines = [line.strip(" |>") for line in text.splitlines()]
        assert "mongorestore --config=spare.yml --oplogReplay \\" in lines
        assert "--oplogFile=oplog/oplog.bson --oplogLimit=1795197974:2" in lines
        assert text.count("mongorestore --config") == 2, "the lines of the tools show wherever the cursor is"
        assert "tallyglass restore verify" not in text


async def test_lines_can_be_copied_alone_and_by_phase(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await screen.press("enter")
        await plan(screen, Planned(PLAN))
        await screen.press("tab", "tab", "tab", "y")
        assert screen.app.clipboard == COMMAND.shell
        await screen.press("Y")
        assert screen.app.clipboard == f"{COMMAND.shell} &&\n{COMMAND.shell}"
        await screen.press("down", "down", "Y")
        assert screen.app.clipboard == CHECK.shell


async def test_a_plan_is_written_as_a_folder_but_never_over_another(screen_at: Any, tmp_path: Path) -> None:
    async with page(screen_at) as screen:
        await screen.press("enter")
        await plan(screen, Planned(changed(PLAN, work_dir=str(tmp_path / "w"))))
        await screen.press("w", "enter")
        await screen.app.workers.wait_for_complete()
        folder = tmp_path / "w"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert "--oplogLimit=1795197974:2" in (folder / "steps.txt").read_text()
        for part, promised in (("loss", True), ("counters", True), ("commands", False), ("incidents", False)):
            await screen.press("tab", "y")
            assert draft(screen).run.endswith(f"tallyglass restore run {folder}")
            assert (screen.app.clipboard == draft(screen).run) is promised, part
            shown = "".join(line[10:].rstrip() for line in screen.lines[2:5]).replace(" ", "")
            assert draft(screen).run.replace(" ", "") in shown, "what is copied can be read whole"
            assert ("ycopies" in shown) is promised, part
        await screen.press("tab")
        await screen.press("w", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "This plan is in that folder already" in screen.text
        (folder / "checksums").write_text("of another plan")
        await screen.press("w", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "Nothing was written" in screen.text
        assert (folder / "checksums").read_text() == "of another plan"
        await screen.press("r")
        assert "restore run" not in "".join(screen.lines[:6])


def test_what_keeps_a_folder_from_being_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert write_new(PLAN, Path("x" * 300))[0].startswith("Nothing was written. The folder ")
    assert write_new(PLAN, Path("~/plan"))[0].startswith("Written.")
    assert write_new(PLAN, Path("~/plan"))[0].startswith("This plan is in that folder already:")
    for name in ("README.md", "checksums"):
        (tmp_path / "plan" / name).write_bytes(b"\xff")
        assert write_new(PLAN, Path("~/plan"))[0].startswith("Nothing was written.")


async def test_many_warnings_of_one_kind_are_one_with_a_list(screen_at: Any) -> None:
    same = tuple(Check("return", Level.WARN, f"shop.c{n}: It stays.") for n in range(80))
    async with page(screen_at) as screen:
        await screen.press("enter")
        text = await plan(screen, Planned(changed(PLAN, checks=(*PLAN.checks, *same))))
        assert "2 warnings" in text
        assert "80 namespaces: It stays. They are shop.c0, shop.c1," in text


async def test_a_blocked_plan_says_why_and_has_nothing_to_write(screen_at: Any) -> None:
    blocked = Check("coverage", Level.BLOCK, "The oplog does not reach.", "Use a newer backup.")
    async with page(screen_at) as screen:
        await screen.press("enter")
        text = await plan(screen, Planned(changed(PLAN, checks=(*PLAN.checks, blocked), commands=())))
        assert "NO       blocked by 1 check: The oplog does not reach." in text
        assert "next     Use a newer backup." in text
        assert text.index("BLOCK The oplog does not reach.") < text.index("warn  Lost.")
        await screen.press("w")
        assert "A check blocks, so there are no commands." in screen.lines[-1]
        await screen.press("y")
        assert screen.app.clipboard == "The oplog does not reach. Use a newer backup."
        await plan(screen, Planned(changed(PLAN, checks=(blocked,), commands=(), loss=(), reissue=())))
        for part in ("Loss", "Counters"):
            await screen.press("tab")
            assert f"{part} 0" not in screen.text, "it was not computed"
            assert "Not known: a check blocks" in screen.text


async def test_the_last_drill_is_shown_with_its_age_and_in_red_if_failed_or_old(screen_at: Any) -> None:
    now = datetime.now(UTC)
    cases = [
        (LastDrill(), "none from here yet", "muted"),
        (LastDrill(now - timedelta(days=2), True, "Proved.", 61), "proved 2", "good"),
        (LastDrill(now - timedelta(days=9), True, "Proved.", 61), "due every week", "bad"),
        (LastDrill(now - timedelta(hours=3), False, "coverage: The oplog does not reach back."), "failed 3", "bad"),
    ]
    async with page(screen_at) as screen:
        for drill, said, style in cases:
            await screen.put("last drill", drill)
            await screen.pilot.pause()
            assert said in screen.text
            (piece,) = [one for one in head_lines(Draft(), 80, "", drill)[-1] if said in one[0]]
            assert piece[1] == f"text--{style}"


async def test_the_last_window_is_shown_with_its_age(screen_at: Any) -> None:
    why = "in 7.4 h the live oplog no longer continues the newest slice"
    found = LastWindow(datetime.now(UTC) - timedelta(hours=3), 1, Ts(1_795_334_107, 1), Ts(1_795_337_707, 4), 1, why)
    async with page(screen_at) as screen:
        await screen.put("last drill", LastDrill(window=found))
        await screen.pilot.pause()
        (at,) = [n for n, line in enumerate(screen.lines) if line.startswith(" window   ")]
        shown = " ".join(line[10:].strip() for line in screen.lines[at : at + 2])
        assert shown.endswith(f" ago: {why}; every second from 2026-11-22 07:55Z to 11-22 08:55Z"), "why comes first"


async def test_a_backup_is_requested_if_no_other_way_can_undo_the_incident(screen_at: Any) -> None:
    async with page(screen_at, backup="") as screen:
        await screen.press("enter")
        assert "how this can be undone" in screen.text
        ways = (Way(FROM_BACKUP, None, "No backup is named."), Way(FROM_IMAGES, False, "It keeps none.", "Next time."))
        why = "This needs a backup, and none is named. pre-images: not possible. orders keeps no pre-images of these."
        text = await plan(screen, Planned(None, why, ways=ways, way=FROM_BACKUP, needs_backup=True))
        assert screen.lines[1].startswith(" no plan  This needs a backup"), "not NO: it is not known that none can"
        assert " ".join(line[10:].strip() for line in screen.lines[1:3]) == why
        assert text.index("?     backup and oplog: No backup is named.") < text.index("no    pre-images: It keeps")
        await fill(screen, "/other")
        assert draft(screen).backup == "/other"
        assert draft(screen).planning
        await screen.press("f")
        assert draft(screen).way == FROM_BACKUP


async def test_the_other_way_is_one_key_away(screen_at: Any) -> None:
    ways = (Way(FROM_IMAGES, True, "Its first pre-image is held."), Way(FROM_BACKUP, True, "Restores the backup."))
    images = changed(PLAN, start=None, source=FromImages())
    async with page(screen_at) as screen:
        await screen.press("enter")
        text = await plan(screen, Planned(images, ways=ways, way=FROM_IMAGES))
        assert "from     pre-images, no backup and no spare  f: backup and oplog" in text
        assert "yes   pre-images, chosen: Its first pre-image is held." in text
        await screen.press("f")
        assert draft(screen) == Draft(LOST.point, LOST, "/backup", planning=True, way=FROM_BACKUP)
        text = await plan(screen, Planned(PLAN, ways=ways, way=FROM_BACKUP))
        assert "backup   /backup  onto 127.0.0.1:27117  f: pre-images" in text
        await plan(screen, Planned(images, ways=ways, way=FROM_IMAGES))
        await screen.put("restore room", Room(0.0, gone=True))
        assert "this plan is void" not in screen.text, "that was the start of the other plan"
        impossible = Way(FROM_IMAGES, False, "It keeps none.")
        await plan(screen, Planned(PLAN, ways=(ways[1], impossible), way=FROM_BACKUP))
        await screen.press("f")
        assert "pre-images: not possible. It keeps none." in screen.text
        assert not draft(screen).planning


async def test_a_backup_that_the_other_way_needs_is_planned_with(screen_at: Any) -> None:
    ways = (Way(FROM_IMAGES, True, "Its first pre-image is held."), Way(FROM_BACKUP, None, "No backup is named."))
    async with page(screen_at, backup="") as screen:
        await screen.press("enter")
        await plan(screen, Planned(changed(PLAN, start=None, source=FromImages()), ways=ways, way=FROM_IMAGES))
        await screen.press("f")
        await fill(screen, "/b")
        assert draft(screen) == Draft(LOST.point, LOST, "/b", planning=True, way=FROM_BACKUP)
        await screen.press("b")
        await fill(screen, "/c")
        assert draft(screen) == Draft(LOST.point, LOST, "/c", planning=True, way=FROM_BACKUP)


async def test_an_undo_with_the_documents_of_a_backup_is_not_called_pre_images(screen_at: Any) -> None:
    ways = (Way(FROM_IMAGES, True, "It keeps no pre-images.", label=WITHOUT_SPARE), Way(FROM_BACKUP, True, "A spare."))
    carried = changed(PLAN, start=None, source=FromImages(1, PLAN.from_backup.backup))
    async with page(screen_at) as screen:
        await screen.press("enter")
        text = await plan(screen, Planned(carried, ways=ways, way=FROM_IMAGES))
        assert "from     /backup, no spare  f: backup and oplog" in text
        assert "yes   backup, no spare, chosen: It keeps no pre-images." in text
        await screen.press("y")
        assert "Copied the line" in screen.text, "it is no check"
        text = await plan(screen, Planned(PLAN, ways=ways, way=FROM_BACKUP))
        assert "  f: backup, no spare" in text


async def test_a_plan_that_fails_says_why(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await screen.press("enter")
        text = await plan(screen, Planned(None, "/backup is not a backup.", "Name a directory of mongodump."))
        assert "/backup is not a backup. Name a directory of mongodump." in text


async def test_an_entry_of_the_oplog_and_a_typed_point_are_points_too(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        screen.app.visit(RestoreRequested(before=Ts(1795197999, 3)))
        await screen.pilot.pause()
        assert "just before 1795197999:3" in screen.text
        await plan(screen, Planned(PLAN))
        await screen.press("t")
        await fill(screen, "1795197000:1")
        assert draft(screen) == Draft(Ts(1795197000, 1), None, "/backup", planning=True)
        await screen.press("t")
        await fill(screen, "nonsense")
        assert "is not a time" in screen.text
        await screen.press("escape", "d")
        await fill(screen, "shop.orders")
        assert "'shop.orders' is not HOST:PORT." in screen.text
        await fill(screen, "127.0.0.1:27200")
        assert draft(screen).spare == "127.0.0.1:27200"


@pytest.mark.parametrize("size", [(60, 15), (200, 50)])
async def test_every_part_is_shown_at_every_size(screen_at: Any, size: tuple[int, int]) -> None:
    async with page(screen_at, size=size) as screen:
        await screen.press("enter")
        await plan(screen, Planned(PLAN))
        for text in ("300 deletes", "db.counters.updateOne()", "mongorestore", "deleteMany"):
            await screen.press("tab")
            assert text in screen.text


async def test_hostile_data_does_not_control_the_terminal(screen_at: Any) -> None:
    bad = "[/x]\x1b]52;c;aGk=\x07\x9b2J\u202e"
    hostile = changed(
        PLAN,
        before=bad,
        after=bad,
        source=FromBackup(PLAN.from_backup.backup, spare=bad),
        checks=(Check("a", Level.WARN, bad, bad),),
        commands=(replace(COMMAND, title=bad, why=bad, undo=bad),),
        loss=(Loss(bad, 1, 1, 1),),
        reissue=(Reissue(bad, bad, bad, 1, 2, bad),),
        returns=(Return(bad, Strategy.MERGE, bad, 1, bad),),
    )
    async with page(screen_at, backup="/b\x1b[2J") as screen:
        await screen.put("incidents", replace(SCAN, incidents=(replace(LOST, title=bad, ns=bad),)))
        await screen.press("enter")
        await plan(screen, Planned(hostile))
        for _ in range(5):
            assert not {char for char in screen.text if unicodedata.category(char) in ("Cc", "Cf")} - {"\n"}
            await screen.press("tab")
        await plan(screen, Planned(None, bad, bad))
        assert not {char for char in screen.text if unicodedata.category(char) in ("Cc", "Cf")} - {"\n"}


async def test_without_an_oplog_the_list_says_why(screen_at: Any) -> None:
    async with page(screen_at) as screen:
        await screen.put("incidents", replace(SCAN, incidents=()))
        await screen.put("deployment", Deployment(Kind.STANDALONE, "6.0.5"))
        await screen.pilot.pause()
        assert "A standalone has no oplog." in screen.text


async def test_routine_writes_come_last_without_a_mark_and_are_not_counted(screen_at: Any) -> None:
    routine = incident(3, 1795199000, Harm.CHANGE, kind="updateMany", title="routine updates", reason="a job")
    async with page(screen_at) as screen:
        await screen.put("incidents", replace(SCAN, incidents=(routine, CHANGED, LOST)))
        assert "Incidents 2 " in screen.text
        assert "routine updates" not in screen.text
        await screen.press("a")
        assert "Incidents 2 " in screen.text
        listed = [line for line in screen.lines if " ago " in line]
        assert [line[:2].strip() for line in listed] == ["!!", "!", ""]
        assert "routine updates" in listed[-1]


TEXT = "updateMany({n: 0}, {$set: {s: 'BAD'}})"
BY_BOB = Authorship(Certainty.UNIQUE, (Candidate("bob", statement=TEXT, statements=1, documents=1_000),))


async def test_the_question_what_was_run_is_filled_in_from_the_log(screen_at: Any) -> None:
    logged = replace(LOST, evidence=BY_BOB)
    async with page(screen_at) as screen:
        await screen.press("x")
        assert "Pick an incident first" in screen.text
        await screen.put("incidents", IncidentScan((logged,), 1, Ts(1, 1), done=True))
        await screen.press("enter", "x")
        assert "What was run?" in screen.text
        assert TEXT in screen.text
        await fill(screen, "updateMany(")
        assert "ends too soon" in screen.text
        await fill(screen, TEXT)
        assert "How many documents did it report" in screen.text
        assert "1000" in screen.text
        await fill(screen, "many")
        assert "'many' is not a number of documents" in screen.text
        await fill(screen, "1,000")
        planned = Draft(logged.point, logged, "/backup", planning=True, statement=TEXT, reported=1_000)
        assert draft(screen) == planned
        await screen.press("x", "enter")
        assert "1000" in screen.text, "what was said stays"
        await screen.press("enter", "b")
        await fill(screen, "/other")
        assert draft(screen) == replace(planned, backup="/other")


async def test_a_group_of_an_unclear_incident_is_chosen(screen_at: Any) -> None:
    blocked = Check("incident-unclear", Level.BLOCK, "These may be several statements.", "Say what.")
    row = WriteGroup("", 's = "BAD"', 1_000, Ts(1795197975, 1), Ts(1795197976, 1), 1_000, ("1", "2"))
    groups = (replace(row, statement=TEXT), replace(row, what="", first=Ts(1795197980, 7)))
    unclear = changed(PLAN, checks=(blocked,), commands=(), groups=groups)
    async with page(screen_at) as screen:
        await screen.press("enter")
        text = await plan(screen, Planned(unclear))
        assert "next     x asks what was run, and how many; Enter takes one of the groups" in text
        assert 'one of 1,000 entries: s = "BAD" (1795197975:1 to 1795197976:1,' in text
        await screen.press("enter")
        assert screen.app.screen.query_one(InputLine).value == TEXT
        await screen.press("enter", "enter")
        assert draft(screen) == Draft(LOST.point, LOST, "/backup", planning=True, statement=TEXT)
        await plan(screen, Planned(unclear))
        await screen.press("j", "enter")
        assert draft(screen) == Draft(Ts(1795197980, 7), None, "/backup", planning=True), "from its first entry on"


async def test_a_plan_says_what_is_undone_and_what_stays(screen_at: Any) -> None:
    row = WriteGroup("shop.orders", 's = "BAD"', 600, Ts(1795197975, 1), Ts(1795197976, 1), 600, ("1", "2", "3"))
    stays = replace(row, what='s = "ok"', why="another client wrote it")
    async with page(screen_at, size=(200, 50)) as screen:
        await screen.press("enter")
        text = " ".join((await plan(screen, Planned(changed(PLAN, undone=(row,), left_out=(stays,))))).split())
        assert 'undo shop.orders: s = "BAD"; 600 entries on 600 documents, 1795197975:1 (' in text
        assert "_id 1, 2 and others" in text
        await screen.press("y")
        assert "_id 1, 2, 3 and others" in screen.app.clipboard, "what is copied is whole"
        assert 'stays shop.orders: s = "ok"; 600 entries' in text


async def test_the_verdict_cuts_no_word_and_a_recorded_plan_names_its_backup() -> None:
    row = WriteGroup("shop.orders", "", 346, Ts(1795197975, 1), Ts(1795197976, 1), 346)
    back = Return("shop.orders", Strategy.MERGE, kept=1178)
    made = changed(PLAN, undone=(row,), returns=(back,), checks=())
    verdict, _, backup, *_ = head_lines(Draft(plan=made), 80)
    whole = "346 documents of shop.orders can come back"
    assert [text for text, _ in verdict][1:] == [whole, "; 1,178 later writes stay"]
    assert [text for text, _ in backup][:2] == [" backup   ", "/backup"]
    verdict = head_lines(Draft(plan=replace(made, checks=PLAN.checks)), 80)[0]
    assert [text for text, _ in verdict][1:] == [whole, "; 1 warning"]
    verdict = head_lines(Draft(plan=replace(made, checks=PLAN.checks)), 60)[0]
    assert [text for text, _ in verdict][1:] == ["346 of shop.orders can come back", "; 1 warning"], "not amber alone"


@pytest.mark.parametrize(
    ("again", "verdict"),
    [
        (0, "YES 346 documents of shop.orders can come back"),
        (345, "YES up to 346 documents of shop.orders can come back; 345 inserted again"),
        (346, "WARNING perhaps not: 346 _ids were inserted again in shop.orders"),
    ],
)
async def test_the_verdict_does_not_count_on_ids_that_were_inserted_again(again: int, verdict: str) -> None:
    row = WriteGroup("shop.orders", "", 346, Ts(1795197975, 1), Ts(1795197976, 1), 346)
    back = Return("shop.orders", Strategy.MERGE, again=again)
    made = changed(PLAN, undone=(row,), returns=(back,), checks=())
    for width in (80, 120):
        assert " ".join("".join(text for text, _ in head_lines(Draft(plan=made), width)[0]).split()) == verdict


@pytest.mark.parametrize(("width", "shown"), [(33, "deletes by many on plant.readings"), (60, "many sessions at once")])
def test_the_collection_of_an_incident_is_not_cut_for_what_the_sessions_say(width: int, shown: str) -> None:
    one = incident(1, 1795190000, Harm.LOSS, title="deletes by many sessions at once on plant.readings", open=True)
    now = one.first.time + timedelta(seconds=24)
    cells = {column.key: incident_cell(one, now, column, width)[0][0] for column in INCIDENT_COLUMNS}
    assert shown in cells["title"]
    assert cells["ago"].strip() == "for 24s"


async def test_both_pages_list_the_same_incidents_in_one_order_with_one_count(screen_at: Any) -> None:
    many = [
        incident(n, 1795190000 + 97 * n % 1000, list(Harm)[n % 3], title=f"incident {n}", reason="a job" * (n % 7 == 0))
        for n in range(12)
    ]

    def rows(text: str) -> list[str]:
        return re.findall(r"incident \d+", text)

    async with page(screen_at) as screen:
        await screen.put("incidents", replace(SCAN, incidents=tuple(many)))
        assert "Incidents 10 " in screen.text
        here = rows(screen.text)
        assert len(here) == 10
        await screen.press("3", "i")
        await screen.put("incidents", replace(SCAN, incidents=tuple(many)))
        assert rows("\n".join(screen.lines[2:-2])) == here
        numbers = [int(number) for number in re.findall(r"(\d+) (?:loss|mass|definition)", screen.lines[1])]
        assert sum(numbers) == 10
        assert "2 routine (hidden, a shows)" in screen.lines[1]


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40)])
async def test_from_where_each_could_come_back_is_beside_it(screen_at: Any, size: tuple[int, int]) -> None:
    async with page(screen_at, size=size) as screen:
        table = screen.app.screen.query_one("#incidents")
        assert all(line.strip() for line in screen.lines[:8]), "no line is wasted above the list"
        assert not [line for line in screen.lines if line.startswith("!") and line.rstrip().endswith("backup")]
        await screen.put(
            "sources", SourcesAtHand(ends=(Ts(LOST.limit.t - 1, 1),), imaged=frozenset({name_of(CHANGED)}))
        )
        rows = [line.split()[-1] for line in screen.lines if line.startswith("!")]
        assert rows == ["backup", "images"]
        without = frozenset({name_of(LOST)})
        await screen.put("sources", SourcesAtHand(ends=(Ts(LOST.limit.t + 1, 1),), without=without))
        assert [line.split()[-1] for line in screen.lines if line.startswith("!")] == ["no", "backup"]
        assert table.selected is LOST


async def test_the_rows_hold_still_while_they_are_read_and_new_ones_are_counted(screen_at: Any) -> None:
    late = incident(3, 1795199000, title="drop of the last minute")
    grown = replace(LOST, documents=4711)
    async with page(screen_at) as screen:
        await screen.press("3", "i")
        await screen.put("incidents", SCAN)
        await screen.press("down")
        before = [line[:60] for line in screen.lines[3:6]]
        await screen.put("incidents", replace(SCAN, incidents=(CHANGED, grown, late)))
        assert "drop of the last minute" not in screen.text
        assert "4,711" in screen.lines[3], "what is known of a row is renewed"
        assert [line.partition("  ")[0] for line in screen.lines[3:6]] == [line.partition("  ")[0] for line in before]
        assert "2 losses · 1 mass change" in screen.lines[1]
        assert "what happened · 1 new: g" in screen.lines[2]
        await screen.put("incidents", replace(SCAN, incidents=(CHANGED, late)))
        assert "1 loss · 1 mass change" in screen.lines[1]
        assert "what happened · 1 new: g" in screen.lines[2], "a loss that is new is not hidden by a row that went"
        await screen.put("incidents", replace(SCAN, incidents=(CHANGED,)))
        assert "what happened · 1 gone: g" in screen.lines[2], "why more rows are listed than are counted"
        await screen.put("incidents", replace(SCAN, incidents=(CHANGED, late)))
        assert "4,711" in screen.lines[3], "one that was merged into another stays until the rows are sorted again"
        await screen.press("g")
        assert "drop of the last minute" in screen.lines[3]
        assert " new: g" not in screen.text
        assert "4,711" not in screen.text


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(["4"], id="restore"),
        *(pytest.param(["3", "i", *more], marks=pytest.mark.long) for more in ([], ["enter"])),
    ],
)
async def test_e_writes_a_report_without_values_and_says_where(
    screen_at: Any, keys: list[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    named = replace(LOST, samples=("customer-4711",))
    async with screen_at() as screen:
        await screen.press("4")
        await screen.put("incidents", replace(SCAN, incidents=(named,)))
        await screen.press(*keys)
        await screen.put("incidents", replace(SCAN, incidents=(named,)))
        await screen.press("e")
        assert "ends in .html or .md" in screen.text
        assert screen.app.screen.query_one(InputLine).value.endswith("/incident-20261120-180614.html")
        await fill(screen, str(tmp_path / "report.txt"))
        assert "ends neither in .html nor in .md" in screen.text
        written = tmp_path / "report.md"
        await screen.put("incidents", replace(SCAN, incidents=(replace(named, documents=301),)))
        await screen.pilot.resize_terminal(60, 15)
        await fill(screen, str(written))
        assert "Written to" in screen.text
        text = written.read_text(encoding="utf-8")
        assert "301" in text, "what is known when it is written, not when its name was asked for"
        assert "customer-4711" not in text
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
        await screen.press("e")
        await fill(screen, str(written))
        assert "Name a new file" in screen.text


async def test_groups_of_writes_that_are_not_listed_are_counted_and_copied(screen_at: Any) -> None:
    rows = tuple(WriteGroup(f"s.c{n}", "delete", 1, Ts(9, 1), Ts(9, 1), 1) for n in range(14))
    async with page(screen_at) as screen:
        await screen.press("enter")
        await plan(screen, Planned(changed(PLAN, undone=rows, checks=())))
        await screen.press("end", "y")
        assert "and 2 more: y copies them" in screen.text
        assert screen.app.clipboard == "\n".join(row.line for row in rows[12:])


def test_why_there_is_no_other_way_is_true_of_the_incident() -> None:
    assert Draft(Ts(9, 1)).why_no_other_way.startswith("Pick an incident first")
    assert Draft(Ts(9, 1), LOST, planning=True).why_no_other_way == "The ways to undo it are not known yet."
    assert Draft(Ts(9, 1), LOST, failure="It is routine.").why_no_other_way == "There is no other way to undo it."
