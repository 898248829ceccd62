"""The command palette without a blinking cursor."""

from __future__ import annotations

from textual.command import CommandPalette
from textual.widgets import Input


class Palette(CommandPalette):
    """Textual's palette, still."""

    def on_mount(self) -> None:
        """Stop the cursor from blinking: each blink would be sent over the link."""
        self.query_one(Input).cursor_blink = False
