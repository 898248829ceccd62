"""What can go wrong while ids are handed out. The driver's error, where there is one, is the ``__cause__``."""

from __future__ import annotations

from tallyglass.errors import TallyglassError


class AllocationError(TallyglassError):
    """Base of all errors of :mod:`tallyglass.allocate`."""


class CounterMissing(AllocationError):
    """The counter document does not exist. It is never made silently: that would start again at the first id."""


class CounterTypeError(AllocationError):
    """The counter is not an int32 or int64. ``type_name`` is what it is, such as ``double``."""

    def __init__(self, title: str, advice: str = "", *, type_name: str = "") -> None:
        super().__init__(title, advice)
        self.type_name = type_name


class Exhausted(AllocationError):
    """No range of the wanted size is left. ``remaining`` ids are, up to and with ``maximum``."""

    def __init__(self, title: str, advice: str = "", *, remaining: int = 0, maximum: int | None = None) -> None:
        super().__init__(title, advice)
        self.remaining = remaining
        self.maximum = maximum


class PoolEmpty(Exhausted):
    """No document of the pool has room for the wanted range."""


class PoolOverlap(AllocationError):
    """Two documents of a pool own the same ids, so that both would hand them out."""


class CounterRewound(AllocationError):
    """The counter is lower than it was: data was rolled back or restored, and ids may be handed out again.

    ``seen`` is the value known before, ``found`` the one of now. The allocator stays stopped.
    """

    def __init__(self, title: str, advice: str = "", *, seen: int = 0, found: int = 0) -> None:
        super().__init__(title, advice)
        self.seen = seen
        self.found = found


class AllocationUnknown(AllocationError):
    """It cannot be known whether the server did what was asked. ``burned`` ids are never used."""

    def __init__(self, title: str, advice: str = "", *, burned: int = 0) -> None:
        super().__init__(title, advice)
        self.burned = burned


class AllocationTimeout(AllocationError):
    """No id within the deadline; nothing was applied, as far as the server's answers tell."""


class AllocationRefused(AllocationError):
    """The server refused the command for good: no privilege, a view, a validator. ``code`` is the server's."""

    def __init__(self, title: str, advice: str = "", *, code: int | None = None) -> None:
        super().__init__(title, advice)
        self.code = code


class UnsafeWriteConcern(AllocationError):
    """A write concern weaker than a journaled majority was given without asking for an unsafe one by name."""


class TransactionRefused(AllocationError):
    """The session is in a transaction: an abort would take the increment back after its ids were given out."""


class WrongEventLoop(AllocationError):
    """An asynchronous allocator was used on another event loop than the one it began on."""


class AllocatorClosed(AllocationError):
    """The allocator was closed."""


class CollisionLimit(AllocationError):
    """Every id that was tried is taken. ``tries`` were made."""

    def __init__(self, title: str, advice: str = "", *, tries: int = 0) -> None:
        super().__init__(title, advice)
        self.tries = tries


class NotUnique(AllocationError):
    """The database does not keep the field unique, or cannot."""


class WrongClient(AllocationError):
    """A collection of an asynchronous client was given to a synchronous allocator, or the other way round."""
