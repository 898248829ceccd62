"""The policy for the cyclic garbage collector while counters are watched: the default changes nothing.

The collector belongs to the program that imports this library. A program that watches tens of thousands of counters and
owns the interpreter, such as the dashboard, may pass another policy.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class GarbagePolicy(Protocol):
    """Notified when many long-lived objects are created, which the collector would traverse repeatedly."""

    def building(self) -> AbstractContextManager[object]:
        """Entered while tens of thousands of objects are built. Other tasks run meanwhile."""
        ...

    def built(self) -> None:
        """Called when most existing objects will be long-lived."""
        ...


class NoGarbagePolicy:
    """The default: the collector keeps the settings of the program."""

    def building(self) -> AbstractContextManager[object]:
        """Leave the collector as it is."""
        return nullcontext()

    def built(self) -> None:
        """Leave the collector as it is."""


NO_GARBAGE_POLICY: GarbagePolicy = NoGarbagePolicy()
