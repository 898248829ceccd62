"""One page as the shell knows it before it is shown. The list of pages is :data:`tallyglass_tui.pages.PAGES`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from textual.screen import Screen


class PageSpec(NamedTuple):
    """One page: its key, its title, what it answers and how. Its class is imported when it is first shown.

    ``how`` names keys as they are when it is called.
    """

    key: str
    title: str
    answers: str
    how: Callable[[], str]

    @property
    def mode(self) -> str:
        """The name of the page, and of its folder."""
        return self.title.lower()

    @property
    def module(self) -> str:
        """Where its class is."""
        return f"tallyglass_tui.{self.mode}.page"

    def make(self) -> Screen[None]:
        """Import and create the page."""
        return cast("Screen[None]", getattr(import_module(self.module), f"{self.title}Page")())
