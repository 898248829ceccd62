"""Transactions that fill several entries: shown as one at the last, unfolded on demand."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from bson import Timestamp

from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import OPLOG, Gateway
from tallyglass.oplog.decode.describe import is_transaction
from tallyglass.oplog.decode.head import Head, command_of, inner_count, read_head, session_text
from tallyglass.oplog.decode.walk import Malformed

OPEN_LIMIT = 1_000
"""Unfinished transactions that are remembered; the oldest is forgotten when there are more."""

PARTS_LIMIT = 10_000

Key = tuple[bytes, int]


@dataclass(slots=True)
class Parts:
    """The entries of an unfinished transaction seen so far: how many, their operations, and the first ``ts``."""

    first: Ts
    entries: int = 0
    operations: int = 0
    wanted: bool = False
    whole: bool = False


class Assembler:
    """Holds back the first entries of a transaction until its last. Bounded."""

    def __init__(self) -> None:
        self._open: OrderedDict[Key, Parts] = OrderedDict()

    def take(self, head: Head, wanted: bool) -> Parts | None:
        """Note one part. None for all but the last entry; for that one, all parts together.

        For an entry that is no part of a transaction of several entries: None too, see :func:`is_part`.
        """
        assert head.txn is not None
        key = (head.session, head.txn)
        parts = self._open.pop(key, None) or Parts(head.ts, whole=head.previous == ZERO)
        parts.entries += 1
        parts.operations += inner_count(head)
        parts.wanted = parts.wanted or wanted
        if not head.flag(b"partialTxn"):
            return parts
        self._open[key] = parts
        if len(self._open) > OPEN_LIMIT:
            self._open.popitem(last=False)
        return None

    def forget(self) -> None:
        """Drop all unfinished ones: after a gap or a rollback the rest may never arrive."""
        self._open.clear()


def is_part(head: Head) -> bool:
    """Whether an entry is an applyOps that belongs to a transaction."""
    if head.op != "c" or not is_transaction(head):
        return False
    first = command_of(head)
    return first is not None and first.name == b"applyOps"


def name_of(raw: bytes) -> str:
    """``session:number`` of the transaction or retryable write that an entry belongs to, for
    :attr:`OplogFilter.transaction`; empty for an entry without one."""
    try:
        head = read_head(raw)
        session = session_text(head)
    except Malformed:
        return ""
    return f"{session}:{head.txn}" if session and head.txn is not None else ""


def is_part_of_transaction(raw: bytes) -> bool:
    """The same for raw bytes; false for what is not readable."""
    try:
        return is_part(read_head(raw))
    except Malformed:
        return False


async def unfold(gateway: Gateway, raw: bytes) -> tuple[tuple[bytes, ...], bool]:
    """All entries of the transaction that ``raw`` ends or belongs to, first to last, up to it.

    The second value tells whether the chain is whole: false where the oplog no longer holds its beginning.
    Errors: those of :class:`~tallyglass.mongo.gateway.Gateway`.
    """
    parts = [raw]
    while len(parts) < PARTS_LIMIT:
        try:
            previous = read_head(parts[-1]).previous
        except Malformed:
            return tuple(reversed(parts)), False
        if previous is None or previous == ZERO:
            return tuple(reversed(parts)), True
        found = b"".join([b async for b in gateway.find_raw(OPLOG, {"ts": Timestamp(*previous)}, limit=1)])
        if not found:
            break
        parts.append(found)
    return tuple(reversed(parts)), False
