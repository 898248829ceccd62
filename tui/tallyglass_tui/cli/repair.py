"""``tallyglass repair``: why a counter and its collection differ, and the command that moves the counter forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError
from tallyglass.text import shell_quote
from tallyglass_tui.cli.counter_look import (
    SEARCH_SHARE,
    config_option,
    history_option,
    refuse_unmatched,
    watch_settings,
)
from tallyglass_tui.cli.error_boundary import UNKNOWN, print_message, warn
from tallyglass_tui.cli.headless import ask, print_text, timeout_option, write_json
from tallyglass_tui.cli.metrics import match_option, no_match
from tallyglass_tui.cli.options import (
    ConnectionOptions,
    chosen_profile,
    connection_options,
    json_option,
    named_targets,
)

if TYPE_CHECKING:
    from tallyglass.counters.follow.differences import ComparedCounters, Difference
    from tallyglass.mongo.gateway import Gateway


@click.command()
@connection_options()
@config_option
@history_option
@match_option
@click.option("--all", "wants_all", is_flag=True, help="Include counters that agree with their collection.")
@json_option
@timeout_option
def command(
    given: ConnectionOptions, config: Path | None, no_history: bool, patterns: tuple[str, ...], wants_all: bool,
    wants_json: bool, seconds: float,
) -> int:  # fmt: skip
    """Show why counters and collections differ, and what mends them.

    The command that moves a counter forward is printed, not run. Exit 0 if no counter is behind, 1 if one is, 3 if that
    is unclear of one, which then has no command, or if some collections could not be read.
    """
    from tallyglass.counters.follow.differences import differences
    from tallyglass.doctor import why_nothing

    # How a counter moved decides, as in check: so the samples of earlier runs count too.
    settings = replace(watch_settings(given, config, history=not no_history), search_seconds=seconds * SEARCH_SHARE)

    async def compare_or_say_why(gateway: Gateway) -> ComparedCounters:
        found = await differences(gateway, settings, patterns)
        if not (found.collections_seen or found.unmatched):
            raise await why_nothing(gateway)
        return found

    compared = ask(given, compare_or_say_why, seconds)
    refuse_unmatched(compared.unmatched)
    rows, unknown, unread = compared.rows, compared.not_compared, compared.unread
    if unread:
        reasons = "; ".join(one.removesuffix(".") for one in unread)
        warn(f"Not all was read, so there may be more counters: {reasons}.")
    if compared.missed and not unread:
        raise InputError(no_match(compared.missed[0]), "tallyglass counters lists them.")
    listed = [row for row in rows if wants_all or patterns or row.may_collide]
    if wants_json:
        write_json(_facts(row) for row in listed)
    elif listed:
        again = _again(given, config, no_history=no_history)
        print_text("\n\n".join("\n".join(_lines(row, again)) for row in listed))
    elif rows:
        print_message(f"No counter is behind its collection ({len(rows):,} compared).")
    elif not unknown:
        print_message("No counter was found.")
    if unknown:
        warn(
            f"{unknown:,} counter{'s' * (unknown > 1)} could not be compared: without a known target collection "
            "(set target in --config), of blocks, with no whole number, with ids that could not be read, or "
            "in a row that stands for many (a pool, a group)."
        )
    return _status(compared)


def _status(compared: ComparedCounters) -> int:
    from tallyglass.counters.standing import Standing

    if any(row.behind for row in compared.rows):
        return 1
    unclear = any(row.standing is Standing.UNCLEAR for row in compared.rows)
    return UNKNOWN if unclear or compared.unread else 0


def _again(given: ConnectionOptions, config: Path | None, *, no_history: bool) -> str:
    """This command as it was called, without a password, to run it once more."""
    profile, (targets, password_file) = chosen_profile(given), named_targets(given)
    words = ["tallyglass", "repair", f"--profile={profile.name}" if profile else targets[0].uri]
    if password_file and not profile:
        words.append(f"--password-file={password_file}")
    if given.driver:
        words.append(f"--driver={given.driver}")
    if config:
        words.append(f"--config={config}")
    return " ".join([*map(shell_quote, words), *(["--no-history"] if no_history else [])])


def _lines(row: Difference, again: str) -> Iterator[str]:
    name = f"{row.counter.ns} {row.counter.id}"
    yield name
    yield f"  counter    {row.counter.value} ({row.counter.semantics.value} id; {row.issued} is the last handed out)"
    ids = f"largest {row.largest}, smallest {row.smallest}"
    yield f"  collection {row.counter.target}: {ids}, {row.documents:,} documents"
    yield f"  why        {row.why}"
    if row.gaps:
        gaps = ", ".join(str(gap.first) if gap.first == gap.last else f"{gap.first} to {gap.last}" for gap in row.gaps)
        yield f"  gaps       largest among the newest {row.looked_at:,} ids: {gaps}"
    if row.counter.repair:
        yield f"  run        {row.counter.repair}"
        yield f"  then       {again} --match {shell_quote(escape(name))} must exit with 0"


def _facts(row: Difference) -> dict[str, Any]:
    return {
        "ns": row.counter.ns,
        "id": row.counter.id,
        "value": row.counter.value,
        "issued": row.issued,
        "target": row.counter.target,
        "largest": row.largest,
        "smallest": row.smallest,
        "documents": row.documents,
        "missing": row.missing,
        "behind": row.behind,
        "standing": row.standing,
        "not_compared": row.counter.odd_ids,
        "why": row.why,
        "gaps": row.gaps,
        "looked_at": row.looked_at,
        "repair": row.counter.repair,
    }
