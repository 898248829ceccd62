"""Documents out of undecoded batches, without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tallyglass.oplog.decode import walk

_YIELD_EVERY = 200
"""Documents that are taken in one go: some milliseconds."""


async def unpacked(batches: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each document of each batch.

    A batch holds some 100,000 of them. It yields to the event loop in between: otherwise the driver's heartbeats would
    be late, and the server would be taken for lost.
    """
    async for batch in batches:
        for number, (at, end) in enumerate(walk.split(batch)):
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            yield batch[at:end]
