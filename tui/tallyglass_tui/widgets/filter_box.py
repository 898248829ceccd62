"""The line that `/` opens. Enter takes what was typed, Esc leaves it as it was."""

from __future__ import annotations

from typing import ClassVar
from weakref import WeakSet

from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.events import Key
from textual.message import Message
from textual.widgets import Input

from tallyglass.text import clean

# What Input has keys for, but for what the line itself, or the app where nothing is selected, has another use for.
_EDITS = {
    key: binding.action
    for binding in Input.BINDINGS
    if isinstance(binding, Binding) and binding.action not in ("submit", "copy")
    for key in binding.key.split(",")
}


class FilterBox(Input):
    """One line of text, hidden until it is opened, with a cursor that does not blink."""

    DEFAULT_CSS = """
    FilterBox { height: 1; border: none; padding: 0 1; display: none; background: $panel; }
    FilterBox:focus { border: none; }
    FilterBox.-open { display: block; }
    """
    # For the line of keys: the keys themselves are taken in on_key.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Apply", id="box.apply", tooltip="Take what was typed; nothing takes it away"),
        Binding("escape", "leave", "Leave", key_display="Esc", id="box.leave", tooltip="Leave it as it was"),
    ]

    class Taken(Message):
        """A text was entered; empty to take the filter away."""

        def __init__(self, box: FilterBox, text: str) -> None:
            super().__init__()
            self.box = box
            self.text = text

        @property
        def control(self) -> FilterBox:
            """The box it comes from."""
            return self.box

    def __init__(self, asks: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id, select_on_focus=False)
        self.cursor_blink = False
        self.asks = asks
        """What is to be typed; the line of keys says it while this is open."""
        self._given = ""
        self._taken = self._refused = ("", "")
        self._reached: WeakSet[Key] = WeakSet()
        self._handed: WeakSet[Key] = WeakSet()
        self._held: list[Key] = []
        self._waits = 0
        """How many times it waits for keys that went elsewhere before it was open."""

    def open(self, value: str = "", asks: str = "") -> None:
        """Show it with ``value``, ready to type. What cannot be shown as it is stays as it is unless it is edited."""
        self.asks = asks or self.asks
        refused_for, refused = self._refused
        if refused and refused_for == self.asks:
            value = refused
        self._refused = ("", "")
        self._given = value
        self.value = value = clean(value, len(value))
        self.cursor_position = len(value)
        self.add_class("-open")
        before = self.screen.focused
        # At once: a key that came together with this one is meant for this line.
        self.screen.set_focus(self)
        if before is not None and before is not self and before.call_later(self._rise, before):
            self._waits += 1

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("-open")

    def refuse(self) -> None:
        """What was taken last cannot be read: it is there to be mended when the same is asked for the next time."""
        self._refused = self._taken

    def hand_over(self, event: Key) -> bool:
        """Take a key that went elsewhere before this line was open; False for one that came through here."""
        if event in self._reached:
            return False
        key = Key(event.key, event.character)
        self._handed.add(key)
        self.post_message(key)
        return True

    def close(self) -> None:
        """Hide it; the screen's first widget gets the focus back."""
        self.remove_class("-open")
        if self.has_focus:
            self.screen.focus_next()

    def action_take(self) -> None:
        """Take what was typed."""
        self._take()

    def action_leave(self) -> None:
        """Leave it as it was."""
        self.close()

    async def on_key(self, event: Key) -> None:
        """Keys act here and now: over a slow link many come in one go. What was typed after Enter or Esc is not for
        this line, and what was typed after ^U or a backspace comes after them.

        Textual would let all but characters rise to the app first, and the keys behind them fall in here.
        """
        self._reached.add(event)
        if self._waits and event not in self._handed:
            event.prevent_default()
            event.stop()
            self._held.append(event)
            return
        edit = _EDITS.get(event.key)
        if self.is_open and event.key not in ("enter", "escape"):
            if edit:
                event.prevent_default()
                event.stop()
                await self.run_action(edit)
            return
        event.prevent_default()
        event.stop()
        if not self.is_open:
            self.app.post_message(Key(event.key, event.character))
        elif event.key == "enter":
            self._take()
        else:
            self.close()

    def _rise(self, node: DOMNode) -> None:
        """Go up behind the keys that went through ``node``: at the top they were handed over."""
        above = node.parent
        if above is None or not above.call_later(self._rise, above):
            self.call_later(self._settle)

    async def _settle(self) -> None:
        """Take the keys that came here meanwhile."""
        self._waits -= 1
        if self._waits:
            return
        held, self._held = self._held, []
        for event in held:
            if self.is_open and event.is_printable:
                self._type(event.character or "")
            elif self.is_open and event.key in _EDITS:
                await self.run_action(_EDITS[event.key])
            elif self.is_open and event.key == "enter":
                self._take()
            elif self.is_open and event.key == "escape":
                self.close()
            else:
                self.app.post_message(Key(event.key, event.character))

    def _type(self, text: str) -> None:
        """Type ``text`` in place of what is selected."""
        if self.selection.is_empty:
            self.insert_text_at_cursor(text)
        else:
            self.replace(text, *self.selection)

    def _take(self) -> None:
        self.close()
        untouched = self.value == clean(self._given, len(self._given))
        text = self._given if untouched else self.value
        self._taken = (self.asks, text)
        self.post_message(self.Taken(self, text))
