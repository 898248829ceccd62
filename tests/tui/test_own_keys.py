"""Sentences name the keys that ``keys.toml`` gives to actions, in place of the default ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.keys import format_key

import tallyglass_tui
from builders.counters import counter, snapshot
from builders.incidents import CHANGED, LOST, SCAN
from builders.plans import make_plan
from tallyglass.counters.snapshot import Flag
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogUpdate
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.source import Backup, FromBackup
from tallyglass.restore.model.undo import WriteGroup
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, Way
from tallyglass_tui import bound
from tallyglass_tui.pages import PAGES
from tallyglass_tui.restore.draft import First, Planned, Reading
from tallyglass_tui.shell.keymap import _bindings, load_keymap
from tallyglass_tui.widgets.input_line import InputLine

ROOT = Path(tallyglass_tui.__file__).parent
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in ROOT.rglob("*.py") if "cli" not in file.parts}
KEYS: dict[str, list[str]] = {}
"""The default keys of each binding, by its id."""
for _, binding in _bindings(PAGES):
    if binding.id:
        KEYS.setdefault(binding.id, []).extend([*binding.key.split(","), binding.key_display or ""])


def without_docstrings(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of a module, except texts that stand alone."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return (node for node in ast.walk(tree) if id(node) not in alone)


def named() -> Iterator[tuple[str, str]]:
    """The id and the default key wherever the dashboard names one."""
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "bound.key":
                id, default = node.args
                if isinstance(id, ast.Constant) and isinstance(default, ast.Constant):
                    yield str(id.value), str(default.value)


OWN = {id: f"f{number}" for number, id in enumerate(sorted(dict(named())), 13)}
"""A key for each of them that no other one has."""
FIXED = "Down scrolls, Esc closes"
"""Keys that cannot be bound to anything else."""
_MARK = re.compile(r"<([a-z_.]+) (\S+)>")

UPDATE = OplogUpdate(datetime.now(UTC), (), seen=0, matched=0, dropped=0, last=None)
UNSURE = [replace(CHANGED, number=n, confidence="low", ns=f"shop.{n}", first=Ts(1795190000 + n, 1)) for n in (7, 8)]
INCIDENTS = replace(SCAN, incidents=(LOST, replace(LOST, number=9, reason="An application does."), *UNSURE))
NEWER = replace(SCAN, incidents=(*SCAN.incidents, replace(LOST, number=9, ns="shop.new", first=Ts(1795199000, 1))))
SOURCE = FromBackup(Backup(Path("/backup"), "directory", False, None, None, "oplog"), spare="127.0.0.1:1")
PLAN = make_plan(Ts(1795197974, 2), SOURCE, datetime.now(UTC), start=Ts(1795190000, 1))
GROUP = WriteGroup("", 's = "BAD"', 1_000, Ts(1795197975, 1), Ts(1795197976, 1), 1_000, ("1", "2"))
UNCLEAR = make_plan(
    Ts(1795197974, 2), SOURCE, datetime.now(UTC), groups=(GROUP,),
    checks=(Check("incident-unclear", Level.BLOCK, "These may be several statements.", "Say what."),),
)  # fmt: skip
WAYS = (Way(FROM_BACKUP, True, "Restores the backup."), Way(FROM_IMAGES, True, "Its first pre-image is held."))
BEHIND = counter(1, flags=(Flag.BEHIND,), repair="db.counters.updateOne()")

OPLOG = ("3", ("oplog", UPDATE))
RESTORE = ("4", ("incidents", SCAN))
CASES: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "counters": ((("counters", snapshot(BEHIND, counter(2), counter(3))),), ("<list.open Enter> unfolds",)),
    "counters: filter": ((("counters", snapshot(BEHIND)), "page.filter", ">no"), ("<page.back Esc> clears it.",)),
    "counter": (
        (("counters", snapshot(BEHIND)), "list.open", "T"),
        ("(press <page.copy y> to copy it;", "<page.back Esc> goes back to it."),
    ),
    "objectids": (("2",), ("<objectids.type i> types ids. <objectids.moment m> types a moment",)),
    "oplog": ((*OPLOG, "oplog.next"), ("<oplog.time t> goes to an earlier time.", "<oplog.search /> starts one.")),
    "oplog: search": ((*OPLOG, "oplog.search", ">no"), ("<oplog.filter &> filters the whole oplog.",)),
    "oplog: next": ((*OPLOG, "oplog.search", ">no", "oplog.previous"), ("<oplog.next n> goes down.",)),
    "oplog: destructive": (
        (*OPLOG, "oplog.destructive"),
        ("<oplog.time t> goes further back, <oplog.incidents i> lists incidents.",),
    ),
    "oplog: filter": ((*OPLOG, "oplog.filter", ">op:d", ("oplog", UPDATE)), (" · <page.back Esc> clears it",)),
    "incidents": (
        ("3", "oplog.incidents", ("incidents", INCIDENTS)),
        ("hidden, <incidents.routine a> shows", "; <oplog.restore r> plans it", "<list.open Enter> shows them"),
    ),
    "incidents: new": (
        ("3", "oplog.incidents", ("incidents", SCAN), "down", ("incidents", NEWER)),
        ("new: <list.first g>",),
    ),
    "incident": (
        ("3", "oplog.incidents", ("incidents", SCAN), "list.open"),
        ("<oplog.restore r> opens Restore there",),
    ),
    "restore": (
        RESTORE,
        (
            "none yet: <list.open Enter> picks an incident, <restore.point t> types a time",
            "none named yet: <restore.backup b> names one",
            "<restore.next Tab> goes on",
        ),
    ),
    "restore: no plan": ((*RESTORE, "restore.next", "restore.plan"), (
        "No plan yet: <list.open Enter> on an incident.", "or <restore.point t> types the point.",
    )),
    "restore: backup": ((*RESTORE, "restore.backup"), ("<input.complete Tab> completes.",)),
    "restore: planning": (
        (*RESTORE, "list.open", ("restore plan", Reading(9, Ts(1795197974, 1), 0.4, First("In time.", "mongodump")))),
        ("<page.back Esc> stops", "<page.copy y> copies it:"),
    ),
    "restore: stopped": ((*RESTORE, "list.open", "page.back"), ("<restore.plan r> plans again.",)),
    "restore: plan": (
        (*RESTORE, "list.open", ("restore plan", Planned(PLAN, ways=WAYS, way=FROM_BACKUP))),
        ("<restore.write w> writes the folder to run", "<restore.way f>: pre-images", ", <restore.way f> plans it"),
    ),
    "restore: unclear": (
        (*RESTORE, "list.open", ("restore plan", Planned(UNCLEAR))),
        ("<restore.evidence x> asks what was run, and how many; <list.pick Enter> takes one of the groups",),
    ),
    "profiles": (("5",), ("<list.open Enter> switches to one.",)),
    "help of the counters": (
        ("1", "app.help"),
        (
            "first row, <list.open Enter>", "<oplog.incidents i>, then <list.open Enter>",
            "<list.open Enter>, then <restore.next Tab>", "<list.open Enter> switches",
            "<list.open Enter> unfolds a line",
        ),
    ),
    "help of the oplog": (
        ("3", "app.help"),
        (
            "<oplog.search /> looks for", "and <oplog.next n> and <oplog.previous N> go", "<oplog.filter &> filters",
            "<oplog.document x> shows the history", "<oplog.transaction X> the whole transaction",
            "<oplog.destructive !> goes to", "<oplog.incident I> to the next", "<incidents.routine a> shows what",
            "<list.first g> shows them", "with <oplog.restore r>, proves", "<incidents.report e> writes a report",
            "<list.up Up> stops the tail, <list.last End> follows", "<tail.mark v> selects rows",
            "<page.copy y> copies them, <oplog.save w> writes them",
        ),
    ),
    "help of the restore": (
        ("4", "app.help"),
        (
            "Pick an incident with <list.open Enter>, or come here with <oplog.restore r>",
            "<restore.saved_oplog s> names a saved oplog", "<restore.way f> plans in the other way",
            "<restore.evidence x> asks what was run", "<list.pick Enter> takes one", "<restore.write w> writes the",
            "<page.copy y> copies it.", "<page.copy y> copies the one", "<restore.copy_all Y> all of its phase",
        ),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def default_keys() -> Iterator[None]:
    """Sentences name the default keys afterwards."""
    yield
    bound.choose({})


async def words_after(screen: Any, steps: tuple[Any, ...], own: dict[str, str]) -> str:
    """All words on the screen once feeds have delivered, texts were typed, and the keys of actions were pressed."""
    for step in steps:
        if isinstance(step, tuple):
            await screen.put(*step)
        elif step.startswith(">"):
            screen.app.screen.query_one(InputLine).value = step[1:]
            await screen.press("enter")
        else:
            await screen.press(own.get(step, KEYS.get(step, [step])[0]))
    await screen.pilot.pause()
    return " ".join(screen.text.replace("│", " ").split())


@pytest.mark.long
@pytest.mark.parametrize(("steps", "sentences"), CASES.values(), ids=CASES)
async def test_a_sentence_names_the_key_as_it_is_bound(
    screen_at: Any, steps: tuple[Any, ...], sentences: tuple[str, ...]
) -> None:
    size = (220, 100)
    async with screen_at(size) as screen:
        with_defaults = await words_after(screen, steps, {})
    async with screen_at(size, keymap=OWN) as screen:
        with_own = await words_after(screen, steps, OWN)
    for sentence in sentences:
        default, own = _MARK.sub(r"\2", sentence).strip(), _MARK.sub(lambda found: OWN[found[1]], sentence).strip()
        assert default in with_defaults
        assert own in with_own
        assert default not in with_own


def test_the_default_key_of_a_sentence_is_one_of_its_binding() -> None:
    for id, default in named():
        name = default if len(default) == 1 else default.lower()
        assert name in {*KEYS[id], *map(format_key, KEYS[id])}, id


async def test_esc_closes_the_help_whatever_else_does(screen_at: Any) -> None:
    async with screen_at(keymap={"help.close": "f9"}) as screen:
        for key in ("f9", "escape"):
            await screen.press("question_mark")
            assert FIXED in screen.text
            await screen.press(key)
            assert FIXED not in screen.text


def test_no_sentence_spells_a_key_that_can_be_bound() -> None:
    names = r"(?:[b-zB-Z&/]|Enter|Esc|Tab|End|Up|Home)"
    spelled = re.compile(rf"(?:^|[ (.;:,]){names} (?:[a-z]+s|on an incident)\b|\b(?:press|with) {names}\b|: g$")
    found = [
        f"{file.name}: {node.value}"
        for file, tree in TREES.items()
        for node in without_docstrings(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and spelled.search(node.value.replace(FIXED, ""))
    ]
    assert found == []


def test_a_file_may_name_the_keys_of_a_replay(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[keys]\n"replay.back" = "f5"\n')
    assert load_keymap(PAGES, file) == {"replay.back": "f5"}


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('"counters.sort" = "o"', "counters.sort and counters.oplog would both have the key o"),
        ('"oplog.time" = "f5"\n"oplog.rates" = "f5"', "oplog.rates and oplog.time would both have the key f5"),
        ('"restore.write" = "f2,r"', "restore.write and restore.plan would both have the key r"),
        ('"incidents.report" = "i"', "incidents.report and oplog.incidents would both have the key i"),
        ('"counters.sort" = "j"', "would both have the key j"),
        ('"counters.sort" = "?"', "counters.sort and app.help would both have the key ?"),
        ('"oplog.time" = "3"', "oplog.time and page 3 would both have the key 3"),
        ('"help.close" = "f6"\n"app.pause" = "q"', "app.pause and app.quit would both have the key q"),
        ('"counters.sort" = "F5"', "no key is called 'F5'"),
        ('"counters.sort" = "ctl+x"', "no key is called 'ctl+x'"),
        ('"counters.sort" = "f5,"', "no key is called ''"),
    ],
)
def test_a_key_that_would_be_lost_or_never_come_is_refused(tmp_path: Path, lines: str, problem: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(f"[keys]\n{lines}\n")
    with pytest.raises(InputError) as raised:
        load_keymap(PAGES, file)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    "lines",
    [
        '"counters.sort" = "o"\n"counters.oplog" = "s"',
        '"counters.sort" = "i"',
        '"oplog.search" = "slash,ctrl+f5"',
        '"page.filter" = "/"',
        '"input.complete" = "q"',
        '"help.close" = "p"',
        '"list.down" = "down, j ,ctrl+n,alt+é"',
    ],
)
def test_a_key_may_change_places_or_be_used_elsewhere(tmp_path: Path, lines: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(f"[keys]\n{lines}\n")
    assert load_keymap(PAGES, file)
