"""The Tallyglass library: read MongoDB's counters, ObjectIds and oplog, plan restores, and allocate ids.

`tallyglass.allocate` hands out ids. Everything else only reads, through the gateway that `open_gateway` returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyglass._lazy import lazy

if TYPE_CHECKING:
    from tallyglass.errors import TallyglassError
    from tallyglass.mongo.client import open_gateway

__all__ = ["TallyglassError", "__version__", "open_gateway"]

__version__ = "0.1.0"

__getattr__ = lazy(
    __name__,
    {
        "errors": "TallyglassError",
        "mongo.client": "open_gateway",
    },
)
