"""One look at all counters, as several commands take it, and the options for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.errors import InputError, RefusedError
from tallyglass_tui.cli.headless import ask
from tallyglass_tui.cli.options import PATH, ConnectionOptions, profile_of

if TYPE_CHECKING:
    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass.counters.snapshot import CountersSnapshot
    from tallyglass.mongo.gateway import Gateway

SEARCH_SHARE = 0.6
"""The share of the timeout for the search; the rest is for reading the counters."""

_LOOK_SHARE = 0.8
"""The share of the timeout after which no further collection is read: what was read by then still counts."""

config_option = click.option(
    "--config", metavar="FILE", type=PATH, help="Read definitions of counters and ceilings (TOML)."
)

history_option = click.option("--no-history", is_flag=True, help="Keep no samples, and read none of earlier runs.")


guesses_option = click.option("--guesses", is_flag=True, help="Include guesses: numbers known by name only.")


def look_once(given: ConnectionOptions, config: Path | None, seconds: float, *, history: bool) -> CountersSnapshot:
    """One snapshot with forecasts of the selected deployment.

    Raises PrivilegeError or DeploymentError if no collection is seen at all, since "no counters" would be wrong then.
    Raises InputError if a rule of the configuration matches nothing.
    """
    from tallyglass.counters.follow.watch import look
    from tallyglass.doctor import why_nothing
    from tallyglass.mongo.driver_errors import NOT_PRIMARY_OR_SECONDARY
    from tallyglass_tui.terminal.interpreter import collector_held

    settings = replace(
        watch_settings(given, config, history=history),
        search_seconds=seconds * SEARCH_SHARE,
        look_seconds=seconds * _LOOK_SHARE,
        building=collector_held,
    )

    async def look_or_say_why(gateway: Gateway) -> CountersSnapshot:
        try:
            snapshot = await look(gateway, settings)
        except RefusedError as error:
            if error.code != NOT_PRIMARY_OR_SECONDARY:
                raise
        else:
            if snapshot.counters or snapshot.collections_seen or snapshot.unmatched:
                return snapshot
        raise await why_nothing(gateway)

    snapshot = ask(given, look_or_say_why, seconds)
    refuse_unmatched(snapshot.unmatched)
    return snapshot


def refuse_unmatched(unmatched: Sequence[str]) -> None:
    """Raise InputError if rules of the configuration match nothing."""
    if unmatched:
        more = f" ({len(unmatched) - 1} more like it)" if len(unmatched) > 1 else ""
        raise InputError(
            f"The configuration does not match this deployment: {unmatched[0]}{more}",
            "Correct or remove it: a rule without effect would hide a counter.",
        )


def watch_settings(given: ConnectionOptions, config: Path | None, *, history: bool) -> WatchSettings:
    """How counters are watched: the definitions of the file or of the profile, and the samples of earlier runs.

    Raises InputError for definitions that cannot be read.
    """
    from tallyglass.counters.follow.settings import WatchSettings, default_history_path

    if config is None:
        profile = profile_of(given)
        config = profile.counters if profile else None
    path = default_history_path() if history else None
    if config is None:
        return WatchSettings(history_path=path)
    from tallyglass.counters.recognise.config import load_config

    return WatchSettings(config=load_config(config), history_path=path)
