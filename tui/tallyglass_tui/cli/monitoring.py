"""Commands that a monitoring system runs: one line of text and an exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tallyglass.connection.secret import scrub
from tallyglass.counters.check_line import LEVEL_NAMES
from tallyglass.errors import TallyglassError
from tallyglass.text import clean
from tallyglass_tui.cli.error_boundary import UNKNOWN, usage_sentence, warn
from tallyglass_tui.cli.headless import as_json, print_text


def status_line(service: str, level: int, words: str, perfdata: str) -> str:
    """The one line of output; ``level`` is the exit code."""
    return f"{service} {LEVEL_NAMES[level]} - {words} | {perfdata}"


def beside_the_answer(work: Callable[[], None]) -> None:
    """Do what the answer does not depend on; print a warning where that fails."""
    try:
        work()
    except TallyglassError as error:
        warn(str(error))


class MonitoringPlugin(click.Command):
    """A command that reports every failure as UNKNOWN on stdout; exit code 2 would be an alarm.

    ``service`` is the first word of the line.
    """

    def __init__(self, *arguments: Any, service: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._service = service

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments; report wrong ones as UNKNOWN."""
        words = list(args[1] if len(args) > 1 else kwargs["args"])  # Click takes words out of its list
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            self._print_unknown(usage_sentence(error), wants_json="--json" in words)
            raise click.exceptions.Exit(UNKNOWN) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run; report failures as UNKNOWN."""
        try:
            return super().invoke(ctx)
        except TallyglassError as error:
            self._print_unknown(str(error), wants_json=bool(ctx.params.get("wants_json")))
            return UNKNOWN

    def _print_unknown(self, why: str, *, wants_json: bool) -> None:
        reason = clean(scrub(why), 400)
        if wants_json:
            print_text(as_json({"status": UNKNOWN, "reason": reason}, indent=2))
        else:
            print_text(f"{self._service} UNKNOWN - {reason.replace('|', '/')}")
