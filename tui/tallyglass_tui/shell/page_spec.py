"""One page as the shell knows it before it is shown. The list of pages is :data:`tallyglass_tui.pages.PAGES`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from textual.screen import Screen


class PageSpec(NamedTuple):
    """One page: its key, mode and title, what it answers and how, and where its class is. Imported when first shown.

    ``how`` names keys as they are when it is called.
    """

    key: str
    mode: str
    title: str
    answers: str
    how: Callable[[], str]
    module: str
    name: str

    def make(self) -> Screen[None]:
        """Import and create the page."""
        return cast("Screen[None]", getattr(import_module(self.module), self.name)())
