"""In the child of a fork every allocator starts empty: the ids in memory belong to the parent.

One hook per process, over weak references: no cost per id, unlike a check of the process id.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, NoReturn, Protocol

from tallyglass.allocate.errors import AllocationError

process: object = object()
"""This process: the child of a fork gets another one. An event hook or a signal handler may fork within a call, and the
child return into it: what the call has taken belongs to the parent. So it compares this with what it was as it began,
and calls nothing more before it returns: no signal handler runs then."""


class Forkable(Protocol):
    """An object that holds ids, locks or random state."""

    def reset_after_fork(self) -> None:
        """Drop all of these, and create new locks: other threads of the parent may have held the old ones."""


_all: weakref.WeakSet[Any] = weakref.WeakSet()


def register_for_fork(holder: Forkable) -> None:
    """Have ``holder.reset_after_fork()`` called in the child of every fork, as long as the holder exists."""
    _all.add(holder)


def refuse_forked(began: object) -> None:
    """Raise AllocationError in the child of a fork since the call began, when ``process`` was ``began``."""
    if process is not began:
        raise forked()


def forked() -> AllocationError:
    """The error for the rest of a call in the child of a fork within it."""
    return AllocationError("The process forked within this call, whose ids belong to the parent.", "Call again.")


def _in_child() -> None:
    global process
    process = object()
    for holder in list(_all):
        holder.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class Uncopyable:
    """Refuses ``copy``, ``deepcopy`` and ``pickle``: two copies in one process would hand out the same ids."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"A {type(self).__name__} cannot be copied or pickled: the copy would hand out the same ids again. "
            "Create another one over the same counter; any number of them may share it."
        )
