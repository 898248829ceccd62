"""What a page may ask of the app."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from textual.widget import Widget

from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feeds
from tallyglass_tui.shell.messages import Visit
from tallyglass_tui.shell.page_spec import PageSpec
from tallyglass_tui.widgets.line_view import Piece

if TYPE_CHECKING:
    from tallyglass.deployment.cluster import Deployment


class Shell(Protocol):
    """The app as its pages see it."""

    context: Context
    feeds: Feeds
    pages: Sequence[PageSpec]
    deployment: Deployment | None
    """What kind of deployment is watched; None until that is known."""
    profiles: Sequence[str]
    """Names of the profiles that can be switched to."""
    plain_glyphs: bool
    """Whether bars and graphs keep to ASCII."""

    @property
    def alarm_trouble(self) -> str:
        """Why the alarm cannot sound for an incident; empty where it can, or is off."""
        ...

    def bars(self) -> Iterable[Widget]:
        """Lines that every page shows above its keys."""
        ...

    @property
    def can_go_back(self) -> bool:
        """Whether the user came here from another page."""
        ...

    def go_back(self) -> None:
        """Return to the page that the user came from."""
        ...

    def visit(self, message: Visit) -> None:
        """Switch to another page and hand it ``message``; Esc comes back."""
        ...

    def profile_context(self, name: str) -> Context:
        """The context of a profile, as far as it is known without a prompt. Raises TallyglassError."""
        ...

    def switch_profile(self, name: str) -> None:
        """Leave this deployment for the one of another profile."""
        ...

    def open_oplog(self, moment: datetime) -> None:
        """Open the oplog page at a moment."""
        ...

    def copy(self, what: str, text: str) -> None:
        """Copy through the terminal, and say so."""
        ...

    @property
    def is_paused(self) -> bool:
        """Whether the screen is held still."""
        ...

    def end_pause(self) -> None:
        """Resume updates if they are paused."""
        ...

    def flush_now(self) -> None:
        """Take the new data of the feeds now."""
        ...

    def status(self, age: float | None, room: int) -> tuple[Piece, ...]:
        """The text at the right of the line of pages, in ``room`` cells. The data is ``age`` seconds old."""
        ...
