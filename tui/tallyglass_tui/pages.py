"""The pages of the dashboard, in the order of their number keys.

A page is added in two steps: a folder named like its title in small letters, whose module ``page`` has a subclass of
:class:`~tallyglass_tui.shell.page.Page` named like it, such as ``ThingsPage``, and its line in :data:`PAGES`. The
command line hands the list to the shell, which gives each page its number key, its place in the line of pages, its
entry in the palette and in the help, and its share of the ticks.
"""

from __future__ import annotations

from tallyglass_tui import bound
from tallyglass_tui.shell.page_spec import PageSpec

PAGES: tuple[PageSpec, ...] = (
    PageSpec(
        "1",
        "Counters",
        "what runs out first, and when",
        lambda: f"first row, {bound.key('list.open', 'Enter')}",
    ),
    PageSpec("2", "ObjectIds", "when an id was made; the ids of a moment", lambda: "paste it"),
    PageSpec(
        "3",
        "Oplog",
        "who deleted what, and when",
        lambda: f"{bound.key('oplog.incidents', 'i')}, then {bound.key('list.open', 'Enter')}",
    ),
    PageSpec(
        "4",
        "Restore",
        "the command to get it back",
        lambda: f"{bound.key('list.open', 'Enter')}, then {bound.key('restore.next', 'Tab')}",
    ),
    PageSpec(
        "5",
        "Profiles",
        "which deployment needs somebody",
        lambda: f"{bound.key('list.open', 'Enter')} switches",
    ),
)
