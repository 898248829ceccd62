"""One collection on a set of one member: its documents, its oplog as a 6.0 server writes it, and who wrote what."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from bson import Binary, Int64, ObjectId, Timestamp
from bson.datetime_ms import DatetimeMS

from .statements import (
    Document,
    Effect,
    Statement,
    StatementError,
    Write,
    apply,
    copied,
    each_effect,
    matches,
    same,
    update_entry,
    visible,
)

NS = "shop.items"
COLLECTION = Binary.from_uuid(UUID(int=1))
BEGIN = 1_700_000_000
"""The second at which a world begins."""

_FIELDS = (
    "lsid", "txnNumber", "op", "ns", "ui", "o", "o2", "stmtId", "ts", "t", "v", "wall", "prevOpTime",
)  # fmt: skip
"""The order in which a server writes the fields of an entry."""

_NO_TS = {"ts": Timestamp(0, 0), "t": Int64(-1)}


@dataclass(frozen=True, slots=True)
class Step:
    """What a statement did to one document: ``effects`` are those that left a trace; ``document`` what it inserted, or
    put in its place."""

    at: Timestamp
    who: str
    kind: str
    id: Any
    effects: tuple[Effect, ...] = ()
    document: Document | None = None
    upsert: bool = False
    before: Document | None = None


@dataclass(slots=True)
class World:
    """Run it with :meth:`run`; ``live`` are the documents by ``_id`` as they are by then, and ``steps`` what statements
    did. The undo writes with :meth:`log` alone."""

    initial: dict[Any, Document]
    live: dict[Any, Document] = field(init=False)
    oplog: list[Document] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    states: list[tuple[Timestamp, Any, Document | None]] = field(default_factory=list)
    now: int = 0
    _queue: list[tuple[int, int, Iterator[int]]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)
    _numbers: dict[int, int] = field(default_factory=dict)
    _busy: set[int] = field(default_factory=set)
    """Sessions in use: a driver sends one command at a time in each."""

    def __post_init__(self) -> None:
        self.live = copied(self.initial)
        self._entry({"op": "n", "ns": "", "o": {"msg": "initiating set"}})
        self.now = 1_000

    def add(self, statements: Iterable[Statement]) -> None:
        """Let these statements run from their starts on."""
        for one in statements:
            heapq.heappush(self._queue, (one.start, next(self._order), self._execute(one)))

    def run(self, until: int | None = None) -> None:
        """Run the statements up to a time, in milliseconds from the beginning; all of them for None."""
        while self._queue and (until is None or self._queue[0][0] <= until):
            at, _, running = heapq.heappop(self._queue)
            self.now = max(self.now, at)
            wait = next(running, None)
            if wait is not None:
                heapq.heappush(self._queue, (self.now + wait, next(self._order), running))
        if until is not None:
            self.now = max(self.now, until)

    # Statements

    def _execute(self, statement: Statement) -> Iterator[int]:
        """One document after the other; yields how long until the next."""
        if statement.session is None:
            yield from self._commands(statement)
            return
        while statement.session in self._busy:
            yield 1
        self._busy.add(statement.session)
        try:
            yield from self._commands(statement)
        finally:
            self._busy.discard(statement.session)

    def _commands(self, statement: Statement) -> Iterator[int]:
        if statement.transaction:
            self._transaction(statement)
            return
        done = 0
        for write in statement.writes:
            linked: Document = {}
            if statement.session is not None and not write.many:
                linked = {"lsid": _session(statement.session), "txnNumber": Int64(self._next(statement.session))}
            effects = each_effect(write)
            for place, id_ in enumerate(self._targets(write, statement)):
                more = linked | {"stmtId": place, "prevOpTime": _NO_TS} if linked else {}
                try:
                    found = self._write(statement.name, write, id_, write.effects[0] if write.many else next(effects))
                except StatementError:
                    return
                if found is None:
                    continue
                self._commit(*found, self._entry(found[1] | more))
                done += 1
                yield statement.step + (statement.pause if done == statement.pause_at else 0)

    def _next(self, session: int) -> int:
        self._numbers[session] = number = self._numbers.get(session, 0) + 1
        return number

    def _targets(self, write: Write, statement: Statement) -> list[Any]:
        if not write.many:
            return list(write.ids)
        found = sorted(self.live, key=in_order, reverse=statement.order < 0)
        if not statement.order:
            random.Random(statement.name).shuffle(found)
        return found

    def _write(
        self, who: str, write: Write, id_: Any, effects: tuple[Effect, ...]
    ) -> tuple[Step, Document, Document | None] | None:
        """What a command does to one document: the step, the entry, and the document afterwards; None for nothing."""
        now = DatetimeMS(BEGIN * 1_000 + self.now)
        effects = tuple((one[0], one[1], now) if one[0] == "$currentDate" else one for one in effects)
        before = self.live.get(id_)
        stamp = Timestamp(0, 1)
        if write.kind == "insert":
            assert write.document is not None
            after = {"_id": id_} | write.document
            if before is not None:
                raise StatementError(str(id_))
            return Step(stamp, who, "insert", id_, (), after), _insert(after), after
        if before is None:
            if not write.upsert:
                return None
            after = apply({"_id": id_}, effects)
            return Step(stamp, who, "update", id_, tuple(effects), None, True), _insert(after), after
        if write.query is not None and not matches(before, write.query):
            return None
        if write.kind == "delete":
            return Step(stamp, who, "delete", id_), _entry("d", {"_id": id_}), None
        if write.kind == "replace":
            assert write.document is not None
            after = _replacement({"_id": id_} | write.document)
            step = Step(stamp, who, "replace", id_, (), after)
            return None if same(before, after) else (step, _entry("u", after, id_), after)
        after = apply(before, effects)
        if write.kind == "rewrite":
            _replacement(after)
        if same(before, after):
            return None
        step = Step(stamp, who, "update", id_, tuple(visible(before, effects)), None, write.upsert, before)
        o = after if write.kind == "rewrite" else update_entry(before, after, effects)
        return step, _entry("u", o, id_), after

    def _transaction(self, statement: Statement) -> None:
        assert statement.session is not None
        kept, done = copied(self.live), []
        for write in statement.writes:
            effects = each_effect(write)
            for id_ in self._targets(write, statement):
                try:
                    found = self._write(statement.name, write, id_, write.effects[0] if write.many else next(effects))
                except StatementError:
                    self.live = kept
                    return
                if found is not None:
                    done.append(found)
                    self._keep(id_, found[2])
        if not done:
            return
        inner = [entry | {"ns": NS, "ui": COLLECTION} for _, entry, _ in done]
        more = {"lsid": _session(statement.session), "txnNumber": Int64(self._next(statement.session))}
        o = {"applyOps": inner}
        at = self._entry({"op": "c", "ns": "admin.$cmd", "o": o, "prevOpTime": _NO_TS} | more)
        for found in done:
            self._commit(*found, at)

    def _keep(self, id_: Any, after: Document | None) -> None:
        if after is None:
            self.live.pop(id_, None)
        else:
            self.live[id_] = after

    def _commit(self, step: Step, _: Document, after: Document | None, at: Timestamp) -> None:
        self._keep(step.id, after)
        self.states.append((at, step.id, after))
        self.steps.append(replace(step, at=at))

    # Entries

    def _entry(self, entry: Document) -> Timestamp:
        second = BEGIN + self.now // 1_000
        last = self.oplog[-1]["ts"] if self.oplog else Timestamp(BEGIN, 0)
        at = Timestamp(second, last.inc + 1 if last.time == second else 1)
        home = {} if "ns" in entry else {"ns": NS, "ui": COLLECTION}
        wall = DatetimeMS(BEGIN * 1_000 + self.now)
        row = entry | home | {"ts": at, "t": Int64(1), "v": Int64(2), "wall": wall}
        self.oplog.append({name: row[name] for name in _FIELDS if name in row})
        return at

    def log(self, entry: Document, id_: Any = None, after: Document | None = None, *, writes: bool = False) -> None:
        """Write an entry that is no statement's; with ``writes`` the document ``id_`` is ``after`` from then on."""
        at = self._entry(dict(entry))
        if writes:
            self._keep(id_, after)
            self.states.append((at, id_, after))

    def documents_at(self, limit: Timestamp) -> dict[Any, Document]:
        """The documents before the entry at ``limit``."""
        found = dict(self.initial)
        for at, id_, after in self.states:
            if at >= limit:
                break
            if after is None:
                found.pop(id_, None)
            else:
                found[id_] = after
        return found

    def without(self, undone: Callable[[Step], bool]) -> dict[Any, Document]:
        """The documents as they would be without some steps: the others are done again as they were meant, as far as
        they left a trace."""
        found = copied(self.initial)
        for step in self.steps:
            if not undone(step):
                _repeat(found, step)
        return found


def in_order(id_: Any) -> tuple[int, Any]:
    """A key by which ``_id``s sort as the server sorts them: numbers, texts, bytes, ObjectIds."""
    kinds = (int, float), str, bytes, ObjectId
    return next(place for place, one in enumerate(kinds) if isinstance(id_, one)), id_


def _repeat(documents: dict[Any, Document], step: Step) -> None:
    held = documents.get(step.id)
    if step.kind == "delete":
        documents.pop(step.id, None)
    elif step.document is not None:
        if held is not None or step.kind == "insert":
            documents[step.id] = copied(step.document)
    elif held is not None or step.upsert:
        with contextlib.suppress(StatementError):  # the server would have refused it
            documents[step.id] = apply(held if held is not None else {"_id": step.id}, step.effects)


def _entry(op: str, o: Document, id_: Any = None) -> Document:
    return {"op": op, "o": o} | ({"o2": {"_id": id_}} if op == "u" else {})


def _replacement(document: Document) -> Document:
    """The document, which replaces another. Raises StatementError where the server takes a name for an operator."""
    if any(name.startswith("$") for name in document):
        raise StatementError(document["_id"])
    return document


def _insert(document: Document) -> Document:
    return {"op": "i", "o": document, "o2": {"_id": document["_id"]}}


def _session(number: int) -> Document:
    return {"id": Binary.from_uuid(UUID(int=1_000 + number)), "uid": bytes(32)}
