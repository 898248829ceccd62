"""What the program that watches does about its cyclic garbage collector: by default nothing.

The collector belongs to the program that imports this library. One that watches tens of thousands of counters and has
an interpreter to itself, as the dashboard has, may hand in a policy of its own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class GarbagePolicy(Protocol):
    """Told when many long-lived objects are made, which the collector would walk again and again as they grow."""

    def building(self) -> AbstractContextManager[object]:
        """Entered while tens of thousands of objects are built. Other tasks run meanwhile."""
        ...

    def built(self) -> None:
        """Most objects there are now will live long."""
        ...


class LeaveAlone:
    """The default: the collector stays as the program has set it."""

    def building(self) -> AbstractContextManager[object]:
        """Nothing."""
        return nullcontext()

    def built(self) -> None:
        """Nothing."""


LEAVE_ALONE: GarbagePolicy = LeaveAlone()
