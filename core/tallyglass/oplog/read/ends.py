"""Where an oplog begins and ends, as a member reports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson import Timestamp

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Gateway


def op_time(value: Any) -> Ts | None:
    """The ``ts`` of an optime document such as ``{ts, t}``; None where it is not one."""
    stamp = value.get("ts") if isinstance(value, Mapping) else None
    return Ts(stamp.time, stamp.inc) if isinstance(stamp, Timestamp) else None


async def end_of_oplog(gateway: Gateway, order: int, *, member: str = "") -> Ts | None:
    """The ``ts`` of the oldest entry with order 1, of the newest with -1; None where there is none."""
    return op_time(await gateway.find_one(OPLOG, {}, projection={"ts": 1}, sort=[("$natural", order)], member=member))
