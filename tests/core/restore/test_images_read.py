"""Which pre-images an undo needs, whether they are held, and what one says of its entry; from a server in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import MaxKey, Timestamp
from bson.raw_bson import RawBSONDocument

from builders.history import COLLECTION, Row, Server, diff, entry
from builders.incidents import incident
from tallyglass.errors import InputError, PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Extent, Namespace
from tallyglass.mongo.mongo_gateway import MongoGateway
from tallyglass.restore.backup.backup import DIRECTORY, Contents
from tallyglass.restore.backup.bson_file import decode
from tallyglass.restore.catalogue.usable_backup import UsableBackup
from tallyglass.restore.checks import images_held
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.source import WITH_BACKUP, Backup
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.model.way import WITHOUT_SPARE
from tallyglass.restore.pre_images import image_proof
from tallyglass.restore.pre_images.before_after import before_and_after
from tallyglass.restore.pre_images.damaged import IncidentDamage, find_damaged, live_collections
from tallyglass.restore.pre_images.image_proof import ImagesProof, prove_images
from tallyglass.restore.pre_images.settings import how_to_enable
from tallyglass.restore.pre_images.survey import ImageCost, survey
from tallyglass.restore.undo.infer import Inferred
from tallyglass.restore.undo.sources import images
from tallyglass.restore.undo.sources.images import PRE_IMAGES, _position, read_images, select

KEEPS = {"changeStreamPreAndPostImages": {"enabled": True}}


def collection(options: Row | None = KEEPS, kind: str = "collection", name: str = "c") -> CollectionInfo:
    return CollectionInfo(Namespace("s", name), kind, options, bytes(COLLECTION))


class Keeper(Server):
    """Also holds pre-images, each by the second of its entry and its place there, for as long as ``expire`` says."""

    def __init__(self, oplog: list[Row], images: dict[tuple[int, int], Row], *live: CollectionInfo) -> None:
        super().__init__(oplog)
        self.images, self.live = images, live
        self.version, self.denied = "7.0.1", False
        self.expire: Any = {"expireAfterSeconds": 60}
        self.room = 0
        """Bytes of the oplog that are free, after 50 bytes of 50 s; unknown if 0."""

    async def command(self, name: str, *_: Any, **__: Any) -> Row:
        if name == "collStats" and self.room:
            return {"size": 50, "maxSize": 50 + self.room}
        if name == "getClusterParameter":
            return {"clusterParameters": [{"preAndPostImages": self.expire}]}
        return {"setName": "rs", "version": self.version, "avgObjSize": 10}

    async def list_databases(self) -> list[str]:
        return ["admin", "s"]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [info for info in self.live if info.ns.db == db]

    async def extent(self, *_: Any, **__: Any) -> Extent:
        raise ReadError("It takes too long.")

    async def find_one(self, ns: Namespace, *_: Any, sort: list[tuple[str, int]], **__: Any) -> Row:
        if ns.collection == "oplog.rs":
            return self.oplog[0 if sort[0][1] == 1 else -1]
        assert sort == [("_id", 1)], "the oldest"
        return {"operationTime": datetime(2026, 1, 2, tzinfo=UTC)}

    async def find_raw(self, ns: Namespace, query: Any, **how: Any) -> AsyncIterator[bytes]:
        if ns != PRE_IMAGES:
            async for batch in super().find_raw(ns, query, **how):
                yield batch
            return
        if self.denied:
            raise PrivilegeError("You may not read them.")
        low, high = query["_id"]["$gte"], query["_id"]["$lte"]
        last = high.get("applyOpsIndex", -1)
        bounds = (low["ts"], low.get("applyOpsIndex", -1)), (high["ts"], 99 if last == MaxKey() else last)
        for (second, place), document in self.images.items():
            at = Timestamp(second, 1)
            if bounds[0] <= (at, place) <= bounds[1] and at in query.get("_id.ts", {"$in": [at]})["$in"]:
                key = {"nsUUID": COLLECTION, "ts": at, "applyOpsIndex": place}
                yield bson.encode({"_id": key, "preImage": document})


def group(second: int, *operations: Row) -> Row:
    return entry(
        second, "c", {"applyOps": [{"ns": "s.c", "ui": COLLECTION} | one for one in operations]}, ns="admin.$cmd"
    )


OPLOG = [
    entry(10, "d", {"_id": 1}),
    entry(11, "u", diff(u={"v": 2}), 2),
    entry(12, "d", {"_id": 2}),
    entry(13, "i", {"_id": 3}),
    entry(14, "d", {"_id": 3}),
    entry(15, "u", diff(u={"v": 4}), 4),
    group(16, {"op": "d", "o": {"_id": 5}}, {"op": "i", "o": {"_id": 7}}, {"op": "d", "o": {"_id": 6}}),
    entry(17, "i", {"_id": 1, "v": "again"}),
    entry(18, "d", {"_id": 8}),
]
IMAGES = {(10, 0): {"_id": 1}, (11, 0): {"_id": 2, "v": 1}, (12, 0): {"_id": 2, "v": 2}, (16, 0): {"_id": 5}}
ACCIDENT = Accident("deletes", "s.c", Ts(10, 1), Ts(16, 1))


class Streaming(Keeper, MongoGateway):
    """One whose user may only open a change stream, idle now and then, which fails where more is read than is
    needed."""

    tells_less = False

    async def changes(self, _: Namespace, start: Timestamp) -> AsyncIterator[tuple[list[RawBSONDocument], str]]:
        deletes = [("delete", 16, 5, {"_id": 5}), ("delete", 16, 6, None), ("delete", 18, 8, {"_id": 8})]
        deletes.pop(1 if self.tells_less else -1)
        updates = [("update", 11, 2, {"_id": 2, "v": 1}), ("delete", 12, 2, {"_id": 2, "v": 2})]
        for kind, second, id_, before in [("delete", 10, 1, {"_id": 1}), *updates, ("insert", 13, 3, None), *deletes]:
            assert Timestamp(second, 1) >= start
            event = {"operationType": kind, "clusterTime": Timestamp(second, 1), "documentKey": {"_id": id_}}
            token = f"82{second:08x}{1:08x}"
            yield [RawBSONDocument(bson.encode(event | {"fullDocumentBeforeChange": before}))], token
            yield [], token
        raise AssertionError("all that is needed has come")


class TellingLess(Streaming):
    """One whose stream has no event of a document that is needed."""

    tells_less = True


class Silent(Streaming):
    """One whose stream stays where it is, half a minute for each batch."""

    now = 0.0

    async def changes(self, *_: Any) -> AsyncIterator[tuple[list[RawBSONDocument], str]]:
        for _ in range(4):
            self.now += 30
            yield [], f"82{10:08x}{1:08x}"
        raise AssertionError("it is not waited for any longer")


async def test_a_change_stream_that_stays_where_it_is_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = Silent(OPLOG, IMAGES)
    server.denied = True
    selection = await select(server, ACCIDENT, "s.c", Ts(10, 1))
    monkeypatch.setattr(images.time, "monotonic", lambda: server.now)
    with pytest.raises(ReadError, match="has not gone beyond 10:1, and 16:1 is needed"):
        _ = [one async for one in read_images(server, selection)]


@pytest.mark.parametrize("made", [Keeper, Streaming, TellingLess])
async def test_the_image_of_the_first_operation_on_each_damaged_document_is_read(made: type[Keeper]) -> None:
    server: Any = made(OPLOG, IMAGES)
    server.denied = made is not Keeper
    selection = await select(server, ACCIDENT, "s.c", Ts(10, 1))
    assert (selection.by_accident, selection.by_others, selection.again) == (5, 6, 1)
    assert selection.operations == {"d": 6, "u": 2, "i": 3}
    found = {image.key[1:]: image.document and decode(image.document) async for image in read_images(server, selection)}
    key = {(second, place): (Ts(second, 1), place) for second, place in [(10, 0), (11, 0), (16, 0), (16, 2)]}
    held = {key[10, 0]: {"_id": 1}, key[11, 0]: {"_id": 2, "v": 1}, key[16, 0]: {"_id": 5}, key[16, 2]: None}
    assert found == held, "none of a document that was inserted since, nor of what is not undone"
    assert selection.streamed == (made is not Keeper)
    selection.close()


async def proven(server: Keeper, *accidents: Accident) -> ImagesProof:
    damaged = IncidentDamage(Inferred(*accidents), ["s.c"], {"s.c": collection(KEEPS)}, {}, {})
    return await prove_images(server, damaged, Ts(10, 1), None, None)  # type: ignore[arg-type]


def said(found: ImagesProof) -> dict[str, Check]:
    return {check.id: check for check in images_held.held(found)}


async def test_what_is_not_held_blocks_and_is_named() -> None:
    found = await proven(Keeper(OPLOG, IMAGES), ACCIDENT)
    (one,) = found.images
    assert (one.needed, one.missing_count, one.first, one.large, one.again) == (4, 1, Ts(10, 1), 0, 1)
    assert found.bytes == len(bson.encode({"_id": 1})) * 2 + len(bson.encode({"_id": 2, "v": 1}))
    assert one.loss is not None
    assert (one.loss.inserts, one.loss.updates, one.loss.deletes) == (3, 2, 6)
    gap = said(found)["images-gap"]
    assert (gap.level, '1 of 4 pre-images are not held: _id {"$numberInt": "6"}.' in gap.title) == (Level.BLOCK, True)
    assert "expire after 60 s" in gap.advice
    none = said(await proven(Keeper(OPLOG, {}), ACCIDENT))
    assert "none of the 4 pre-images is held" in none["images-gap"].title
    assert "images-expiring" not in none
    nothing = said(await proven(Keeper(OPLOG, {}), Accident("deletes", "s.c", Ts(30, 1), Ts(31, 1))))
    assert nothing["images-none"].level is Level.BLOCK
    server = Keeper(OPLOG, IMAGES)
    server.denied = True
    with pytest.raises(PrivilegeError):
        await proven(server, ACCIDENT)


@pytest.mark.parametrize(
    ("expire", "level", "words"),
    [
        ({"expireAfterSeconds": 25 * 3_600}, Level.OK, "In about 24."),
        ({"expireAfterSeconds": 23 * 3_600}, Level.WARN, "In about 22."),
        ({"expireAfterSeconds": 60}, Level.WARN, "In about 0.0 h"),
        ({"expireAfterSeconds": "off"}, None, ""),
        (None, Level.WARN, "at any time"),
    ],
)
async def test_it_is_said_when_the_first_of_them_expires(expire: Any, level: Level | None, words: str) -> None:
    server = Keeper([*OPLOG, entry(300, "n", {})], IMAGES | {(16, 2): {"_id": 6}})
    server.expire = expire
    found = said(await proven(server, ACCIDENT))
    assert "all 4 pre-images are held" in found["images-held"].title
    expiring = found.get("images-expiring")
    assert (expiring and expiring.level, words in (expiring.title if expiring else "")) == (level, True)


@pytest.mark.parametrize(
    ("hours", "words"), [(24, ""), (23, "In about 23.0 h the server overwrites the point"), (0, "is unknown")]
)
async def test_it_is_said_when_the_oplog_no_longer_holds_the_point(hours: int, words: str) -> None:
    server = Keeper([*OPLOG, entry(60, "n", {})], IMAGES)
    server.expire, server.room = {"expireAfterSeconds": "off"}, hours * 3_600
    found = await proven(server, ACCIDENT)
    check = said(found).get("head-room")
    assert found.hours_left == (hours or None)
    assert (check and check.level, words in (check.title if check else "")) == (Level.WARN if words else None, True)


@pytest.mark.parametrize(
    ("proven_ids", "refused", "form"),
    [((), "", ""), ((6,), "", WITH_BACKUP), ((1, 2, 5, 6), "", WITHOUT_SPARE), ((6,), "another collection", "")],
    ids=["none", "the missing one", "all", "refused"],
)
async def test_documents_without_an_image_come_from_a_backup(
    monkeypatch: pytest.MonkeyPatch, proven_ids: tuple[int, ...], refused: str, form: str
) -> None:
    made = Backup(Path("/b"), DIRECTORY, True, Ts(1, 1), Ts(2, 1), "oplog", bytes=9)

    async def usable(_: Any, path: Path, limit: Ts, start: Ts | None) -> UsableBackup:
        assert (path, limit, start) == (Path("/b"), Ts(10, 1), Ts(1, 1))
        return UsableBackup(Contents(made), Ts(1, 1))

    async def carry(*given: Any) -> AsyncIterator[tuple[bytes, bytes | None]]:
        for key in [*given[3]]:
            yield key, bson.encode({"_id": key[1]}) if key[1] in proven_ids else None
            if refused:
                raise InputError(refused)

    monkeypatch.setattr(image_proof, "usable_backup", usable)
    monkeypatch.setattr(image_proof, "carry_forward", carry)
    monkeypatch.setattr(image_proof, "LARGE", len(bson.encode({"_id": 6})) - 1)
    images = {} if len(proven_ids) == 4 else IMAGES
    damaged = IncidentDamage(Inferred(ACCIDENT), ["s.gone", "s.c"], {"s.c": collection(KEEPS)}, {}, {})
    found = await prove_images(Keeper(OPLOG, images), damaged, Ts(10, 1), Path("/b"), Ts(1, 1))  # type: ignore[arg-type]
    (one,) = found.images
    held = 0 if refused else len(proven_ids)
    assert (one.needed, one.from_backup, one.missing_count) == (4, held, 1 if refused or not held else 0)
    size = len(bson.encode({"_id": 6}))
    assert one.bytes == sum(len(bson.encode(row)) for row in {**images}.values() if row != {"_id": 2, "v": 2}) + (
        size * held
    )
    assert one.refused == (refused or ("" if held else "The backup does not prove how 1 of them were at the point."))
    assert found.backup == (replace(made, form=form, gzip=False, bytes=0) if form else None)


async def test_the_first_and_the_last_image_are_read() -> None:
    images = {(second, 0): {"_id": second} for second in (10, 11, 12)}
    (one,) = (await proven(Keeper([entry(n, "d", {"_id": n}) for n in (10, 11, 12)], images), ACCIDENT)).images
    assert (one.needed, one.missing_count, one.first) == (3, 0, Ts(10, 1))


async def test_so_many_documents_without_an_image_are_named() -> None:
    oplog = [entry(10 + n, "d", {"_id": n}) for n in range(7)]
    found = await proven(Keeper(oplog, {}), ACCIDENT)
    (one,) = found.images
    assert ([key[1] for key in one.missing], one.missing_count) == ([0, 1, 2, 3, 4], 7)


@pytest.mark.parametrize(
    ("live", "names", "renamed"),
    [
        ([collection()], ["s.c"], {}),
        (
            [CollectionInfo(Namespace("s", "c"), "collection", {}, bytes(16)), collection(name="old")],
            ["s.c"],
            {"s.c": "s.old"},
        ),
        ([CollectionInfo(Namespace("s", "c"), "collection", {}, b"")], ["s.c"], {}),
    ],
    ids=["live", "renamed", "no UUIDs"],
)
async def test_the_collections_of_an_incident_are_found_by_their_uuid(
    live: list[CollectionInfo], names: list[str], renamed: dict[str, str]
) -> None:
    server: Any = Keeper(OPLOG, {}, *live)
    of_one = replace(incident(1, 10, ns="s.c", documents=1), first=Ts(10, 1), last=Ts(10, 1))
    found = await find_damaged(server, of_one, Ts(10, 1), None)
    assert (found.names, found.renamed, list(found.live)) == (names, renamed, [str(one.ns) for one in live])
    assert (found.found.accident.kind, found.expiring) == ("deletes", {})
    whole = incident(1, 16, ns="", kind="transaction", point=Ts(16, 1))
    found = await find_damaged(server, whole, Ts(16, 1), None)
    assert (found.names, found.renamed, found.expiring) == (names, renamed, {"s.c": frozenset()})


def test_how_far_a_change_stream_has_read_is_in_its_token() -> None:
    assert _position("820000001f000000022b0229296e04") == Ts(31, 2)
    assert _position("8100000000000000ff") == Ts(0, 0)


def test_how_images_are_switched_on() -> None:
    assert how_to_enable("s", "c") == (
        'db.getSiblingDB("s").runCommand({"collMod": "c", "changeStreamPreAndPostImages": {"enabled": true}, '
        '"writeConcern": {"w": "majority"}})'
    )


async def test_only_collections_of_the_incidents_database_can_hold_its_documents() -> None:
    server: Any = Keeper(OPLOG, {}, collection(), collection(kind="view", name="v"))
    live = await live_collections(server, incident(1, 9, ns="s.c"))
    assert (live.keys(), await live_collections(server, incident(1, 9, ns="t.c"))) == ({"s.c"}, {})
    assert (await live_collections(server, incident(1, 9, ns="", kind="transaction"))).keys() == {"s.c"}


# --- one entry -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "lines", "notes"),
    [
        (OPLOG[1], ["before -> after, _id 2", "  v: 1 -> 2"], ["for 60 s, the oldest held is from 2026-01-02"]),
        (OPLOG[0], ["before, _id 1", "{", '  "_id": 1', "}"], ["keeps pre-images"]),
        (OPLOG[6], ["before, _id 5", "{", '  "_id": 5', "}"], ["keeps", "2 operations on s.c", "unknown for 1 "]),
        (
            group(16, {"op": "d", "o": {"_id": 5}}),
            ["before, _id 5", "{", '  "_id": 5', "}"],
            ["keeps", "1 operation on s.c"],
        ),
        (OPLOG[3], [], []),
        (OPLOG[5], [], ["this one is not held"]),
    ],
    ids=["update", "delete", "transaction", "transaction of one", "insert", "not held"],
)
async def test_a_document_before_and_after_its_entry(row: Row, lines: list[str], notes: list[str]) -> None:
    server: Any = Keeper(OPLOG, IMAGES, collection())
    found = await before_and_after(server, bson.encode(row))
    assert [line.partition(", from its")[0] for line in found.found] == lines
    assert len(found.notes) == len(notes)
    assert all(note in line for note, line in zip(notes, found.notes, strict=True)), found.notes


@pytest.mark.parametrize(
    ("live", "version", "why"),
    [
        ([collection()], "5.0.9", "MongoDB 5.0.9 keeps no pre-images"),
        ([], "7.0.1", "is not there any more"),
        ([collection({})], "7.0.1", "collMod"),
        ([collection(None)], "7.0.1", "may not be read"),
        ([collection({}, "timeseries")], "7.0.1", "time-series"),
    ],
)
async def test_it_is_said_why_an_image_is_not_held(live: list[CollectionInfo], version: str, why: str) -> None:
    server: Any = Keeper(OPLOG, {}, *live)
    server.version = version
    found = await before_and_after(server, bson.encode(OPLOG[0]))
    assert (found.found, why in " ".join(found.notes)) == ((), True)
    server.denied = True
    denied = await before_and_after(server, bson.encode(OPLOG[0]))
    (note,) = denied.notes
    assert (why in note) if version == "5.0.9" else ("createRole" in note), "no role shows what is not kept"


async def test_a_survey_says_who_keeps_images_and_what_it_would_cost_the_others() -> None:
    live = [collection(), collection({}, name="d"), collection(None, name="e"), collection({}, "view", "v")]
    rows = [entry(0, "i", {"_id": 0}), *OPLOG[:2], OPLOG[3], entry(72, "n", {})]
    found = await survey(Keeper(rows, {}, *live, collection({}, name="system.views")))  # type: ignore[arg-type]
    assert (found.keeping, found.without, found.unknown, found.kept.seconds) == (("s.c",), ("s.d",), 1, 60)
    assert found.oldest == {"s.c": datetime(2026, 1, 2, tzinfo=UTC)}
    assert (found.sampled_seconds, found.costs) == (72, (ImageCost("s.d", 100.0, 1_000.0),))
    short = await survey(Keeper([*rows[:3], entry(59, "n", {})], {}, *live[1:]))  # type: ignore[arg-type]
    assert (short.sampled_seconds, short.costs, short.kept.known) == (None, (), False)
    short = await survey(Keeper([*rows[:3], entry(60, "n", {})], {}, *live[1:]))  # type: ignore[arg-type]
    assert (short.sampled_seconds, len(short.costs)) == (60, 1)
