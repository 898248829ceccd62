"""The line about pre-images in the detail of a counter, read once for each collection."""

from __future__ import annotations

from tallyglass.errors import TallyglassError
from tallyglass.mongo.gateway import Gateway
from tallyglass.text import clean
from tallyglass_tui.shell.feed import Feeds


class ImagesNote:
    """What is known of the collections whose counters were opened."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, ns: str) -> str:
        """The line; empty until it was read."""
        return self._known.get(ns, "")

    async def read(self, feeds: Feeds, ns: str) -> None:
        """Read it, unless it is known."""
        if ns in self._known:
            return
        try:
            self._known[ns] = await feeds.ask(lambda gateway: _read(gateway, ns))
        except TallyglassError as error:
            self._known[ns] = f"unknown. {clean(error.title, 300)}"


async def _read(gateway: Gateway, ns: str) -> str:
    """Runs in the background thread, since the driver comes with it."""
    from tallyglass.restore.pre_images.kept import kept_line

    return await kept_line(gateway, ns, advice=False)
