"""After a fork the child must not serve what its parent holds: every allocator in it begins empty.

One hook for the process, over weak references. The check costs nothing on the way of an id, unlike asking for
the process id each time.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol


class Renewable(Protocol):
    """Something that holds ids, locks or random state."""

    def forget(self) -> None:
        """Drop them all and make new locks: other threads of the parent may have held the old ones."""


_all: weakref.WeakSet[Any] = weakref.WeakSet()


def renew_after_fork(thing: Renewable) -> None:
    """Have ``thing.forget()`` called in the child of every fork, as long as it lives."""
    _all.add(thing)


def _in_child() -> None:
    for thing in list(_all):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
