"""From where an incident could come back, as the list of incidents shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from bson import MaxKey

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.oplog.read.entries import stamp
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.backup.backup import DATA_FILES
from tallyglass.restore.catalogue.backups import Listed
from tallyglass.restore.model.source import Backup
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, Way
from tallyglass.restore.plan import at_hand
from tallyglass.restore.plan.at_hand import SourcesAtHand, name_of, sources_at_hand
from tallyglass.restore.plan.ways import Decision, decide
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.undo.sources.images import PRE_IMAGES
from tallyglass.text import clean_name

ODD = "odd\\name"
DELETED = Incident(
    1, "deleteMany", "deleteMany on shop.orders", "shop.orders", Harm.LOSS, Ts(50, 1), Ts(51, 1), None, None, 9, 9
)


IMAGED = frozenset({name_of(DELETED)})


@pytest.mark.parametrize(
    ("sources", "changes", "word"),
    [
        (SourcesAtHand(), {}, "?"),
        (SourcesAtHand(without=IMAGED), {}, "?"),
        (SourcesAtHand(ends=()), {}, "?"),
        (SourcesAtHand(ends=(), without=IMAGED), {}, "no"),
        (SourcesAtHand(ends=(), without=IMAGED, unjudged=True), {}, "?"),
        (SourcesAtHand(ends=(Ts(40, 1),), unjudged=True), {}, "backup"),
        (SourcesAtHand(ends=(Ts(50, 1),), without=IMAGED), {}, "no"),
        (SourcesAtHand(ends=(Ts(60, 1), Ts(40, 1))), {}, "backup"),
        (SourcesAtHand(ends=(Ts(40, 1),), imaged=IMAGED), {}, "images"),
        (SourcesAtHand(ends=(Ts(40, 1),)), {"kind": "ttl"}, "no"),
        (SourcesAtHand(ends=()), {"kind": "drop"}, "no"),
        (SourcesAtHand(ends=()), {"kind": "transaction"}, "?"),
    ],
)
def test_the_source_of_an_incident(sources: SourcesAtHand, changes: dict[str, Any], word: str) -> None:
    assert str(sources.of(replace(DELETED, **changes))) == word


class Databases:
    """A gateway that lists the collections of one database, and may not of another. Of shop.orders the images of two
    entries are held."""

    images = (Ts(50, 7), Ts(70, 1))

    async def list_databases(self) -> list[str]:
        """Their names."""
        return ["shop", "hidden", ODD, "other"]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        """The collections, of which one may be listed by its name alone."""
        if db == "hidden":
            raise PrivilegeError("not authorized")
        if db == ODD:
            raise ReadError("listCollections cannot be sent.")
        assert db == "shop", "no incident is in another"
        orders, carts, bare = (Namespace("shop", name) for name in ("orders", "carts", "bare"))
        return [CollectionInfo(orders, uuid=b"1" * 16), CollectionInfo(carts, uuid=b"2" * 16), CollectionInfo(bare)]

    async def find_one(self, ns: Namespace, query: Any, **options: Any) -> Any:
        """The first image in the bounds."""
        assert ns == PRE_IMAGES
        low, high = query["_id"]["$gte"], query["_id"]["$lte"]
        if bytes(low["nsUUID"]) != b"1" * 16:
            return None
        stamps = [stamp(one) for one in self.images]
        begin, end = low.get("ts", stamps[0]), high["ts"]
        within = [one for one in stamps if begin <= one and (isinstance(end, MaxKey) or one <= end)]
        return {"_id": low | {"ts": within[0]}} if within else None


def at(ns: str, first: int, last: int) -> Incident:
    return replace(DELETED, ns=ns, first=Ts(first, 1), last=Ts(last, 9))


async def test_what_is_held_is_known_of_each_incident_and_what_may_not_be_read_is_not(tmp_path: Path) -> None:
    gateway: Any = Databases()
    expired, held, between = at("shop.orders", 40, 41), at("shop.orders", 50, 51), at("shop.orders", 60, 61)
    until_image = replace(at("shop.orders", 45, 50), last=Ts(50, 7))
    none = at("shop.carts", 50, 51)
    unread = [at(ns, 50, 51) for ns in ("hidden.things", "shop.bare", f"{clean_name(ODD)}.a", "shop.gone", "")]
    found = await sources_at_hand(gateway, None, [expired, held, until_image, between, none, *unread])
    assert found.imaged == {name_of(held), name_of(until_image)}
    assert found.without == {name_of(one) for one in (expired, between, none)}
    assert (await sources_at_hand(gateway, tmp_path / "none", [held])).ends is None, "no backup is there"


@pytest.mark.parametrize("denied", ["list_databases", "find_one"])
async def test_where_images_may_not_be_read_nothing_is_known(monkeypatch: pytest.MonkeyPatch, denied: str) -> None:
    gateway: Any = Databases()
    monkeypatch.setattr(gateway, denied, AsyncMock(side_effect=PrivilegeError("not authorized")))
    found = await sources_at_hand(gateway, None, [DELETED, at("shop.carts", 50, 51)])
    assert found == SourcesAtHand()


STORED = Backup(Path("/b"), "directory", False, Ts(40, 1), Ts(41, 1), "oplog")
OPEN_END = replace(STORED, end=None)


@pytest.mark.parametrize(
    ("listed", "ends", "unjudged"),
    [
        ([(STORED, ""), (OPEN_END, "")], (Ts(41, 1), Ts(40, 1)), False),
        # Slices of the oplog that are kept elsewhere may continue it.
        ([(STORED, ""), (STORED, "The oplog does not reach back to it.")], (Ts(41, 1),), True),
        ([(STORED, ""), (None, "cannot be read")], (Ts(41, 1),), True),
        ([(replace(STORED, form=DATA_FILES, start=None), "only a plan reads them")], (), True),
        ([], (), False),
    ],
)
async def test_a_backup_that_only_a_plan_can_judge_is_no_no(
    monkeypatch: pytest.MonkeyPatch, listed: list[tuple[Backup | None, str]], ends: tuple[Ts, ...], unjudged: bool
) -> None:
    async def backups(*_: object) -> AsyncIterator[Listed]:
        for backup, why in listed:
            yield Listed(Path("/b"), backup, why, compared=True)

    monkeypatch.setattr(at_hand, "list_backups", backups)
    found = await sources_at_hand(Databases(), Path("/b"), [])  # type: ignore[arg-type]
    assert found == SourcesAtHand(ends, unjudged=unjudged)


@pytest.mark.parametrize(
    ("backup", "possible", "way", "needs_backup"),
    [
        (None, True, FROM_IMAGES, False),
        (None, None, FROM_IMAGES, True),
        (None, False, FROM_IMAGES, True),
        (Path("/b"), True, FROM_IMAGES, False),
        (Path("/b"), None, FROM_BACKUP, False),
        (Path("/b"), False, FROM_BACKUP, False),
    ],
)
def test_the_best_possible_way_is_taken(
    backup: Path | None, possible: bool | None, way: str, needs_backup: bool
) -> None:
    ways = (Way(FROM_IMAGES, possible, ""), Way(FROM_BACKUP, None, ""))
    wanted = RestoreRequest(backup, "mongodb://h/", incident=DELETED)
    assert decide(wanted, ways) == Decision(way, ways, needs_backup)
    assert decide(replace(wanted, way=FROM_BACKUP), ()) == Decision(FROM_BACKUP)
    assert decide(replace(wanted, spare="s:1"), ways) == Decision(FROM_BACKUP, ways), "only a backup needs a spare"
