"""The input line of a page: filters, times, ids, paths. Enter submits the text, Esc closes the line."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input
from textual.widgets.input import Selection

from tallyglass.errors import InputError
from tallyglass.text import clean

Submit = Callable[[str], None]
"""Takes the submitted text. Raises InputError to keep the line open with the text."""

Describe = Callable[[str], str]
"""What a text means, in one sentence, while it is being typed; empty for nothing to say."""

Complete = Callable[[str], str]
"""A text with its end completed, as Tab does; the same text where there is nothing to complete."""


class InputLine(Input):
    """One line of text, hidden until :meth:`open`, with a cursor that does not blink.

    A refused text stays in the open line, with the reason above it and the cursor where the error is.
    """

    DEFAULT_CSS = """
    InputLine { dock: bottom; height: 1; border: none; padding: 0 1; display: none; background: $panel; }
    InputLine:focus { border: none; }
    InputLine.-open { display: block; }
    InputLine:ansi > .input--selection { background: ansi_default; color: ansi_default; text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit_line", "Apply", id="input.apply", tooltip="Apply; an empty line clears"),
        Binding("escape", "close_line", "Cancel", key_display="Esc", id="input.cancel", tooltip="Change nothing"),
        Binding("tab", "complete", "Complete", show=False, id="input.complete", tooltip="Complete the path"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, select_on_focus=False)
        self.cursor_blink = False
        self._prompt = ""
        self._error = ""
        self._refused = ""
        self._submit: Submit = lambda _: None
        self._describe: Describe | None = None
        self._complete: Complete | None = None
        self._prefilled = ""
        self._live = False
        self._preview: Submit | None = None
        self._cancel: Callable[[], None] | None = None
        self._return_focus: Widget | None = None

    def open(
        self,
        prompt: str,
        submit: Submit,
        value: str = "",
        *,
        describe: Describe | None = None,
        complete: Complete | None = None,
        live: bool = False,
        preview: Submit | None = None,
        cancel: Callable[[], None] | None = None,
    ) -> None:
        """Show the line. A prefilled ``value`` is selected, so that typing replaces it.

        A value that cannot be shown as it is (control characters) is submitted unchanged unless it is edited.
        ``live`` submits on every change, and the prefilled value again on Esc. ``preview`` gets the text on every
        change, ``cancel`` is called on Esc.
        """
        self._live, self._preview, self._cancel = False, None, cancel
        self._prompt, self._error, self._submit, self._describe, self._complete = prompt, "", submit, describe, complete
        self._prefilled = value
        self.value = value = clean(value, len(value))
        self.selection = Selection(0, len(value))
        before = self.screen.focused
        if before is not self:
            self._return_focus = before
        self._show()
        self._live, self._preview = live, preview

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("-open")

    @property
    def prompt(self) -> str:
        """The text above the line: why the input was refused, what it means, or what to type."""
        if self._error:
            return self._error
        meaning = self._describe(self.value) if self._describe and self.value.strip() else ""
        return meaning or self._prompt

    def close(self) -> None:
        """Hide the line; the widget that had the focus before gets it back."""
        self.remove_class("-open")
        if self.has_focus:
            before = self._return_focus
            if before is not None and before.is_attached and before.display:
                self.screen.set_focus(before)
            else:
                self.screen.focus_next()

    def action_submit_line(self) -> None:
        """Submit the text. Everything that depends on it has changed when this returns."""
        untouched = self.value == clean(self._prefilled, len(self._prefilled))
        self.submit(self._prefilled if untouched else self.value)

    def submit(self, text: str) -> None:
        """Close the line and submit ``text``, or open it again with the reason why not."""
        self.close()
        try:
            self._submit(text)
        except InputError as error:
            self._error = str(error)
            self.value = self._refused = clean(text, len(text))
            self.cursor_position = len(self.value) if error.position is None else min(error.position, len(self.value))
            self._show()

    def action_close_line(self) -> None:
        """Close the line and change nothing."""
        self.close()
        if self._live and self.value != self._prefilled:
            self._submit(self._prefilled)
        if self._cancel:
            self._cancel()

    def action_complete(self) -> None:
        """Complete the text. Tab never moves the focus out of an open line."""
        if self._complete:
            self.value = self._complete(self.value)
            self.cursor_position = len(self.value)

    @on(Input.Changed)
    def _text_changed(self) -> None:
        if self.value != self._refused:
            self._error = ""
        self.screen.refresh_bindings()
        if self._live and self.is_open:
            with suppress(InputError):
                self._submit(self.value)
        if self._preview and self.is_open:
            with suppress(InputError):
                self._preview(self.value)

    def _show(self) -> None:
        self.add_class("-open")
        # At once: ``focus()`` would act only after the messages that wait, and so after the next key.
        self.screen.set_focus(self)
        self.screen.refresh_bindings()
