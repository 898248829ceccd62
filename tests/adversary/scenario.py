"""Scenarios from a seed: documents, an application's statements, and one to three accidents among them.

Worlds are small on purpose: with few documents and few values, coincidences are common, and coincidences are what an
undo gets wrong.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bson import Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, json_util

from .statements import Document, Effect, Statement, Write

_TEXTS = ("ok", "new", "BAD", "done")
_NUMBERS: tuple[Any, ...] = (0, 1, 2, 5, Int64(5), 2.5, 100)
_TAGS = ("a", "b", "c")
_FIELDS = ("s", "flag", "n", "q", "tags", "m.k", "m.x", "note", "items.$[].v")
_ODD_IDS: tuple[Any, ...] = (
    "k1", "k10", "k9", "", 2.5, -3, Int64(2**40), b"bytes", ObjectId("5f0000000000000000000001"),
    ObjectId("5f0000000000000000000002"),
)  # fmt: skip
"""``_id``s of other types than the most."""

_ODD_VALUES: tuple[Any, ...] = (
    float("nan"), float("-inf"), -0.0, Decimal128("NaN"), Decimal128("1.50"), MinKey(), MaxKey(), Regex("^a", "i"),
    Timestamp(1, 1), Int64(2**53 + 1), Code("x"), [[]], {"": {}}, "\N{COMBINING ACUTE ACCENT}a",
)  # fmt: skip
"""What a document may hold beside what is written: most are equal to nothing, or to others than they seem."""

_COUNTER = 700
"""The ``_id`` of the document from which the application takes numbers."""

KNOWLEDGE = ("row", "count", "text", "text and count")
"""What a person knows of an accident: its row in the list alone, how many documents it reported, what was run."""


@dataclass(frozen=True, slots=True)
class Undo:
    """The undo of one accident: what is known, and how many milliseconds pass between computing repairs and writing
    them, when the application writes on. ``cut`` is how many repairs are written before the first attempt is killed."""

    accident: str
    knowledge: str
    start: int
    wait: int
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens in a world, and what is undone, in order."""

    documents: tuple[Document, ...]
    statements: tuple[Statement, ...]
    undos: tuple[Undo, ...]


def dense(seed: int) -> Scenario:
    """A scenario in which everything meets everything."""
    return DenseWorlds(random.Random(seed)).make()


def realistic(seed: int) -> Scenario:
    """One accident on two thousand documents with values of many kinds, and an application that writes beside it."""
    return RealisticWorlds(random.Random(seed)).make()


class DenseWorlds:
    """Makes scenarios in which everything meets everything."""

    texts: Sequence[str] = _TEXTS
    numbers: Sequence[Any] = _NUMBERS

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ids: list[int] = []

    def make(self) -> Scenario:
        rng = self.rng
        self.ids = list(range(1, rng.randint(4, 16)))
        if rng.random() < 0.15:
            self.ids[:4] = rng.sample(_ODD_IDS, min(4, len(self.ids)))
        documents = tuple({"_id": id_} | self.fields() for id_ in self.ids)
        if rng.random() < 0.2:
            documents = (*documents, {"_id": _COUNTER, "seq": rng.choice((1, 40))})
        accidents = [self.accident(f"a{n}") for n in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        others = [self.other(f"o{n}") for n in range(rng.randint(0, 8))]
        if rng.random() < 0.3:
            others.append(self.twin(rng.choice(accidents)))
        if rng.random() < 0.06:
            accidents.append(self.again(accidents[0]))
        if rng.random() < 0.06:
            others += self.application(accidents[0])
        if rng.random() < 0.06:
            others += self.inserted_again()
        return Scenario(documents, tuple([*accidents, *others]), self.undos(accidents))

    def undos(self, accidents: Sequence[Statement]) -> tuple[Undo, ...]:
        rng, at = self.rng, 30_000
        found = []
        for one in rng.sample(accidents, rng.randint(1, len(accidents))):
            cut = rng.randint(0, 3) if rng.random() < 0.2 else None
            found.append(Undo(one.name, rng.choice(KNOWLEDGE), at, rng.choice((0, 0, 2_000)), cut))
            at += 70_000
        if rng.random() < 0.04:
            found.append(replace(found[0], knowledge=rng.choice(KNOWLEDGE), start=at, cut=None))
        return tuple(found)

    # Documents

    def fields(self) -> Document:
        rng = self.rng
        found = {
            "s": rng.choice(self.texts), "flag": rng.random() < 0.5, "n": rng.choice(self.numbers),
            "q": rng.choice(self.numbers), "tags": [rng.choice(_TAGS) for _ in range(rng.randint(0, 3))],
            "m": {"k": rng.choice(self.numbers), "x": rng.choice(self.texts)},
        }  # fmt: skip
        if rng.random() < 0.15:
            found["items"] = [{"v": rng.choice(self.numbers), "w": 1} for _ in range(rng.randint(0, 2))]
        if rng.random() < 0.05:
            found |= {"a.b": rng.choice(self.texts), "$c": {"d.": 1}}
        if rng.random() < 0.05:
            found[rng.choice(("s", "n", "m"))] = None
        if rng.random() < 0.05:
            found["odd"] = rng.choice(_ODD_VALUES)
        return {name: value for name, value in found.items() if rng.random() < 0.85}

    def effect(self, path: str) -> Effect:
        rng = self.rng
        if rng.random() < 0.12 and "$" not in path:
            return ("$unset", path, "")
        if path == "items.$[].v":
            return (rng.choice(("$set", "$inc")), path, rng.choice((1, 5)))
        if path in ("n", "q", "m.k"):
            operator = rng.choice(("$set", "$set", "$set", "$inc", "$inc", "$inc", "$mul", "$mul", "$min", "$max"))
            if operator == "$inc":
                return (operator, path, rng.choice((1, 5, Int64(5), -2, 0.5)))
            return (operator, path, rng.choice((2, 3)) if operator == "$mul" else rng.choice(self.numbers))
        if path == "tags":
            operator = rng.choice(("$push", "$push", "$pull", "$addToSet", "$pop"))
            return (operator, path, rng.choice((1, -1)) if operator == "$pop" else rng.choice(_TAGS))
        if path == "flag":
            return ("$set", path, rng.random() < 0.7)
        if path == "s" and rng.random() < 0.08:
            return ("$rename", "s", "t")
        return ("$set", path, rng.choice(self.texts))

    def effects(self, most: int = 3) -> tuple[Effect, ...]:
        rng = self.rng
        paths = rng.sample(_FIELDS, rng.randint(1, most))
        if "m.k" in paths and rng.random() < 0.2:
            return (("$set", "m", {"k": rng.choice(self.numbers)}),)
        return tuple(self.effect(path) for path in paths)

    def pipeline(self) -> tuple[Effect, ...]:
        rng = self.rng
        one, other = rng.sample(("q", "n", "m.k"), 2)
        choices: list[Effect] = [
            ("$expr", "s", ["literal", rng.choice(self.texts)]),
            ("$expr", "note", ["copy", "s", "none"]),
            ("$expr", "n", ["linear", "q", rng.choice((1, 2, 3, -1, 0.5)), rng.choice((0, 1, 10))]),
            ("$expr", "note", [rng.choice(("concat", "prefix")), "s", "!"]),
            ("$expr", "total", [rng.choice(("product", "sum")), one, other]),
        ]
        return (rng.choice(choices),) if rng.random() < 0.7 else (choices[0], rng.choice((choices[2], choices[4])))

    def query(self) -> Document:
        rng, numbers = self.rng, [one for one in self.ids if isinstance(one, int)] or [3]
        choices: list[Document] = [
            {}, {}, {"s": rng.choice(self.texts)}, {"flag": rng.random() < 0.5}, {"n": {"$gte": rng.choice((1, 2))}},
            {"s": {"$in": rng.sample(list(self.texts), 2)}}, {"m.k": {"$exists": True}},
            {"_id": {"$lte": rng.choice(numbers)}}, {"tags": rng.choice(_TAGS)}, {"note": None},
            {"s": {"$ne": rng.choice(self.texts)}}, {"q": {"$lt": rng.choice((2, 5)), "$gt": 0}},
            {"$or": [{"s": rng.choice(self.texts)}, {"n": rng.choice(self.numbers)}]},
        ]  # fmt: skip
        return rng.choice(choices)

    # Statements

    def scan(self, name: str, write: Write, start: int) -> Statement:
        rng = self.rng
        pause = rng.choice((0, 0, 0, 400, 1_500, 4_000))
        return Statement(
            name, start, (write,), step=rng.choice((0, 1, 7)), pause_at=rng.randint(1, 6) if pause else 0, pause=pause,
            order=rng.choice((1, 1, 1, -1, 0)),
        )  # fmt: skip

    def accident(self, name: str) -> Statement:
        rng = self.rng
        start, kind = rng.randint(2_000, 12_000), rng.random()
        if kind < 0.45:
            dated = (("$currentDate", "at", True),) if rng.random() < 0.06 else ()
            effects = (*self.effects(), *dated)
            return replace(self.scan(name, Write("update", (effects,), self.query()), start), accident=True)
        if kind < 0.55:
            return replace(self.scan(name, Write("update", (self.pipeline(),), self.query()), start), accident=True)
        if kind < 0.8:
            return replace(self.scan(name, Write("delete", query=self.query()), start), accident=True)
        ids = tuple(rng.sample(self.ids, rng.randint(1, len(self.ids))))
        if kind < 0.9:
            writes = self.mixed(ids) if kind > 0.885 else tuple(self.batch(ids, delete=kind > 0.865))
            return Statement(name, start, writes, accident=True, session=rng.randint(1, 3), step=1)
        writes = (Write("update", (self.effects(),), self.query()), Write("delete", ids=ids[:2]))
        if rng.random() < 0.4:
            writes = (*writes, Write("insert", ids=(900,), document=self.fields()))
        return Statement(
            name, start, writes[: rng.randint(1, 3)], accident=True, session=rng.randint(1, 3), transaction=True
        )

    def batch(self, ids: tuple[Any, ...], *, delete: bool) -> Sequence[Write]:
        if delete:
            return [Write("delete", ids=ids)]
        return [Write("update", tuple(self.effects(2) for _ in range(self.rng.randint(1, 2))), ids=ids)]

    def mixed(self, ids: tuple[Any, ...]) -> tuple[Write, ...]:
        """A bulk write of several kinds: a driver sends one command for each."""
        rng = self.rng
        parts = [
            *self.batch(ids[:3], delete=False), Write("replace", ids=ids[:1], document=self.fields()),
            Write("delete", ids=ids[-2:]), Write("insert", ids=(901,), document=self.fields()),
        ]  # fmt: skip
        return tuple(rng.sample(parts, rng.randint(2, 3)))

    def other(self, name: str) -> Statement:
        """A statement of the application: before, during or after the accidents, or while they are undone."""
        rng = self.rng
        start = rng.choice((rng.randint(1_000, 14_000), rng.randint(14_000, 29_000), rng.randint(30_000, 32_500)))
        session = rng.choice((None, 1, 2, 3, 4))
        kind, id_ = rng.random(), rng.choice(self.ids)
        if kind < 0.25:
            return self.scan(name, Write("update", (self.effects(),), self.query()), start)
        if kind < 0.32:
            return self.scan(name, Write("delete", query=self.query()), start)
        if kind < 0.60:
            writes = tuple(
                Write("update", (self.effects(2),), ids=(rng.choice(self.ids),)) for _ in range(rng.randint(1, 5))
            )
        elif kind < 0.68:
            writes = (Write("delete", ids=(id_,)),)
        elif kind < 0.74:
            writes = (Write("insert", ids=(rng.choice((id_, 500 + len(name))),), document=self.fields()),)
        elif kind < 0.80:
            writes = (Write("replace", ids=(id_,), document=self.fields()),)
        elif kind < 0.86:
            writes = (Write("rewrite", (self.effects(1),), ids=(id_,)),)
        elif kind < 0.92:
            writes = (Write("update", (self.effects(2),), ids=(rng.choice((id_, 600)),), upsert=True),)
            if rng.random() < 0.4:
                taken = Write("update", ((("$inc", "seq", 1),),), ids=(_COUNTER,), upsert=True)
                writes = (taken,) * rng.randint(1, 4)
        elif kind < 0.935:
            writes = (Write("update", (self.effects(2),), ids=(id_,)), Write("delete", ids=(rng.choice(self.ids),)),
                      Write("insert", ids=(700 + len(name),), document=self.fields()))  # fmt: skip
            return Statement(name, start, writes[: rng.randint(1, 3)], session=rng.randint(1, 4), transaction=True)
        elif kind < 0.96:
            ids = tuple(rng.sample(self.ids, min(3, len(self.ids))))
            writes = self.mixed(ids) if rng.random() < 0.3 else tuple(self.batch(ids, delete=False))
        else:
            writes = (Write("update", (self.pipeline(),), ids=(id_,)),)
        return Statement(name, start, writes, session=session, step=rng.choice((1, 5, 300)))

    def again(self, accident: Statement) -> Statement:
        """The same accident once more, by the same person, seconds or a minute later."""
        return replace(accident, name="again", start=accident.start + self.rng.choice((400, 3_000, 9_000, 65_000)))

    def application(self, accident: Statement) -> list[Statement]:
        """An application that runs what the accident runs, on one document each time, before and after it."""
        rng, (write, *_) = self.rng, accident.writes
        session = rng.choice((None, 5))
        return [
            Statement(
                f"p{n}", rng.randint(1_000, 25_000), (replace(write, ids=(rng.choice(self.ids),), query=None),),
                session=session,
            )
            for n in range(rng.randint(1, 4))
        ]  # fmt: skip

    def inserted_again(self) -> list[Statement]:
        """A document that others delete and insert again, as it was or another."""
        rng = self.rng
        id_, start, session = rng.choice(self.ids), rng.randint(1_000, 25_000), rng.choice((None, 4))
        writes = (Write("delete", ids=(id_,)), Write("insert", ids=(id_,), document=self.fields()))
        return [Statement("again by others", start, writes, session=session, step=rng.choice((1, 300, 4_000)))]

    def twin(self, accident: Statement) -> Statement:
        """The same statement, meant: on other documents or at another time."""
        (write, *_) = accident.writes
        start = accident.start + self.rng.choice((-3_000, -500, 1, 500, 3_000, 8_000))
        if write.many:
            write = replace(write, query=self.query())
        return replace(accident, name="twin", accident=False, start=start, writes=(write,))


class RealisticWorlds(DenseWorlds):
    """Makes scenarios of thousands of documents with values of many kinds."""

    texts = tuple(f"value {n}" for n in range(200))
    numbers = tuple([*range(300), *(Int64(10**10 + n) for n in range(50)), *(n + 0.25 for n in range(50))])

    def make(self) -> Scenario:
        rng = self.rng
        self.ids = list(range(1, 2_001))
        documents = tuple({"_id": id_} | self.fields() for id_ in self.ids)
        # A filter by a number of documents, and what an application writes: mostly one document, in sessions.
        query = {"_id": {"$lte": rng.choice((50, 300, 1_000))}}
        write = Write("delete", query=query) if rng.random() < 0.4 else Write("update", (self.effects(),), query)
        accident = Statement("a0", 10_000, (write,), accident=True, step=1)
        others = tuple(self.single(f"o{n}") for n in range(300))
        knowledge = rng.choice(("row", "text and count", "count"))
        return Scenario(documents, (accident, *others), (Undo("a0", knowledge, 40_000, 2_000),))

    def single(self, name: str) -> Statement:
        rng = self.rng
        start, session = rng.randint(1_000, 44_000), rng.randint(1, 4)
        id_ = rng.choice(self.ids)
        if rng.random() < 0.05:
            return Statement(
                name, start, (Write("insert", ids=(10_000 + start,), document=self.fields()),), session=session
            )
        return Statement(name, start, (Write("update", (self.effects(2),), ids=(id_,)),), session=session)


# Kept scenarios


def to_json(scenario: Scenario) -> str:
    """A scenario as canonical Extended JSON, one statement a line."""
    return json_util.dumps(_plain(scenario), indent=1, json_options=json_util.CANONICAL_JSON_OPTIONS)


def from_json(text: str) -> Scenario:
    """The scenario that was written with :func:`to_json`."""
    held = json_util.loads(text, json_options=_READ)
    statements = [replace(Statement(**one), writes=tuple(_write(write) for write in one["writes"]))
                  for one in held["statements"]]  # fmt: skip
    return Scenario(tuple(held["documents"]), tuple(statements), tuple(Undo(**one) for one in held["undos"]))


_READ = json_util.CANONICAL_JSON_OPTIONS


def _write(held: Document) -> Write:
    effects = tuple(tuple((one[0], one[1], one[2]) for one in part) for part in held["effects"])
    return Write(**(held | {"effects": effects, "ids": tuple(held["ids"])}))


def _plain(value: Any) -> Any:
    if isinstance(value, (Scenario, Undo, Statement, Write)):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value
