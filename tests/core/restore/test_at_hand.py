"""From where an incident could come back, as the list of incidents shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.plan.at_hand import SourcesAtHand, sources_at_hand
from tallyglass.text import clean_name

ODD = "odd\\name"
DELETED = Incident(
    1, "deleteMany", "deleteMany on shop.orders", "shop.orders", Harm.LOSS, Ts(50, 1), Ts(51, 1), None, None, 9, 9
)


@pytest.mark.parametrize(
    ("sources", "changes", "word"),
    [
        (SourcesAtHand(), {}, "?"),
        (SourcesAtHand(ends=()), {}, "no"),
        (SourcesAtHand(ends=(Ts(50, 1),)), {}, "no"),
        (SourcesAtHand(ends=(Ts(60, 1), Ts(40, 1))), {}, "backup"),
        (SourcesAtHand(ends=(Ts(40, 1),), keeping=frozenset({"shop.orders"})), {}, "images"),
        (SourcesAtHand(ends=(Ts(40, 1),), keeping=frozenset({"shop.orders"})), {"kind": "drop"}, "backup"),
        (SourcesAtHand(keeping=frozenset({"shop.other"})), {}, "?"),
        (SourcesAtHand(ends=(Ts(40, 1),)), {"kind": "ttl"}, "no"),
        (SourcesAtHand(ends=(), unread=frozenset({"shop"})), {}, "?"),
        (SourcesAtHand(ends=(), unread=frozenset({"shop"})), {"kind": "drop"}, "no"),
        (SourcesAtHand(ends=(Ts(40, 1),), unread=frozenset({"shop"})), {}, "backup"),
    ],
)
def test_the_source_of_an_incident(sources: SourcesAtHand, changes: dict[str, Any], word: str) -> None:
    assert str(sources.of(replace(DELETED, **changes))) == word


class Databases:
    """A gateway that lists the collections of one database, and may not of another."""

    async def list_databases(self) -> list[str]:
        """Their names."""
        return ["shop", "hidden", ODD, "other"]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        """The collections, one of which keeps images."""
        if db == "hidden":
            raise PrivilegeError("not authorized")
        if db == ODD:
            raise ReadError("listCollections cannot be sent.")
        assert db == "shop", "no incident is in another"
        keeps = {"changeStreamPreAndPostImages": {"enabled": True}}
        return [
            CollectionInfo(Namespace("shop", "orders"), options=keeps),
            CollectionInfo(Namespace("shop", "carts"), options={}),
        ]


async def test_what_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    gateway: Any = Databases()
    names = ["shop.orders", "hidden.things", "shop", "", f"{clean_name(ODD)}.a"]
    unread = frozenset({"hidden", clean_name(ODD)})
    assert await sources_at_hand(gateway, None, names) == SourcesAtHand(None, frozenset({"shop.orders"}), unread)
    assert (await sources_at_hand(gateway, tmp_path / "none", names)).ends is None, "no backup is there"


async def test_databases_and_options_that_may_not_be_listed_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway: Any = Databases()
    names_alone = AsyncMock(return_value=[CollectionInfo(Namespace("shop", "orders"), options=None)])
    monkeypatch.setattr(gateway, "list_collections", names_alone)
    assert (await sources_at_hand(gateway, None, ["shop.orders"])).unread == {"shop"}
    monkeypatch.setattr(gateway, "list_databases", AsyncMock(side_effect=PrivilegeError("not authorized")))
    assert (await sources_at_hand(gateway, None, ["shop.orders", "crm.x"])).unread == {"shop", "crm"}
