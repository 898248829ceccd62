"""``tallyglass counters``: one look at all counters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import PrivilegeError
from tallyglass.moment import iso
from tallyglass_tui.cli.headless import as_json, ask, table, tell, timeout_option
from tallyglass_tui.cli.options import Given, connection_options, profile_of
from tallyglass_tui.cli.outermost import warn

if TYPE_CHECKING:
    from datetime import datetime

    from tallyglass.counters.follow.watch import WatchSettings
    from tallyglass.counters.snapshot import CountersSnapshot, CounterView

config_option = click.option(
    "--config", metavar="FILE", type=click.Path(path_type=Path), help="Definitions of counters and ceilings (TOML)."
)

history_option = click.option(
    "--no-history", is_flag=True, help="Keep and use no samples of earlier runs (a file in the user's state folder)."
)


@click.command()
@connection_options()
@config_option
@history_option
@click.option("--json", "wants_json", is_flag=True, help="One JSON document.")
@timeout_option
def command(given: Given, config: Path | None, no_history: bool, wants_json: bool, seconds: float) -> None:
    """Show every sequence counter once: value, share of its range used, rate, and when it runs out."""
    snapshot = look_once(given, config, seconds, history=not no_history)
    if snapshot.discovering:
        warn(
            f"only {snapshot.collections_seen} collections were looked through in the time; there may be more counters."
        )
    for trouble in snapshot.troubles:
        warn(f"{trouble.ns}: {trouble.title} {trouble.advice}".rstrip())
    if wants_json:
        tell(as_json([_facts(counter) for counter in snapshot.counters], indent=2))
    elif snapshot.counters:
        tell(as_table(snapshot))
    else:
        warn(f"no counter was found in {snapshot.collections_seen} collections.")


def look_once(given: Given, config: Path | None, seconds: float, *, history: bool) -> CountersSnapshot:
    """One bounded look with forecasts, on the deployment that is meant.

    Raises PrivilegeError where the user sees no collection at all: no counter is then no answer.
    """
    from tallyglass.counters.follow.watch import look

    settings = watch_settings(given, config, history=history)
    snapshot = ask(given, lambda gateway: look(gateway, settings), seconds)
    if not snapshot.counters and not snapshot.collections_seen:
        raise PrivilegeError("This user may see no collection.", "tallyglass doctor names the role for it.")
    return snapshot


def watch_settings(given: Given, config: Path | None, *, history: bool) -> WatchSettings:
    """How counters are watched: the definitions of the file or of the profile, and the samples of earlier runs.

    Raises InputError for definitions that cannot be read.
    """
    from tallyglass.counters.follow.watch import WatchSettings
    from tallyglass.counters.history.store import default_history_path
    from tallyglass.counters.recognise.config import load_config

    if config is None:
        profile = profile_of(given)
        config = profile.counters if profile else None
    return WatchSettings(
        config=load_config(config) if config else None, history_path=default_history_path() if history else None
    )


def as_table(snapshot: CountersSnapshot) -> str:
    """The counters as a table with its header."""
    from tallyglass_tui.format import count, rate, share, time_left

    rows = [("NAMESPACE", "ID", "VALUE", "USED", "RATE", "LEFT", "FLAGS")]
    rows += [
        (
            counter.ns,
            counter.id,
            count(counter.value),
            share(counter.used),
            rate(counter.rate),
            time_left(counter.forecast, snapshot.at),
            " ".join(flag.value for flag in counter.flags),
        )
        for counter in snapshot.counters
    ]
    return table(rows, right=frozenset({2, 3, 4}))


def _facts(counter: CounterView) -> dict[str, Any]:
    forecast = counter.forecast
    return {
        "ns": counter.ns,
        "id": counter.id,
        "field": counter.field,
        "shape": counter.shape,
        "value": counter.value,
        "type": counter.type,
        "semantics": counter.semantics,
        "start": counter.start,
        "ceiling": counter.ceiling.value if counter.ceiling else None,
        "ceiling_reason": counter.ceiling.reason if counter.ceiling else None,
        "used": counter.used,
        "rate": counter.rate,
        "p10": _day(forecast.early),
        "p50": _day(forecast.likely),
        "p90": _day(forecast.late),
        "far": forecast.far,
        "note": forecast.note,
        "history_seconds": forecast.history_seconds,
        "steps": forecast.steps,
        "drift": counter.drift,
        "target": counter.target,
        "repair": counter.repair,
        "flags": list(counter.flags),
    }


def _day(moment: datetime | None) -> str | None:
    return iso(moment) if moment else None
