"""What the dashboard was started with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tallyglass.connection.target import Target

if TYPE_CHECKING:
    from tallyglass.counters.follow.settings import WatchSettings


NOT_FROM_A_RECORDING = "This is a recording, which may come from anybody: nothing is copied or written from it."


@dataclass(frozen=True, slots=True)
class Context:
    """What the dashboard was started with.

    ``label`` is the name of a profile, such as PROD; ``watch`` says how counters are watched; ``building`` makes the
    context in which many objects are built (see ``WatchSettings``): it leaves the garbage collector as it is if the app
    is only a part of the process. ``recorded``: the dashboard shows a recording.
    """

    target: Target
    backup: Path | None = None
    label: str = ""
    watch: WatchSettings | None = None
    building: Callable[[], AbstractContextManager[object]] = nullcontext
    recorded: bool = False


class OpenProfile(Protocol):
    """Makes the context of a profile. Without ``ask`` no password is asked for. Raises TallyglassError."""

    def __call__(self, name: str, *, ask: bool = True) -> Context:
        """The context of the profile with this name."""
        ...
