"""Times that count from the clock here, where the server's tells another time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallyglass.text import duration
from tallyglass_tui.cli.error_boundary import warn

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway

_RELATIVE = "tallyglass.relative"
"""Where the context of a command keeps which of its options count from now."""


def note_relative(option: str) -> None:
    """Remember that this option of the running command counts from the clock here."""
    _noted().setdefault(_RELATIVE, []).append(option)


async def warn_of_clocks(gateway: Gateway) -> None:
    """Warn if an option counts from the clock here and the server's differs. Raises the errors of the gateway."""
    options = _noted().get(_RELATIVE)
    if not options:
        return
    from tallyglass.deployment.clock import seconds_ahead

    ahead = await seconds_ahead(gateway)
    if ahead is not None and (apart := clocks_apart(ahead)):
        many = len(options) > 1
        said = f"{' and '.join(options)} count{'' if many else 's'} from the clock here"
        warn(f"{apart}, and {said}. Give a time or a timestamp, such as 02:15Z or 1795197974:14.")


def clocks_apart(seconds_ahead: float) -> str:
    """That the server's clock is so far ahead of the one here, in words; empty where the difference is tolerated."""
    from tallyglass.deployment.clock import TOLERATED_SECONDS

    if abs(seconds_ahead) <= TOLERATED_SECONDS:
        return ""
    where = "ahead of" if seconds_ahead > 0 else "behind"
    return f"the server's clock is {duration(abs(seconds_ahead))} {where} the one here"


def _noted() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return context.meta if context is not None else {}
