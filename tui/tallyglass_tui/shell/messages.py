"""Messages between the shell and its pages. Payloads are frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.message import Message

from tallyglass.moment import Ts

if TYPE_CHECKING:
    from tallyglass.oplog.snapshot import Incident


class Tick(Message):
    """Tells the page that is shown to take the new data of the feeds. Sent at the rate that the badge shows."""

    def can_replace(self, message: Message) -> bool:
        """One waiting tick is enough."""
        return isinstance(message, Tick)


class Visit:
    """Base of what opens another page with something to show there.

    ``mode`` names the page. The shell switches to it and hands this on to that page.
    """

    mode: ClassVar[str]


@dataclass(frozen=True)
class RestoreRequested(Visit):
    """Open the restore page at a point: just before ``before``, or at the point of ``incident``."""

    before: Ts | None = None
    incident: Incident | None = None
    mode: ClassVar[str] = "restore"


@dataclass(frozen=True)
class CounterRequested(Visit):
    """Open the counter with this key."""

    key: str
    mode: ClassVar[str] = "counters"


@dataclass(frozen=True)
class ObjectIdsRequested(Visit):
    """Open the ObjectIds page with a text that contains ids, or with a time."""

    text: str
    mode: ClassVar[str] = "objectids"


@dataclass(frozen=True)
class SearchRequested(Visit):
    """Open the oplog page with a filter."""

    words: str
    mode: ClassVar[str] = "oplog"


@dataclass(frozen=True)
class OplogRequested(Visit):
    """Open the oplog page at a moment."""

    at: Ts
    mode: ClassVar[str] = "oplog"
