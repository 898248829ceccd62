"""What a run shows and asks: a protocol, so that a terminal, a file or a test can take the person's place."""

from __future__ import annotations

from typing import Protocol


class Operator(Protocol):
    """The person who runs the steps."""

    @property
    def width(self) -> int | None:
        """How many columns the person sees; None where lines go to a file or a program."""
        ...

    def tell(self, text: str) -> None:
        """Show lines that are safe to show."""
        ...

    def show_progress(self, text: str) -> None:
        """Show a line in place of the last such line; an empty text removes it."""
        ...

    def agrees(self) -> bool | None:
        """Ask whether the step that was shown shall be run; None if there is nobody to ask."""
        ...

    def password(self, prompt: str) -> str | None:
        """Ask for a password, as it was typed; None if there is nobody to ask."""
        ...
