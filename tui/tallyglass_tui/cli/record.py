"""``tallyglass record FILE``: what the dashboard would show, kept while an incident is worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallyglass.paths import absolute_path
from tallyglass_tui.cli.error_boundary import OK, UNKNOWN, print_message, warn
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, seconds_option, target_of
from tallyglass_tui.cli.until_signal import EndSignal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallyglass.connection.target import Target
    from tallyglass_tui.shell.feed import Feeds
    from tallyglass_tui.shell.recording import Recorder


@click.command()
@click.argument("file", metavar="FILE")
@connection_options(shards=True)
@seconds_option
def command(file: str, given: ConnectionOptions, seconds: float | None) -> int:
    """Record counters, oplog and incidents to a new FILE, until Ctrl-C.

    tallyglass replay FILE shows them. Only you can read FILE. It holds what the screen shows: names, _ids and
    statements, no documents, no passwords; a day of a busy set fits. It ends once FILE or its disk is full. To record
    plans too: tallyglass URI --record FILE. Exit 3 if nothing was recorded, or something is missing.
    """
    target = target_of(given)
    path = absolute_path(file)
    end = EndSignal()
    recorder = recorder_of(path, target, "", end.end)
    feeds = follow_pages(target, recorder)
    print_message(f"Recording to {path}; press Ctrl-C to stop.")
    try:
        end.wait(seconds)
    finally:
        feeds.close()
        recorder.close()
    if feeds.fatal:
        raise feeds.fatal
    for trouble in feeds.troubles:
        warn(trouble.line)
    print_result(recorder, path)
    return UNKNOWN if feeds.troubles or recorder.lacks or not recorder.holds_values else OK


def recorder_of(path: Path, target: Target, label: str, when_ended: Callable[[], None] = lambda: None) -> Recorder:
    """A recorder of what every page shows. Raises InputError if the file exists, or cannot be created."""
    from tallyglass_tui.recorded import KINDS
    from tallyglass_tui.shell.recording import Recorder

    return Recorder(path, label or target.label, KINDS, when_ended)


def print_result(recorder: Recorder, path: Path) -> None:
    """Print where the recording is, and what it lacks."""
    for reason in recorder.lacks:
        warn(reason)
    if recorder.holds_values:
        print_message(f"Recorded to {path}: tallyglass replay shows it.")
    else:
        print_message(f"{path} holds nothing to replay.")


def follow_pages(target: Target, recorder: Recorder) -> Feeds:
    """Run the feeds that the pages would start."""
    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass.counters.follow.watch import watch
    from tallyglass.oplog.filter.query import OplogFilter
    from tallyglass.restore.drill.past_drills import follow_last
    from tallyglass_tui.oplog import reads
    from tallyglass_tui.shell.deployment import watch_deployment
    from tallyglass_tui.shell.feed import Feeds, open_target
    from tallyglass_tui.shell.incidents import share_incidents

    feeds = Feeds(lambda: open_target(target), recorder)
    feeds.start()
    feeds.follow("deployment", watch_deployment)
    feeds.follow("counters", lambda gateway: watch(gateway, WatchSettings()))
    place = reads.Place()
    feeds.follow("oplog", lambda gateway: reads.follow(gateway, OplogFilter(), place), merge=reads.merge)
    feeds.follow("last drill", follow_last)
    share_incidents(feeds)
    return feeds
