"""The account of a return with little to count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
from test_restore_script import plan, step

from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.impact.outcome import account
from tallyglass.restore.model.plan import ExpectedNamespace, Return, Strategy


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


@pytest.mark.parametrize(("live", "back"), [(("c",), True), ((), False)])
async def test_an_empty_collection_comes_back_or_does_not(live: tuple[str, ...], back: bool) -> None:
    made = replace(
        plan(step("true")), returns=(Return("s.c", Strategy.WHOLE, "s.c_pitr"),),
        expected=(ExpectedNamespace("s.c", "collection", 0, options="{}"),),
    )  # fmt: skip
    source, spare = (cast("Gateway", Server(*names)) for names in (live, ("c",)))
    (found,) = [row async for row in account(source, spare, made, {})]
    assert (found.empty, [one.why for one in found.damaged]) == (back, [] if back else ["The collection is not there."])
