"""The steps of plans of every kind, as a person reads them, and the programs that they run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from bson import json_util

from builders.plan_folder import BACKUP, LIMIT, restored
from builders.plans import changed
from tallyglass.moment import Ts
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.step import PlanSteps, Proof, RunMode
from tallyglass.restore.model.undo import Accident, Choice, Return, Strategy, WriteGroup
from tallyglass.restore.plan.folder import folder_files
from tallyglass.restore.plan.readme import readme
from tallyglass.restore.plan.step_text import step_text
from tallyglass.restore.plan.steps.commands import _dump_rest
from tallyglass.restore.plan.steps.return_steps import clean_steps, return_steps
from tallyglass.restore.plan.steps.return_work import Damage, ReturnWork
from tallyglass.restore.spare import own_spare

INDEX = '{"v": 2, "key": {"_id": 1}, "name": "_id_"}'
TTL = '{"v": 2, "key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 60}'
EXPECTED = Path(__file__).with_name("expected_steps.txt")


class Shown:
    """Steps with what a run needs to know of them, the shell programs, and the statements of the others; of what was
    shown before, the first line alone."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._seen: set[tuple[str, ...]] = set()

    def show(self, title: str, steps: PlanSteps) -> None:
        self.lines.append(f"=== {title}")
        for step in steps.commands:
            proof = "" if step.proof == Proof() else f", {step.proof}"
            self._add([*step_text(1, 1, step), f"  {step.mode.value}, exits {step.exits}{proof}"])
        for file in steps.files:
            text = file.text if file.name.endswith(".sh") else file.text.partition("(async () => {\n")[2][:-6]
            if file.name == own_spare.PROGRAM:
                text = text.partition("# The spare")[0]
            if text:
                self._add([f"--- {file.name}", *text.rstrip().split("\n")])

    def _add(self, lines: list[str]) -> None:
        lines[0] = lines[0].removeprefix("[1/1] ")
        known = tuple(lines) in self._seen
        self._seen.add(tuple(lines))
        self.lines += [f"{lines[0]} (as above)"] if known else lines


def group(number: int) -> WriteGroup:
    return WriteGroup("s.deleted", f"set {number}", 1, Ts(9, 1), Ts(9, 2), 1)


def everything() -> ReturnWork:
    """What a return of each kind writes."""
    returns = (
        Return("s.deleted", Strategy.MERGE, "s.deleted_pitr", recreated=True),
        Return("s.whole", Strategy.WHOLE, "s.whole_pitr"),
        Return("s.gone", Strategy.WHOLE, "s.gone_pitr"),
        Return("s.v", Strategy.WHOLE, ""),
        Return("s.out", Strategy.REPLACE, "s.out_pitr", away="s.out_before"),
        Return("s.looked", Strategy.BESIDE, "s.looked_pitr"),
        Return("s.$odd", Strategy.BESIDE, ""),
        Return("t.copied", Strategy.COPY, "t.copy"),
    )
    expected = [ExpectedNamespace(row.ns, "collection", 3, (INDEX,)) for row in returns]
    expected[0] = replace(expected[0], indexes=(INDEX, '{"key": {"a": 1}, "name": "a_1"}'), options='{"validator": {}}')
    expected[1] = replace(expected[1], indexes=(INDEX, TTL))
    expected[3] = replace(expected[3], kind="view", indexes=())
    made = changed(
        restored(), returns=returns, expected=tuple(expected),
        undone=tuple(group(n) for n in range(22)), left_out=(group(99),),
    )  # fmt: skip
    return ReturnWork(
        made,
        {"s.deleted": Damage(6_000, 1_234), "s.out": Damage(0, 7)},
        {row.ns: None if row.ns == "s.gone" else 12_000 for row in returns},
        {"s.out": ("seq",)},
        ("fix on the spare;",),
        ("fix on the live set;",),
        ("an index;",),
    )


def test_every_step_says_what_it_does() -> None:
    archive = replace(
        BACKUP, form=ARCHIVE, gzip=True, path=Path("/a.gz"), namespaces=("s.a", "t.b", "admin.c"), bytes=3 * 10**7
    )
    packed = replace(archive, gzip=False, compressed="zstd", has_oplog=True)
    names = [*"abcdefg"]
    many = tuple(Return(f"s.{name}", Strategy.MERGE, f"s.{name}_pitr") for name in names)
    copy = Return("s.c", Strategy.COPY, "s.d")
    ids = tuple(json_util.dumps(one) for one in (1, "x"))
    some = changed(restored(), returns=(copy,), choice=Choice("s.c", "s.d", ids))
    shown = Shown()
    shown.show("from a directory", restored(backup=replace(BACKUP, bytes=6 * 10**8)).steps)
    shown.show("from an archive, with a spare of its own", restored(backup=archive, own_spare=27_117).steps)
    shown.show("with a spare of its own in a set", restored(own_spare=27_117, encrypted=True).steps)
    shown.show("from a compressed archive", restored(backup=packed).steps)
    shown.show("from data files", restored(backup=replace(BACKUP, form=DATA_FILES)).steps)
    shown.show("from gzip", restored(backup=replace(BACKUP, gzip=True)).steps)
    shown.show("the rest of the oplog", _dump_rest(Ts(7, 1), LIMIT))
    shown.show("of each kind", return_steps(everything()))
    shown.show("of many", return_steps(ReturnWork(changed(restored(), returns=many))))
    shown.show("of three", return_steps(ReturnWork(changed(restored(), returns=many[:3]))))
    shown.show("some documents", return_steps(ReturnWork(some, documents={"s.c": 9})))
    shown.show("nothing", return_steps(ReturnWork(changed(restored(), returns=()))))
    shown.show("the end", clean_steps(own_spare_runs=True))
    page = readme(changed(restored(), tools_needed="100.15", found_in=("/opt/to ols",), made_by="1.0"))
    text = "\n".join([*shown.lines, "=== README.md of a folder", page.rstrip()]) + "\n"
    assert text == EXPECTED.read_text(encoding="ascii")


def test_the_folder_numbers_its_steps() -> None:
    made = restored()
    count = len(made.steps.commands)
    numbers = re.findall(r"^\[(\d+/\d+)\]", folder_files(made)["steps.txt"], re.MULTILINE)
    assert numbers == [f"{number}/{count}" for number in range(1, count + 1)]


def test_the_folder_says_how_a_run_ends() -> None:
    made = restored()
    ends = "; also with 3 if --yes left out a step that still needs a decision; with 1 if it stopped: run it again."
    by_hand = tuple(replace(step, mode=RunMode.BY_HAND) for step in made.steps.commands)
    for plan, said in ((made, False), (changed(made, commands=by_hand), True)):
        assert (ends in " ".join(readme(plan).split())) is said


def test_the_damage_of_a_namespace_is_the_accidents_where_that_is_known() -> None:
    accident: Any = Accident("deletes", "s.c", Ts(9, 1), Ts(9, 2), entries=5)
    found = Damage(7, 2)
    assert Damage() == Damage(0, 0)
    assert [found.of(one, ns) for one, ns in ((accident, "s.c"), (accident, "s.d"), (None, "s.c"))] == [
        Damage(5, 4), found, found,
    ]  # fmt: skip
    assert found.of(replace(accident, entries=0), "s.c") == found
