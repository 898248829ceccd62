"""The help, made from the keys that work on the page it was opened from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tallyglass_tui.shell import status_line
from tallyglass_tui.shell.page_spec import PageSpec
from tallyglass_tui.widgets.cells import wrap_words

_CLIPBOARD = (
    "Copying goes through the terminal (OSC 52), so it works over SSH. Inside tmux it needs `set -g set-clipboard on`. "
    "Nothing is lost without it: all that can be copied is also on the screen."
)
_COLOURS = (
    "Colours: Theme, in the palette. TALLYGLASS_THEME=ansi-light, or ansi-dark, chooses one where the terminal "
    "does not say which it is, as inside tmux; NO_COLOR=1 leaves them out, TALLYGLASS_ASCII=1 draws in ASCII."
)
_SELECTING = "Your terminal's own selection works as ever: the mouse is left to it."
_LAST = ("list", "map", "text", "counter", "tail", "page", "app")
"""The ids of keys that many pages have begin with these: they are listed after the page's own keys."""


def _rank(binding: Binding) -> tuple[int, bool]:
    group = (binding.id or "").partition(".")[0]
    own = group not in _LAST or (binding.show and group not in ("page", "app"))
    return (-1 if own else _LAST.index(group), not binding.show)


class HelpScreen(ModalScreen[None]):
    """Answers, keys and notes. Esc, q or ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,question_mark", "dismiss", "Close", id="help.close"),
        Binding("escape", "dismiss", "Close", show=False),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("up,k", "scroll(-1)", "Up", show=False),
        Binding("pagedown,space", "scroll(10)", "Page down", show=False),
        Binding("pageup", "scroll(-10)", "Page up", show=False),
    ]

    def __init__(
        self,
        title: str,
        pages: Sequence[PageSpec],
        bindings: Sequence[tuple[str, ActiveBinding]],
        notes: Sequence[str] = (),
        *,
        plain: bool = False,
    ) -> None:
        super().__init__()
        self._plain = plain
        self._title = title
        self._pages = pages
        self._keys_of_page = bindings
        self._notes = notes

    def compose(self) -> ComposeResult:
        """Compose one text that scrolls."""
        with VerticalScroll(id="help"):
            yield Static(markup=False)

    def on_resize(self) -> None:
        """Wrap the text to the width."""
        self.call_after_refresh(lambda: self.query_one("#help Static", Static).update(self._content()))

    def on_mount(self) -> None:
        """Show how to scroll and how to leave."""
        box = self.query_one("#help")
        box.border_subtitle = "Down scrolls, Esc closes"
        if self._plain:
            box.styles.border = ("ascii", box.styles.border_top[1])

    def action_scroll(self, lines: int) -> None:
        """Scroll by some lines."""
        self.query_one("#help", VerticalScroll).scroll_relative(y=lines, animate=False)

    def _content(self) -> Content:
        parts: list[Content] = [Content.styled("Where to look", "bold")]
        for spec in self._pages:
            parts.append(self._row(f"  {spec.key}  {spec.title:<9}  ", f"{spec.answers}: {spec.how()}"))
        parts += [Content(""), Content.styled(f"Keys on {self._title}", "bold")]
        parts += [self._row(f"  {keys:<14} ", text) for keys, text in self._keys()]
        for note in (*self._notes, status_line.HELP, _CLIPBOARD, _SELECTING, _COLOURS):
            parts += [Content(""), Content(note)]
        return Content("\n").join(parts)

    def _row(self, head: str, text: str) -> Content:
        """A text beside its head, also where it takes several lines."""
        box = self.query_one("#help")
        room = max(10, box.content_size.width - box.scrollbar_size_vertical - len(head))
        first, *more = wrap_words(text, room)
        return Content("\n".join([head + first, *(" " * len(head) + line for line in more)]))

    def _keys(self) -> list[tuple[str, str]]:
        rows: dict[str, tuple[list[str], str]] = {}
        for display, active in sorted(self._keys_of_page, key=lambda row: _rank(row[1].binding)):
            binding = active.binding
            if binding.id is None or not active.enabled or binding.action.startswith("page('"):
                continue
            keys, _ = rows.setdefault(binding.action, ([], binding.tooltip or binding.description))
            if display not in keys:
                keys.append(display)
        return [(" ".join(keys), text) for keys, text in rows.values()]
