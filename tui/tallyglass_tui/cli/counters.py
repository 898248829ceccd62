"""``tallyglass counters``: one look at all counters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.paths import absolute_path
from tallyglass_tui.cli.counter_facts import counter_facts
from tallyglass_tui.cli.counter_look import config_option, guesses_option, history_option, look_once
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN, warn
from tallyglass_tui.cli.headless import print_text, table, timeout_option, write_json
from tallyglass_tui.cli.options import PATH, ConnectionOptions, connection_options, json_option, target_of

if TYPE_CHECKING:
    from tallyglass.counters.snapshot import CountersSnapshot, CounterView

_SHOWN_MEMBERS = 5  # of a group, the worst first: it does not push other counters off a terminal of 24 lines


@click.command()
@connection_options(shards=True)
@config_option
@history_option
@json_option
@guesses_option
@click.option("--report", type=PATH, metavar="FILE", help="Write a new .html or .md file instead.")
@timeout_option
def command(
    given: ConnectionOptions, config: Path | None, no_history: bool, wants_json: bool, guesses: bool,
    report: Path | None, seconds: float,
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
        warn(trouble.text)
    for one in snapshot.missing:
        warn(f"{one.ns} {one.id}: known, and now {one.absence}.")
    listed = [counter for counter in snapshot.counters if guesses or counter.may_warn]
    unsure = len(snapshot.counters) - len(listed)
    if path:
        from tallyglass_tui.cli.counters_report import document_of

        write_report(path, document_of(replace(snapshot, counters=tuple(listed)), target_of(given).label))
        print_text(f"Written to {path}")
    elif wants_json:
        write_json(counter_facts(counter) for counter in listed)
    elif listed:
        print_text(as_table(replace(snapshot, counters=tuple(listed))))
    else:
        warn(f"no counter was found in {snapshot.collections_seen:,} collections.")
    if unsure and not wants_json:
        warn(f"{unsure:,} number{'s' * (unsure > 1)} may be counters by name only; --guesses lists them.")
    return UNKNOWN if incomplete(snapshot) else OK


def as_table(snapshot: CountersSnapshot) -> str:
    """The counters as a table with its header."""
    from tallyglass_tui.format import ENDS, count, flags, rate, share, time_left

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

    rows: list[tuple[str, ...]] = [("NAMESPACE", "ID", "VALUE", "USED", "RATE", ENDS.upper(), "FLAGS")]
    for counter in snapshot.counters:
        rows.append(row(counter))
        rows += [row(member, "  ") for member in (counter.members.worst[:_SHOWN_MEMBERS] if counter.members else ())]
    return table(rows, right=frozenset({2, 3, 4}))
