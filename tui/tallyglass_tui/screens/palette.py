"""The command palette: what it offers, and its line without a blinking cursor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from textual.app import App, SystemCommand
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input

from tallyglass_tui.screens import PAGES


class Palette(CommandPalette):
    """Textual's palette, still."""

    def on_mount(self) -> None:
        """Stop the cursor from blinking: each blink would be sent over the link."""
        self.query_one(Input).cursor_blink = False


def commands(app: App[None], screen: Screen[Any]) -> Iterator[SystemCommand]:
    """The pages, then every key of the screen, then the themes."""

    def runner(action: str, node: DOMNode) -> Callable[[], Awaitable[bool]]:
        return partial(app.run_action, action, node)

    for spec in PAGES:
        yield SystemCommand(f"{spec.title} ({spec.key})", spec.answers, runner(f"page('{spec.mode}')", app))
    seen = {f"page('{spec.mode}')" for spec in PAGES}
    for active in screen.active_bindings.values():
        binding = active.binding
        if binding.id and active.enabled and binding.action not in seen:
            seen.add(binding.action)
            yield SystemCommand(binding.description, binding.tooltip or "", runner(binding.action, active.node))
    yield SystemCommand("Theme", "Change the colours", app.action_change_theme)
