"""``tallyglass counters``: one look at all counters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError, ReadError
from tallyglass.moment import iso
from tallyglass.paths import absolute_path
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN, warn
from tallyglass_tui.cli.headless import ask, print_text, table, timeout_option, write_json
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, profile_of, target_of

if TYPE_CHECKING:
    from datetime import datetime

    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass.counters.snapshot import CountersSnapshot, CounterView, Members
    from tallyglass.mongo.gateway import Gateway

SEARCH_SHARE = 0.6
"""The share of the timeout for the search; the rest is for reading the counters."""

_LOOK_SHARE = 0.8
"""The share of the timeout after which no further collection is read: what was read by then still counts."""

_SHOWN_MEMBERS = 5
_JSON_EXACT = 2**53

config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read definitions of counters and ceilings (TOML).",
)

history_option = click.option(
    "--no-history",
    is_flag=True,
    help="Keep no samples, and read none of earlier runs.",
)


guesses_option = click.option("--guesses", is_flag=True, help="Include guesses: numbers known by name only.")


@click.command()
@connection_options(shards=True)
@config_option
@history_option
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@guesses_option
@click.option("--report", metavar="FILE", help="Write a new .html or .md file instead.")
@timeout_option
def command(
    given: ConnectionOptions, config: Path | None, no_history: bool, wants_json: bool, guesses: bool,
    report: str | None, seconds: float,
) -> int:  # fmt: skip
    """List all counters: value, share used, rate, and when each runs out.

    Exit 3 if some collections could not be searched: there may be more counters.
    """
    from tallyglass.counters.check_line import incomplete
    from tallyglass.report.write import check_report, write_report

    path = absolute_path(report) if report else None
    if path:
        check_report(path)
    snapshot = look_once(given, config, seconds, history=not no_history)
    if snapshot.discovering:
        looked = f"{snapshot.collections_looked:,} of {snapshot.collections_seen:,} collections"
        warn(f"only {looked} were searched before the timeout; there may be more counters. Try a longer --timeout.")
    for trouble in snapshot.troubles:
        warn(f"{trouble.ns}: {trouble.title} {trouble.advice}".rstrip())
    for one in snapshot.missing:
        warn(f"{one.ns} {one.id}: known, and now {one.absence}.")
    listed = [counter for counter in snapshot.counters if guesses or counter.may_warn]
    unsure = len(snapshot.counters) - len(listed)
    if path:
        from tallyglass_tui.cli.counters_report import document_of

        write_report(path, document_of(replace(snapshot, counters=tuple(listed)), target_of(given).label))
        print_text(f"Written to {path}")
    elif wants_json:
        write_json(counter_facts(counter) for counter in (snapshot.counters if guesses else listed))
    elif listed:
        print_text(as_table(replace(snapshot, counters=tuple(listed))))
    else:
        warn(f"no counter was found in {snapshot.collections_seen:,} collections.")
    if unsure and not wants_json:
        warn(f"{unsure:,} number{'s' * (unsure > 1)} may be counters by name only; --guesses lists them.")
    return UNKNOWN if incomplete(snapshot) else OK


def look_once(given: ConnectionOptions, config: Path | None, seconds: float, *, history: bool) -> CountersSnapshot:
    """One snapshot with forecasts of the selected deployment.

    Raises PrivilegeError or DeploymentError if no collection is seen at all, since "no counters" would be wrong then.
    Raises InputError if a rule of the configuration matches nothing.
    """
    from tallyglass.counters.follow.watch import look
    from tallyglass.doctor import why_nothing
    from tallyglass.mongo.driver_errors import NOT_PRIMARY_OR_SECONDARY
    from tallyglass_tui.terminal.interpreter import GarbageCollection

    settings = replace(
        watch_settings(given, config, history=history),
        search_seconds=seconds * SEARCH_SHARE,
        look_seconds=seconds * _LOOK_SHARE,
        garbage=GarbageCollection(),
    )

    async def look_or_say_why(gateway: Gateway) -> CountersSnapshot:
        try:
            snapshot = await look(gateway, settings)
        except ReadError as error:
            if error.code != NOT_PRIMARY_OR_SECONDARY:
                raise
        else:
            if snapshot.counters or snapshot.collections_seen:
                return snapshot
        raise await why_nothing(gateway)

    snapshot = ask(given, look_or_say_why, seconds)
    if snapshot.unmatched:
        more = f" ({len(snapshot.unmatched) - 1} more like it)" if len(snapshot.unmatched) > 1 else ""
        raise InputError(
            f"The configuration does not match this deployment: {snapshot.unmatched[0]}{more}",
            "Correct or remove it: a rule without effect would hide a counter.",
        )
    return snapshot


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


def as_table(snapshot: CountersSnapshot) -> str:
    """The counters as a table with its header."""
    from tallyglass_tui.format import count, flags, rate, share, time_left

    def row(counter: CounterView, indent: str = "") -> tuple[str, ...]:
        return (
            f"{indent}{counter.ns}",
            counter.id,
            count(counter.value),
            share(counter.used),
            rate(counter.rate),
            time_left(counter.forecast, snapshot.at),
            ", ".join(flags(counter, snapshot.at)),
        )

    rows: list[tuple[str, ...]] = [("NAMESPACE", "ID", "VALUE", "USED", "RATE", "LEFT", "FLAGS")]
    for counter in snapshot.counters:
        rows.append(row(counter))
        rows += [row(member, "  ") for member in (counter.members.worst[:_SHOWN_MEMBERS] if counter.members else ())]
    return table(rows, right=frozenset({2, 3, 4}))


def counter_facts(counter: CounterView) -> dict[str, Any]:
    """One counter as a JSON object. ``exact`` repeats a value as a string if JSON readers may round it."""
    forecast, crossing = counter.forecast, counter.crossing
    large = isinstance(counter.value, int) and abs(counter.value) > _JSON_EXACT
    return {
        "ns": counter.ns,
        "id": counter.id,
        "field": counter.field,
        "shape": counter.shape,
        "value": counter.value,
        **({"exact": str(counter.value)} if large else {}),
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
        "naive": _day(forecast.naive),
        "far": forecast.far,
        "note": forecast.note,
        "history_seconds": forecast.history_seconds,
        "steps": forecast.steps,
        "drift": counter.drift,
        "target": counter.target,
        "not_compared": counter.odd_ids,
        "repair": counter.repair,
        "flags": list(counter.flags),
        "acknowledged": list(counter.acknowledged),
        "grade": counter.grade,
        "evidence": counter.evidence,
        "step": counter.step,
        "cycles": counter.cycles,
        "rewound_at": _day(counter.rewound_at),
        "crossing": None
        if crossing is None
        else {
            "used": counter.crossing_used,
            "p10": _day(crossing.early),
            "p50": _day(crossing.likely),
            "p90": _day(crossing.late),
            "naive": _day(crossing.naive),
        },
        **({"members": _members(counter.members)} if counter.members else {}),
    }


def _members(members: Members) -> dict[str, Any]:
    return {"count": members.count, "worst": [counter_facts(member) for member in members.worst]}


def _day(moment: datetime | None) -> str | None:
    return iso(moment) if moment else None
