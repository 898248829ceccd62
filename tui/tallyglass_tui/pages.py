"""The pages of the dashboard, in the order of their number keys.

A page is added in two steps: a module here with a subclass of :class:`~tallyglass_tui.shell.page.Page`, and
its line in :data:`PAGES`. The shell then gives it its number key, its place in the line of pages, its entry in the
palette and in the help, and its share of the ticks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from tallyglass_tui.shell.page import Page


class PageSpec(NamedTuple):
    """One page: its key, mode and title, what it answers and how, and where its class is. Imported when first shown."""

    key: str
    mode: str
    title: str
    answers: str
    how: str
    module: str
    name: str

    def make(self) -> Page:
        """A new page."""
        return cast("Page", getattr(import_module(self.module), self.name)())


PAGES: tuple[PageSpec, ...] = (
    PageSpec(
        "1",
        "counters",
        "Counters",
        "what runs out first, and when",
        "first row, Enter",
        "tallyglass_tui.counters.page",
        "CountersPage",
    ),
    PageSpec(
        "2",
        "objectids",
        "ObjectIds",
        "when an id was made; the ids of a moment",
        "paste it",
        "tallyglass_tui.objectids.page",
        "ObjectIdsPage",
    ),
    PageSpec(
        "3",
        "oplog",
        "Oplog",
        "who deleted what, and when",
        "i, then Enter",
        "tallyglass_tui.oplog.page",
        "OplogPage",
    ),
    PageSpec(
        "4",
        "restore",
        "Restore",
        "the command to get it back",
        "Enter, then Tab",
        "tallyglass_tui.restore.page",
        "RestorePage",
    ),
)
