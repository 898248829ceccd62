"""The account of a return with little to count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import bson
import pytest
from bson import Int64, Regex, json_util
from bson.datetime_ms import DatetimeMS

from builders.plan_folder import plan, step
from builders.plans import changed
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.null_id import own_write
from tallyglass.restore.undo.outcome import account


class Server:
    """A server with these collections, all of them empty."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [CollectionInfo(Namespace(db, name), "collection", {}) for name in self.names]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        return []

    async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        return
        yield b""


@pytest.mark.parametrize(
    ("document", "exact"),
    [
        ({"n": 5.0, "zero": -0.0, "l": Int64(5), "d": {"$x": [1, {"a.b": None}]}, "r": Regex("x", "i")}, True),
        ({"at": DatetimeMS(2**62)}, False),
        ({"b": 1, "1": 2}, False),
        ({"d": [{"__proto__": 1}]}, False),
        ({"d": {"$oid": "0" * 24}}, False),
    ],
)
def test_a_document_whose_id_is_null_is_written_exactly_or_not_at_all(document: dict[str, Any], exact: bool) -> None:
    raw = bson.encode({"_id": None} | document)
    line = own_write("s.c", None, raw)
    assert (line is not None) is exact
    if line is not None:
        assert bson.encode(json_util.loads(line)["wanted"]) == raw
    broken = bson.encode({"_id": None, "s": "x\x01y"}).replace(b"\x01y", b"\xffy")
    assert own_write("s.c", broken, raw) is None


@pytest.mark.parametrize(("live", "back"), [(("c",), True), ((), False)])
async def test_an_empty_collection_comes_back_or_does_not(live: tuple[str, ...], back: bool) -> None:
    made = changed(
        plan(step("true")), returns=(Return("s.c", Strategy.WHOLE, "s.c_pitr"),),
        expected=(ExpectedNamespace("s.c", "collection", 0, options="{}"),),
    )  # fmt: skip
    source, spare = (cast("Gateway", Server(*names)) for names in (live, ("c",)))
    (found,) = [row async for row in account(source, spare, made, {})]
    assert (found.empty, [one.why for one in found.damaged]) == (back, [] if back else ["The collection is not there."])
