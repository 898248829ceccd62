"""Errors of the allocators. A driver error that led to one is its ``__cause__``."""

from __future__ import annotations

from typing import TypeVar

from tallyglass.errors import TallyglassError


class AllocationError(TallyglassError):
    """Base of all errors of :mod:`tallyglass.allocate`."""


E = TypeVar("E", bound=AllocationError)


def again(error: E) -> E:
    """An error that is raised at every call, without the frames of the earlier ones: it would keep them all alive."""
    return error.with_traceback(None)


class CounterMissing(AllocationError):
    """The counter document does not exist. It is never created implicitly: that would restart at the first id."""


class CounterTypeError(AllocationError):
    """The counter is not an int32 or int64. ``type_name`` is its BSON type, such as ``double``."""

    def __init__(self, title: str, advice: str = "", *, type_name: str = "") -> None:
        super().__init__(title, advice)
        self.type_name = type_name


class Exhausted(AllocationError):
    """No range of the requested size is left. ``remaining`` ids are left up to ``maximum``, inclusive."""

    def __init__(self, title: str, advice: str = "", *, remaining: int = 0, maximum: int | None = None) -> None:
        super().__init__(title, advice)
        self.remaining = remaining
        self.maximum = maximum


class PoolEmpty(Exhausted):
    """No document of the pool has room for the requested range."""


class PoolOverlap(AllocationError):
    """Two documents of a pool cover the same ids, so both would issue them."""


class CounterRewound(AllocationError):
    """The counter went back: its data was rolled back or restored, and ids may be issued twice.

    ``seen`` is the value before, ``found`` the current one. The allocator stays stopped.
    """

    def __init__(self, title: str, advice: str = "", *, seen: int = 0, found: int = 0) -> None:
        super().__init__(title, advice)
        self.seen = seen
        self.found = found


class AllocationUnknown(AllocationError):
    """The outcome of a write is unknown. ``burned`` ids are never used."""

    def __init__(self, title: str, advice: str = "", *, burned: int = 0) -> None:
        super().__init__(title, advice)
        self.burned = burned


class AllocationTimeout(AllocationError):
    """No id within the deadline. According to the server's replies nothing was applied."""


class AllocationRefused(AllocationError):
    """The server refused the command permanently: no privilege, a view, a validator, another unique index.

    ``code`` is the server's.
    """

    def __init__(self, title: str, advice: str = "", *, code: int | None = None) -> None:
        super().__init__(title, advice)
        self.code = code


class UnsafeWriteConcern(AllocationError):
    """A write concern weaker than a journaled majority was not passed as ``unsafe_write_concern``; or the database is
    ``local``, which each member has for itself."""


class TransactionRefused(AllocationError):
    """The session is in a transaction: an abort would roll back the increment after its ids were issued."""


class WrongEventLoop(AllocationError):
    """An asynchronous allocator was used on an event loop other than its first one."""


class AllocatorClosed(AllocationError):
    """The allocator was closed."""


class CollisionLimit(AllocationError):
    """Every proposed id is taken. ``tries`` is the number of attempts."""

    def __init__(self, title: str, advice: str = "", *, tries: int = 0) -> None:
        super().__init__(title, advice)
        self.tries = tries


class NotUnique(AllocationError):
    """The database does not, or cannot, keep the field unique."""


class WrongClient(AllocationError):
    """A collection of an asynchronous client was passed to a synchronous allocator, or vice versa."""
