"""Textual's app for a bastion host: it reports a crash without any value in it, and leaves the pointer alone.

Here, and in :mod:`tallyglass_tui.terminal.driver`, is all that is private in Textual and used nevertheless.
``tests/tui/test_textual_private.py`` names each.
"""

from __future__ import annotations

import sys

from rich.text import Text
from textual.app import App

from tallyglass_tui.terminal.driver import BastionDriver

_BROKEN = 70
"""Exit status after a defect of our own (EX_SOFTWARE)."""


class TerminalApp(App[None]):
    """The part of the app that Textual has no public way for."""

    def crash_text(self, error: BaseException | None) -> str:
        """What is printed once the terminal is back, after a defect of our own."""
        return "The program stopped because of a defect."

    @property
    def congested(self) -> bool:
        """Whether the terminal has not yet taken what was drawn before."""
        return isinstance(self._driver, BastionDriver) and self._driver.congested

    @property
    def lines(self) -> list[str]:
        """The screen as text, a string a row."""
        return [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]

    def _set_pointer_shape(self, shape: str) -> None:
        """The pointer is left alone: the mouse belongs to the terminal, and old ones print what they do not know."""

    def _handle_exception(self, error: Exception) -> None:
        """Report a defect; but what fails after the user has left, fails on pages that are half taken down."""
        if not self._exit:
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave after a defect of our own, with a trace that holds no values. Textual's would print locals."""
        self._return_code = _BROKEN
        self._exit_renderables.append(Text(self.crash_text(self._exception or sys.exc_info()[1])))
        self._close_messages_no_wait()
