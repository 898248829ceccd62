"""An asynchronous allocator belongs to the event loop on which it is first used."""

from __future__ import annotations

import asyncio

from tallyglass.allocate.errors import WrongEventLoop


class HomeLoop:
    """Remembers the first event loop, and refuses any other."""

    __slots__ = ("loop",)

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise WrongEventLoop if the running loop is not the first one."""
        running = asyncio.get_running_loop()
        if self.loop is None:
            self.loop = running
        elif self.loop is not running:
            raise WrongEventLoop(
                "This allocator belongs to another event loop.",
                "Create one for each loop, with a client of that loop; they may share the counter.",
            )
