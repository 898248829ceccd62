"""Undo the accidents of a scenario with the code under test, and compare with what an oracle says.

The rule: every document is as it would be without the accident, or the undo is refused by a check, or it ends with exit
code 3 and names every document that is not. What was listed although a repair would have been right is the price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import bson
from bson import Timestamp, json_util

from builders.plans import changed, make_plan
from tallyglass.errors import InputError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.changes import Path as FieldPath
from tallyglass.oplog.entry.changes import Value, differing, get
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.checks.undone import unclear
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.source import Backup, FromBackup
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.counterfactual import Counterfactual
from tallyglass.restore.undo.evidence import KnownStatement, read_evidence
from tallyglass.restore.undo.history_file import history_file
from tallyglass.restore.undo.infer import find_accident
from tallyglass.restore.undo.outcome import account, is_complete
from tallyglass.restore.undo.recovery import Repairs, repairs

from .scenario import Scenario, Undo
from .server import BESIDE, MemoryServer, load_repairs, merge_repairs
from .statements import Document, Effect, Statement, StatementError, Write, apply, same
from .world import NS, Step, World, in_order

Assigned = tuple[FieldPath, Value | None]

_GAP_MILLIS = 3_000
"""A row of the list of incidents ends where nothing of its kind follows within this."""


@dataclass(slots=True)
class Result:
    """What one undo came to: identical, exit 3, refused or wrong. ``wrong`` are the documents that differ and are not
    listed, each with what it is and what it would be.

    One verdict is apart, since no entry tells: ``twin``, others' entries were undone that the statement explains as
    well, and nobody gave a count.
    """

    undo: Undo
    verdict: str
    reason: str = ""
    wrong: list[tuple[Any, Document | None, Document | None]] = field(default_factory=list)
    touched: int = 0
    listed: int = 0
    listed_though_right: int = 0


async def run(scenario: Scenario) -> list[Result]:
    """The undos of a scenario, one after the other, while its application writes on."""
    world = World({row["_id"]: row for row in scenario.documents})
    world.add(scenario.statements)
    session = Session(scenario, world)
    return [found for one in scenario.undos if (found := await session.undo(one)) is not None]


@dataclass(slots=True)
class Session:
    """The undos of one scenario, in its world."""

    scenario: Scenario
    world: World
    done: set[tuple[str, Any]] = field(default_factory=set)
    """The accident and ``_id`` of each document that an undo left as it would be."""
    open: set[Any] = field(default_factory=set)
    """The documents that an undo listed: a person repairs them, in part or whole."""

    async def undo(self, one: Undo) -> Result | None:
        world = self.world
        world.run(max(world.now, one.start))
        statement = next(item for item in self.scenario.statements if item.name == one.accident)
        own = [step for step in world.steps if step.who == one.accident]
        row = _row(world, statement, own)
        if row is None:
            return None
        source = cast(Gateway, MemoryServer(world))
        known = evidence(one, statement, len(own), row.op)
        found = await find_accident(source, row, row.limit, row.last, None, [NS], known)
        refused = next(iter(unclear(found.accident, found.doubts, found.groups)), None)
        if refused is not None and refused.level is Level.BLOCK:
            return self._refused(one, " ".join(found.doubts), own)
        staging = f"{NS}_pitr_{row.limit.t}"
        plan = changed(
            _PLAN, limit=row.limit, accident=found.accident,
            returns=(Return(NS, Strategy.MERGE, staging),),
        )  # fmt: skip
        copy = cast(Gateway, MemoryServer(world, world.documents_at(Timestamp(*row.limit))))
        newest = world.oplog[-1]["ts"]
        began = Ts(newest.time, newest.inc)
        with TemporaryDirectory() as folder:
            return await self._return(one, own, plan, copy, began, known, Path(folder))

    async def _return(
        self, one: Undo, own: Sequence[Step], plan: Plan, copy: Gateway, began: Ts, known: KnownStatement | None,
        folder: Path,
    ) -> Result:  # fmt: skip
        """Run the steps of a plan in its ``folder``, which keeps what they read for the next one."""
        world, staging, kept = self.world, plan.undo.returns[0].repairs, history_file(folder, 1)
        source = cast(Gateway, MemoryServer(world))
        try:
            for again in range(3):
                made = [raw async for raw in repairs(source, copy, plan, plan.undo.returns[0], Repairs(NS), kept)]
                if again and not made:
                    break
                loaded = load_repairs(world, staging, made)
                world.run(world.now + (0 if again else one.wait))
                merge_repairs(world, staging, loaded[: one.cut] if one.cut is not None and not again else loaded)
            busy = cast(Gateway, MemoryServer(world, busy=True))
            rows = [item async for item in account(busy, copy, plan, began, folder)]
        except (ReadError, InputError) as error:
            return self._refused(one, str(error), own)
        damaged = {_id(item.id) for item in rows[0].damaged}
        return self.judge(one, own, damaged, code=0 if is_complete(rows) else 3, known=known)

    def _refused(self, one: Undo, reason: str, own: Sequence[Step]) -> Result:
        result = Result(one, "refused", reason)
        self._weigh(result, own, {step.id for step in own})
        return result

    def judge(
        self, one: Undo, own: Sequence[Step], damaged: set[Any], *, code: int, known: KnownStatement | None
    ) -> Result:
        """Compare the live documents with the oracle; ``own`` are the accident's steps, ``damaged`` the ``_id``s that
        were listed."""
        wanted = self._oracle(one.accident)
        live = self.world.live
        differ = {id_ for id_ in {*wanted, *live} if not alike(wanted.get(id_), live.get(id_))}
        twins = self._twins(one, own) if known is None or known.count is None else set()
        explained = self._oracle(one.accident, twins)
        beside = {id_ for id_ in differ if twins and alike(explained.get(id_), live.get(id_))}
        unlisted = differ - damaged - beside - self.open
        wrong = sorted(unlisted, key=in_order)
        result = Result(one, "exit 3" if damaged or code else "identical")
        if wrong:
            result.wrong = [(id_, live.get(id_), wanted.get(id_)) for id_ in wrong]
            result.verdict = "wrong"
        elif code == 0 and damaged:
            result.verdict, result.reason = "wrong", "exit 0 with documents listed"
        elif beside - damaged:
            result.verdict = "twin"
        self.done |= {(one.accident, id_) for id_ in {*wanted, *live} - damaged}
        self._weigh(result, own, damaged)
        self.open |= damaged | beside
        return result

    def _oracle(self, accident: str, twins: Iterable[Step] = ()) -> dict[Any, Document]:
        """The documents without an accident, and without those that were undone before."""
        beside = {id(step) for step in twins}
        return self.world.without(
            lambda step: step.who == accident or (step.who, step.id) in self.done or id(step) in beside
        )

    def _twins(self, one: Undo, own: Sequence[Step]) -> list[Step]:
        """The steps of others whose entries the accident's statement explains as well: without a count nobody can tell
        them from its own."""
        statement = next(item for item in self.scenario.statements if item.name == one.accident)
        write = statement.one_command
        sessions = {item.name: item.session for item in (*self.scenario.statements, BESIDE)}
        if statement.session is not None and not statement.transaction and len(own) <= len(statement.writes):
            # Single writes of one client, one after the other, are one loop or several: nothing says which.
            kinds = {step.kind for step in own}
            return [step for step in self.world.steps if step.who != one.accident and step.kind in kinds
                    and sessions[step.who] == statement.session]  # fmt: skip
        if write is None or statement.session is not None:
            return []
        # Where nobody knows the statement, all that is seen of it is what its entries leave.
        seen = set[Assigned]() if "text" in one.knowledge else {pair for step in own for pair in _assigned(step)}
        found = []
        for step in self.world.steps:
            if step.who == one.accident or (sessions[step.who] is not None and not self._many(step.who)):
                continue
            if step.kind == write.kind == "delete" or (
                step.kind == write.kind == "update" and step.before is not None
                and (_explains(write, step.before, step.effects) or _assigned(step) <= seen)
            ):  # fmt: skip
                found.append(step)
        return found

    def _many(self, who: str) -> bool:
        statement = next(item for item in (*self.scenario.statements, BESIDE) if item.name == who)
        return statement.one_command is not None and statement.one_command.many

    def _weigh(self, result: Result, own: Sequence[Step], damaged: set[Any]) -> None:
        """Count the documents that were listed though the algebra, told whose each entry is, repairs them rightly."""
        result.touched = len({step.id for step in own})
        result.listed = len(damaged)
        wanted = self._oracle(result.undo.accident)
        for id_ in damaged:
            hopeful = _hopeful(self.world, result.undo.accident, id_)
            result.listed_though_right += hopeful is not _NO_HOPE and alike(hopeful, wanted.get(id_))


def _assigned(step: Step) -> set[Assigned]:
    """The paths that an update sets, each with its value; none for another step."""
    if step.before is None:
        return set()
    before, after = (bson.encode(one) for one in (step.before, apply(step.before, step.effects)))
    return {(path, get(after, path)) for path in differing(before, after)}


def _explains(write: Write, before: Document, effects: Sequence[Effect]) -> bool:
    dates = {path: at for operator, path, at in effects if operator == "$currentDate"}
    mine = [(one[0], one[1], dates.get(one[1], one[2])) for one in write.effects[0]]
    try:
        return same(apply(before, mine), apply(before, effects))
    except StatementError:
        return False


_NO_HOPE: Document = {"no": "hope"}


def _hopeful(world: World, accident: str, id_: Any) -> Document | None:
    """What a repair would make of a document if it trusted every guess."""
    copy = world.initial.get(id_)
    raw = None if copy is None else bson.encode(copy)
    worlds = Counterfactual(raw, raw)
    whose = {step.at: step.who for step in world.steps if step.id == id_}
    for entry in world.oplog:
        for operation in entry["o"].get("applyOps", [entry]):
            about = operation.get("o2", operation["o"]).get("_id")
            if operation["ns"] != NS or about != id_ or operation["op"] not in "iud":
                continue
            feed = worlds.accident if whose.get(entry["ts"]) == accident else worlds.others
            feed(operation["op"], b"" if operation["op"] == "d" else bson.encode(operation["o"]))
    return None if worlds.wanted is None else bson.decode(worlds.wanted)


def alike(one: Any, other: Any) -> bool:
    """Whether two documents, or two tables of them, have the same fields with the same bytes, in any order."""
    if one is None or other is None:
        return one is other
    return _sorted(one) == _sorted(other)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _sorted(value[name])) for name in sorted(value, key=repr)]
    return bson.encode({"": value})


def _id(text: str) -> Any:
    return json_util.loads(text) if text else None


def _row(world: World, statement: Statement, own: Sequence[Step]) -> Incident | None:
    """The row that a list of incidents shows: entries of one kind and sender with no long gap, around the accident's
    first one. Other statements may be part of it, and a pause cuts it. None where the accident wrote nothing."""
    entries = {entry["ts"]: entry for entry in world.oplog}
    first = next((found for step in own if (found := entries[step.at])["op"] in "udc"), None)
    if first is None:
        return None  # inserts are no incident
    if statement.transaction:
        at = Ts(first["ts"].time, first["ts"].inc)
        return _incident("transaction", "", at, at, len(own), txn=first["txnNumber"])
    op, sender = first["op"], first.get("lsid")
    near = [one for one in world.oplog if one["op"] == op and one["ns"] == NS and one.get("lsid") == sender]
    place = near.index(first)
    begin = end = place
    while begin > 0 and _millis(near[begin]) - _millis(near[begin - 1]) <= _GAP_MILLIS:
        begin -= 1
    while end + 1 < len(near) and _millis(near[end + 1]) - _millis(near[end]) <= _GAP_MILLIS:
        end += 1
    bounds = [Ts(near[at]["ts"].time, near[at]["ts"].inc) for at in (begin, end)]
    kind = "batch" if sender else {"u": "updateMany", "d": "deleteMany"}[op]
    session = bytes(sender["id"]).hex() if sender else ""
    return _incident(kind, op, *bounds, end - begin + 1, session=session)


def _incident(
    kind: str, op: str, first: Ts, last: Ts, documents: int, *, session: str = "", txn: Any = None
) -> Incident:
    return Incident(
        1, kind, kind, NS, Harm.CHANGE, first, last, None, None, documents, documents, op=op, session=session,
        sessions=int(bool(session)), txn=txn,
    )  # fmt: skip


def _millis(entry: Document) -> int:
    return int(entry["wall"])


def evidence(one: Undo, statement: Statement, count: int, op: str) -> KnownStatement | None:
    """What the person types, as the command reads it. A text that the command does not take is left out."""
    if not op or statement.session is not None:
        return None
    command = statement.one_command
    text = command.text if command is not None and "text" in one.knowledge else ""
    number = count if "count" in one.knowledge else None
    try:
        return read_evidence(text, number)
    except InputError:
        return read_evidence("", number)


_PLAN = make_plan(
    Ts(1, 1), FromBackup(Backup(Path("/backup"), "directory", False, None, None, ""), ""),
    datetime(2026, 1, 1, tzinfo=UTC),
)  # fmt: skip


def total(results: Iterable[Result]) -> Counter[str]:
    """How many undos came to each verdict, and documents listed and touched."""
    found: Counter[str] = Counter()
    for one in results:
        found[one.verdict] += 1
        found["documents touched"] += one.touched
        found["documents listed"] += one.listed
        found["listed though right"] += one.listed_though_right
    return found


def described(result: Result) -> str:
    """A wrong result in words."""
    lines = [f"{result.undo}: {result.verdict} {result.reason}"]
    for id_, is_now, wanted in result.wrong:
        lines.append(f"  _id {id_}\n    is      {json_util.dumps(is_now)}\n    wanted  {json_util.dumps(wanted)}")
    return "\n".join(lines)
