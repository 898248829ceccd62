"""The command palette: what it offers, and its line without a blinking cursor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandList, CommandPalette, Provider, SearchIcon
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input

from tallyglass_tui.shell.page_spec import PageSpec

_MOVES = ("list", "map", "text")
"""The ids of keys that move a cursor begin with these: they are not searched by name."""


class Palette(CommandPalette):
    """Textual's palette, with a cursor that does not blink."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "page(1)", "Next page", show=False),
        Binding("pageup", "page(-1)", "Previous page", show=False),
    ]

    def __init__(
        self, *providers: type[Provider], finds: str = "A counter, collection, time, id, profile or key"
    ) -> None:
        """It searches all that the page offers, or these ``providers``; ``finds`` names what they find."""
        super().__init__(providers or None, placeholder=finds, id="--command-palette")

    def on_mount(self) -> None:
        """Stop the cursor from blinking: each blink would be sent over the link. Not every font has Textual's
        symbol."""
        self.query_one(Input).cursor_blink = False
        self.query_one(SearchIcon).icon = ":"

    def action_page(self, pages: int) -> None:
        """Go a page up or down in the list."""
        hits = self.query_one(CommandList)
        with suppress(KeyError):  # before the list is laid out, Textual finds no line for its cursor
            getattr(hits, "action_page_down" if pages > 0 else "action_page_up")()


def commands(app: App[None], screen: Screen[Any], pages: Sequence[PageSpec]) -> Iterator[SystemCommand]:
    """The pages, then every key of the screen except those that move a cursor, then the themes."""

    def runner(action: str, node: DOMNode) -> Callable[[], Awaitable[bool]]:
        return partial(app.run_action, action, node)

    for spec in pages:
        answers = f"{spec.answers[:1].upper()}{spec.answers[1:]}"
        yield SystemCommand(f"{spec.title} ({spec.key})", answers, runner(f"page('{spec.mode}')", app))
    seen = {f"page('{spec.mode}')" for spec in pages}
    for active in screen.active_bindings.values():
        binding = active.binding
        moves = not binding.show and (binding.id or "").partition(".")[0] in _MOVES
        if binding.id and active.enabled and binding.action not in seen and not moves:
            seen.add(binding.action)
            yield SystemCommand(binding.description, binding.tooltip or "", runner(binding.action, active.node))
    yield SystemCommand("Theme", "Change the colours", app.action_change_theme)
