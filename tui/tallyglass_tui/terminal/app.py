"""The base of the app: it reports a crash without values of variables, and leaves the mouse pointer alone.

Private names of Textual are used only here and in :mod:`tallyglass_tui.terminal.driver`;
``tests/tui/test_textual_private.py`` lists each.
"""

from __future__ import annotations

import sys
from collections.abc import Set

from rich.text import Text
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.timer import Timer, TimerCallback

from tallyglass_tui.terminal.crash import crash_report
from tallyglass_tui.terminal.driver import BastionDriver

_SOFTWARE_ERROR = 70
"""Exit status after a defect of Tallyglass (EX_SOFTWARE)."""

_LONGEST_NOTIFICATION = 200
"""Characters of a notification: desktops cut longer ones."""


class TerminalApp(App[None]):
    """The parts of the app for which Textual has no public API."""

    alt_keys: Set[str] = frozenset()
    """The keys with Alt that mean something. A terminal sends Escape and the key for each, and for Escape before it."""

    @property
    def congested(self) -> bool:
        """Whether output is still waiting for the terminal."""
        return isinstance(self._driver, BastionDriver) and self._driver.congested

    def send_notification(self, text: str) -> None:
        """Ask the terminal for a notification of the desktop (OSC 9). One that knows none ignores it."""
        if self._driver is not None:
            shown = "".join(char if " " <= char <= "~" else "?" for char in text[:_LONGEST_NOTIFICATION])
            self._driver.write(f"\x1b]9;{shown}\x07")

    @property
    def lines(self) -> list[str]:
        """The screen as text, one string per row."""
        return [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """A timer that fires once, however late.

        Textual's own never does if the process loses the processor for ``delay`` while it is started: the tick that
        draws the screen would have been the last, or no later resize would be seen.
        """
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False
        return timer

    def pop_screen(self) -> AwaitComplete:
        """Close what covers the page, and never the page: on a busy machine a key may reach the palette after another
        has closed it."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete.nothing()  # type: ignore[no-untyped-call]

    def _set_pointer_shape(self, shape: str) -> None:
        """Do nothing: the mouse belongs to the terminal, and old terminals print unknown sequences."""

    def _handle_exception(self, error: Exception) -> None:
        """Report a crash. Errors after the user has quit come from half-removed pages and are ignored."""
        if not self._exit:
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Exit after a crash with a traceback without values. Textual's own prints local variables."""
        self._return_code = _SOFTWARE_ERROR
        self._exit_renderables.append(Text(crash_report(self._exception or sys.exc_info()[1])))
        self._close_messages_no_wait()
