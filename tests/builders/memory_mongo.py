"""A replica set in memory, as far as the allocators use one: its calls take time, get lost, or are carried out late."""

from __future__ import annotations

import asyncio
import copy
import inspect
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient, MongoClient, ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import AutoReconnect, DuplicateKeyError, OperationFailure

Document = dict[str, Any]
MISSING = object()
TYPES: Mapping[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "long": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
}
TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, wanted: value == wanted or (wanted is None and value is MISSING),
    "$type": lambda value, names: any(TYPES[name](value) for name in ([names] if isinstance(names, str) else names)),
    "$lte": lambda value, most: TYPES["number"](value) and value <= most,
    "$gt": lambda value, least: isinstance(value, type(least)) and value > least,
    "$exists": lambda value, wanted: (value is not MISSING) is wanted,
    "$nin": lambda value, wanted: (None if value is MISSING else value) not in wanted,
    "$in": lambda value, wanted: value in wanted,
    "$not": lambda value, inner: not holds(value, inner),
}


def holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and wanted and all(name.startswith("$") for name in wanted):
        return all(TESTS[name](value, operand) for name, operand in wanted.items())
    return TESTS["$eq"](value, wanted)


def value_at(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document.get(name, MISSING) if isinstance(document, dict) else MISSING
    return document


def matches(document: Document, wanted: Mapping[str, Any]) -> bool:
    return all(
        any(matches(document, one) for one in inner) is (name == "$or")
        if name in ("$or", "$nor")
        else holds(value_at(document, name), inner)
        for name, inner in wanted.items()
    )


def put(document: Document, path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for name in outer:
        document = document.setdefault(name, {})
    document[last] = value


def changed(document: Document, update: Mapping[str, Any]) -> Document:
    new = copy.deepcopy(document)
    for path, value in update.get("$set", {}).items():
        put(new, path, value)
    for operator, change in (("$inc", lambda old, n: old + n), ("$max", max)):
        for path, value in update.get(operator, {}).items():
            old = value_at(new, path)
            if old is not MISSING and not TYPES["number"](old):
                raise OperationFailure(f"Cannot apply {operator} to a value of non-numeric type", 14)
            put(new, path, value if old is MISSING else change(old, value))
    return new


class Result:
    """What a write reports."""

    def __init__(self, matched: int = 0, changes: int = 0, upserted: Any = None, inserted: Any = None) -> None:
        self.inserted_id = inserted
        self.matched_count = matched
        self.modified_count = self.deleted_count = changes
        self.upserted_id = upserted
        self.upserted_count = int(upserted is not None)


class Rows(list[Any]):
    """A cursor of either driver."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        for row in list(self):
            yield row


class Data:
    """The documents of each collection, and its unique indexes, which its transactions share.

    A collection of which ``shard_keys`` names a number lies on two shards, each with an ``_id`` of its own.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[Document]] = {}
        self.unique: dict[str, list[tuple[str, ...]]] = {}
        self.shard_keys: dict[str, str] = {}

    def copy(self) -> Data:
        made = Data()
        made.rows, made.unique, made.shard_keys = copy.deepcopy(self.rows), self.unique, self.shard_keys
        return made

    def indexes(self, ns: str) -> list[tuple[str, ...]]:
        return [("_id",), *self.unique.get(ns, [])]

    def add(self, ns: str, new: Document) -> None:
        key = self.shard_keys.get(ns)
        shard = [row for row in self.rows.get(ns, []) if key is None or row[key] % 2 == new[key] % 2]
        for fields in self.indexes(ns):
            if any(all(value_at(row, f) == value_at(new, f) for f in fields) for row in shard):
                name = "_".join(f"{field}_1" for field in fields) if fields != ("_id",) else "_id_"
                text = f"E11000 duplicate key error collection: {ns} index: {name} dup key: {{ }}"
                raise DuplicateKeyError(text, 11000, {"errmsg": text, "keyPattern": dict.fromkeys(fields, 1)})
        self.rows.setdefault(ns, []).append(copy.deepcopy(new))

    def found(self, ns: str, wanted: Mapping[str, Any]) -> list[Document]:
        return [row for row in self.rows.get(ns, []) if matches(row, wanted)]

    # The methods of a collection.

    def find_one_and_update(
        self, ns: str, wanted: Document, update: Document, *, upsert: bool = False, **how: Any
    ) -> Document | None:
        before = copy.deepcopy(next(iter(self.found(ns, wanted)), None))
        self.update_one(ns, wanted, update, upsert=upsert)
        if how.get("return_document", ReturnDocument.BEFORE) is ReturnDocument.BEFORE:
            return before
        same = {"_id": before["_id"] if before else wanted["_id"]}
        return copy.deepcopy(next(iter(self.found(ns, same)), None))

    def update_one(self, ns: str, wanted: Document, update: Document, *, upsert: bool = False) -> Result:
        for n, row in enumerate(self.rows.get(ns, [])):
            if matches(row, wanted):
                self.rows[ns][n] = changed(row, update)
                return Result(1, int(self.rows[ns][n] != row))
        if not upsert:
            return Result()
        new = {"_id": wanted["_id"]["$eq"], **update.get("$setOnInsert", {})}
        self.add(ns, changed(new, update))
        return Result(upserted=new["_id"])

    def bulk_write(self, ns: str, writes: list[Any]) -> Result:
        made = [self.update_one(ns, one._filter, one._doc, upsert=one._upsert) for one in writes]
        total = Result()
        total.upserted_count = sum(one.upserted_count for one in made)
        return total

    def insert_one(self, ns: str, document: Document, **how: Any) -> Result:
        document.setdefault("_id", ObjectId())
        self.add(ns, document)
        return Result(inserted=document["_id"])

    def insert_many(self, ns: str, documents: list[Document]) -> None:
        for document in documents:
            document.setdefault("_id", ObjectId())
        rows = [*self.rows.get(ns, []), *copy.deepcopy(documents)]
        for fields in self.indexes(ns):
            if len({repr([value_at(row, f) for f in fields]) for row in rows}) < len(rows):
                raise DuplicateKeyError(f"E11000 duplicate key error collection: {ns} index: {fields}")
        self.rows[ns] = rows

    def delete_one(self, ns: str, wanted: Document) -> Result:
        found = self.found(ns, wanted)[:1]
        self.rows[ns] = [row for row in self.rows.get(ns, []) if row not in found]
        return Result(changes=len(found))

    def find(self, ns: str, wanted: Document, fields: Any = None) -> Rows:
        return Rows(copy.deepcopy(self.found(ns, wanted)))

    def find_one(self, ns: str, wanted: Document, fields: Any = None, **how: Any) -> Document | None:
        found = self.found(ns, wanted)
        for field, direction in how.get("sort", ()):
            found.sort(key=lambda row: value_at(row, field), reverse=direction < 0)
        return copy.deepcopy(next(iter(found), None))

    def list_indexes(self, ns: str) -> Rows:
        return Rows({"name": "-".join(f), "key": dict.fromkeys(f, 1), "unique": True} for f in self.indexes(ns))

    def create_index(self, ns: str, fields: str | list[tuple[str, int]], *, unique: bool) -> None:
        if unique:
            names = (fields,) if isinstance(fields, str) else tuple(name for name, _ in fields)
            self.unique.setdefault(ns, []).append(names)

    def estimated_document_count(self, ns: str) -> int:
        return len(self.rows.get(ns, []))


METHODS = [
    name for name, _ in inspect.getmembers(Data, inspect.isfunction) if name in dir(Collection) and name[0] != "_"
]
WRITES = {"find_one_and_update", "update_one", "bulk_write", "insert_one", "delete_one"}


class Memory:
    """The replica set. ``faults`` is the share of its calls that are lost: before, after, or long before they run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chance: random.Random, faults: float = 0.0) -> None:
        self.data = Data()
        self.chance = chance
        self.faults = faults
        self.late: set[asyncio.Task[None]] = set()
        self.hello = {"setName": "rs"}
        for name in METHODS:
            monkeypatch.setattr(Collection, name, self._method(name))
            monkeypatch.setattr(AsyncCollection, name, self._async_method(name))
        monkeypatch.setattr(Database, "command", lambda *_: self.hello)
        monkeypatch.setattr(AsyncDatabase, "command", lambda *_: asyncio.sleep(0, self.hello))
        monkeypatch.setattr(MongoClient, "start_session", lambda _: Session(self))
        monkeypatch.setattr(AsyncMongoClient, "start_session", lambda _: AsyncSession(self))

    def _carry_out(self, name: str, ns: str, args: Any, options: Any) -> Any:
        session = options.get("session")
        data = session.data if session is not None and session.in_transaction else self.data
        return getattr(data, name)(ns, *args, **options)

    def _method(self, name: str) -> Callable[..., Any]:
        def method(collection: Collection[Any], *args: Any, **options: Any) -> Any:
            lost = self.chance.random() < self.faults
            if lost and self.chance.random() < 0.5:
                raise AutoReconnect("lost before")
            reply = self._carry_out(name, collection.full_name, args, options)
            if lost:
                raise AutoReconnect("lost after")
            return reply

        return method

    def _async_method(self, name: str) -> Callable[..., Any]:
        async def method(collection: AsyncCollection[Any], *args: Any, **options: Any) -> Any:
            await asyncio.sleep(self.chance.random())
            lost = self.chance.random() < self.faults
            if lost and name in WRITES and not getattr(options.get("session"), "in_transaction", False):
                self.late.add(asyncio.create_task(self._later(name, collection.full_name, args, options)))
                raise AutoReconnect("lost, and carried out later")
            if lost and self.chance.random() < 0.5:
                raise AutoReconnect("lost before")
            reply = self._carry_out(name, collection.full_name, args, options)
            await asyncio.sleep(self.chance.random())
            if lost:
                raise AutoReconnect("lost after")
            return reply

        return method

    async def _later(self, name: str, ns: str, args: Any, options: Any) -> None:
        await asyncio.sleep(self.chance.choice([0.0, 0.1, 3.0]))
        try:
            self._carry_out(name, ns, args, options)
        except OperationFailure:
            return


class Session:
    """A session with transactions: one that meets a document that changed meanwhile fails as a whole."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.in_transaction = False
        self.committed = False

    def start_transaction(self, *concerns: Any, **how: Any) -> None:
        self.begun, self.data = self.memory.data.copy(), self.memory.data.copy()
        self.in_transaction, self.committed = True, False

    def abort_transaction(self) -> None:
        self.in_transaction = False

    def commit_transaction(self) -> None:
        self.in_transaction = False
        chance, faults = self.memory.chance, self.memory.faults
        unknown = AutoReconnect("lost", {"errorLabels": ["UnknownTransactionCommitResult"]})
        lost = chance.random() < faults
        if lost and chance.random() < 0.5:
            raise unknown
        if not self.committed:
            self._apply()
            self.committed = True
        if lost:
            raise unknown

    def _apply(self) -> None:
        now, before = self.memory.data.rows, self.begun.rows
        written = {ns: rows for ns, rows in self.data.rows.items() if rows != before.get(ns)}
        if any(now.get(ns) != before.get(ns) for ns in written):
            raise OperationFailure("WriteConflict", 112, {"errorLabels": ["TransientTransactionError"]})
        now.update(written)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.in_transaction = False


class AsyncSession(Session):
    """The same for AsyncMongoClient."""

    async def commit_transaction(self) -> None:  # type: ignore[override]
        await asyncio.sleep(self.memory.chance.random())
        super().commit_transaction()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.in_transaction = False
