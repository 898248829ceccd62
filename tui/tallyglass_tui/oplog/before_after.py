"""The lines below an opened entry: the document before and after it, once it has been read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyglass.errors import TallyglassError
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.snapshot import OplogRow, RowKind
from tallyglass.text import clean
from tallyglass_tui.oplog.views import OplogViews

if TYPE_CHECKING:
    from tallyglass.restore.pre_images.before_after import BeforeAfterText

_GROUP = "oplog-before-after"


class BeforeAfter:
    """Reads the pre-image of the opened entry, once."""

    def __init__(self, page: OplogViews) -> None:
        self._page = page

    def read(self, row: OplogRow) -> None:
        """Read it in the background, if the entry may have one; show it if the entry is still open."""
        if row.kind is RowKind.ENTRY and row.op in ("u", "d", "c") and row.raw:
            self._page.run_alone(self._read(row), _GROUP)

    async def _read(self, row: OplogRow) -> None:
        try:
            text = await self._page.shell.feeds.ask(lambda gateway: read_images(gateway, row))
            found, notes = text.found, text.notes
        except TallyglassError as error:
            found, notes = (), (f"before: unknown. {clean(error.title, 300)}",)
        self._page.opened.add(row, found, notes)


async def read_images(gateway: Gateway, row: OplogRow) -> BeforeAfterText:
    """The images of one entry, read from its shard. Runs in the background thread."""
    from tallyglass.deployment.shards import shards_of
    from tallyglass.restore.pre_images.before_after import before_and_after

    shards = await shards_of(gateway) if row.shard else None
    return await before_and_after(shards.gateways.get(row.shard, gateway) if shards else gateway, row.raw)
