"""The one-line parts of the shell: the line of pages, the banner for trouble, and the line of keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from textual.binding import Binding
from textual.events import Click, Resize
from textual.screen import Screen
from textual.timer import Timer

from tallyglass_tui.widgets.cells import at_most, fit, wrap, wrap_words
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.line_view import LineView, Piece

_PINNED = ("page.back", "app.help", "app.quit")
"""Keys that are always shown on the line."""
_MOST_LINES = 3
"""Lines of a message at the bottom: an error and its advice on 80 columns."""

_BANNER_LINES = 2
"""Lines of the banner: a long one must leave the page readable on 15 rows."""

_LEAST_SHOWN, _READ_A_SECOND = 6.0, 12
"""Seconds for which a message is shown at least, and how many characters are read in one."""

_WIDE, _NAMED = 120, 80
"""The fewest columns at which the pages stand apart, and at which all of them are named: the header needs the room."""


class NavLine(LineView):
    """The pages with their keys, and on the right what is watched, how old it is, and the rate."""

    DEFAULT_CSS = """
    NavLine { height: 1; dock: top; background: $panel; color: $foreground; }
    NavLine > .nav--here { text-style: bold reverse; }
    NavLine > .nav--alert { color: $warning; text-style: bold; }
    """
    COMPONENT_CLASSES = {"nav--here", "nav--alert"}  # noqa: RUF012

    def __init__(self, pages: Sequence[tuple[str, str]], here: str) -> None:
        super().__init__()
        self._pages = pages
        self._here = here
        self._right: tuple[Piece, ...] = ()

    def show(self, right: Sequence[Piece]) -> None:
        """Set the text on the right."""
        self._right = tuple(right)
        self.show_changes()

    @property
    def room(self) -> int:
        """Cells at the right of the pages."""
        return self.app.size.width - sum(cell_len(text) for text, _ in self._tabs())

    def _tabs(self) -> list[tuple[str, str]]:
        """The text and the title of each page. On a narrow screen some are only a key."""
        width, titles = self.app.size.width, [title for _, title in self._pages]
        named = set(titles)
        if width < _NAMED:
            named = set(titles[:-1]) if self._here in titles[:-1] else {self._here}
        words = [f"{key} {title}" if title in named else key for key, title in self._pages]
        if width >= _WIDE:
            return [(f" {text} ", title) for text, title in zip(words, titles, strict=True)]
        tabs, before = [], True
        for text, title in zip(words, titles, strict=True):
            after = title in (self._here, titles[-1])
            tabs.append((" " * before + text + " " * after, title))
            before = not after
        return tabs

    async def on_click(self, event: Click) -> None:
        """A click on the name of a page opens it."""
        x = 0
        for text, title in self._tabs():
            x += cell_len(text)
            if event.x < x:
                await self.app.run_action(f"page('{title.lower()}')")
                return

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """The pieces of the line."""
        used = 0
        for text, title in self._tabs():
            used += cell_len(text)
            yield text, "nav--here" if title == self._here else ""
        room = width - used
        taken = sum(cell_len(text) for text, _ in self._right)
        if taken <= room:
            yield " " * (room - taken), ""
            yield from self._right
            return
        for text, style in self._right[:-1]:
            shown = fit(text, max(0, min(cell_len(text), room - cell_len(self._right[-1][0]))))
            room -= cell_len(shown)
            yield shown, style
        if self._right:
            yield fit(self._right[-1][0], room), self._right[-1][1]


class Banner(LineView):
    """A problem, in one or two lines that stay until it is over. Hidden if there is none."""

    DEFAULT_CSS = """
    Banner { height: 1; display: none; background: $error; color: $background; text-style: bold; }
    Banner.-shown { display: block; }
    Banner.-note { background: $panel; color: $warning; }
    Banner:ansi { background: ansi_default; color: ansi_red; text-style: bold reverse; }
    Banner.-note:ansi { background: ansi_default; color: $warning; text-style: bold; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def show(self, text: str, *, lost: bool = True) -> None:
        """Show ``text``, or nothing if it is empty. ``lost`` marks a lost server."""
        self.set_class(not lost, "-note")
        self._text = text
        lines = min(_BANNER_LINES, len(wrap(f" ! {text}", self.app.size.width)))
        self.set_class(bool(text), "-shown")
        if text and self.styles.height is not None and self.styles.height.value != lines:
            self.styles.height = lines
        self.show_changes()

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """The text, spread over the available lines."""
        lines = at_most(wrap(f" ! {self._text}", width), _BANNER_LINES, width)
        yield lines[y] if y < len(lines) else "", ""


class KeysLine(LineView):
    """The keys that work now, from the live bindings: those with ``show=True``, as many as fit.

    A message of the page takes their place for some seconds; the prompt of an open input line is shown above them.
    """

    DEFAULT_CSS = """
    KeysLine { height: 1; dock: bottom; background: $panel; color: $foreground; }
    KeysLine > .keys--key { color: $accent; text-style: bold; }
    KeysLine:light > .keys--key { color: $foreground; }
    KeysLine:ansi > .keys--key { color: ansi_default; text-style: bold reverse; }
    """
    COMPONENT_CLASSES = {"keys--key"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._message = ""
        self._timer: Timer | None = None

    def say(self, text: str) -> None:
        """Show ``text`` in place of the keys, for as long as it takes to read it."""
        self._message = text
        if self._timer:
            self._timer.stop()
        self._timer = (
            self.set_timer(max(_LEAST_SHOWN, len(text) / _READ_A_SECOND), lambda: self.say("")) if text else None
        )
        self._show()

    def on_mount(self) -> None:
        """Follow the bindings of the screen."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def on_resize(self, _: Resize) -> None:
        """Wrap the message again."""
        self._show()

    def _bindings_changed(self, _: Screen[object]) -> None:
        if self._message and self._prompt:
            self.say("")  # a prompt replaces an earlier message
        else:
            self._show()

    def _show(self) -> None:
        lines = len(self._words(self.app.size.width)) + (not self._message)
        if self.styles.height is None or self.styles.height.value != lines:
            self.styles.height = lines
        self.show_changes()

    def _words(self, width: int) -> list[str]:
        """The message above the keys, or in their place."""
        text = self._message or self._prompt
        lines = [f" {line}" for line in wrap_words(text, width - 1)] if text else []
        return at_most(lines, _MOST_LINES, width)

    @property
    def _prompt(self) -> str:
        line = self.screen.focused
        return line.prompt if isinstance(line, InputLine) and line.is_open else ""

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """A line of words, or the keys of the page that fit; the keys for help and for leaving are always shown."""
        words = self._words(width)
        if y < len(words):
            yield words[y], ""
            return
        if self._message:
            return
        shown, pinned = self._shown(), []
        for binding in tuple(shown):
            if binding.id in _PINNED:
                shown.remove(binding)
                pinned.append(binding)
        room = width - sum(self._width(binding) for binding in pinned)
        for binding in [*shown, *pinned]:
            if binding not in pinned:
                room -= self._width(binding)
                if room < 0:
                    continue
            yield f" {self.app.get_key_display(binding)} ", "keys--key"
            yield f" {binding.description} ", ""

    def _shown(self) -> list[Binding]:
        """The page's own keys first, then those of all pages."""
        found: dict[str, Binding] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.show and active.enabled:
                found.setdefault(active.binding.action, active.binding)
        return sorted(found.values(), key=lambda binding: (binding.id or "").partition(".")[0] in ("page", "app"))

    def _width(self, binding: Binding) -> int:
        return cell_len(self.app.get_key_display(binding)) + cell_len(binding.description) + 4
