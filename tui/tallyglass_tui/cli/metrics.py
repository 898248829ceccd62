"""``tallyglass metrics``: all counters once, in the text format of Prometheus, for the textfile collector."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.counters.metrics import DEFAULT_MOST, MetricFamily, SequenceSelection, families
from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass.whole_file import write_whole
from tallyglass_tui.cli.counter_look import config_option, history_option, look_once
from tallyglass_tui.cli.headless import timeout_option
from tallyglass_tui.cli.monitoring import beside_the_answer
from tallyglass_tui.cli.options import PATH, Command, ConnectionOptions, connection_options

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector, CollectorRegistry

    from tallyglass.counters.snapshot import CountersSnapshot


match_option = click.option(
    "--match", "patterns", multiple=True, metavar="PATTERN", help='Select by "namespace id", with * and ?; repeatable.'
)


def selection_options(command: Command) -> Command:
    """``--top`` and ``--match``: which sequences are exported."""
    top_option = click.option(
        "--top", "most", type=click.IntRange(min=1), default=DEFAULT_MOST, show_default=True, metavar="N",
        help="Export the N most urgent.",
    )  # fmt: skip
    return match_option(top_option(command))


@click.command()
@connection_options(shards=True)
@config_option
@history_option
@selection_options
@click.option("--out", type=PATH, metavar="FILE", help="Replace this file atomically.")
@timeout_option
def command(
    given: ConnectionOptions, config: Path | None, no_history: bool, most: int, patterns: tuple[str, ...],
    out: Path | None, seconds: float,
) -> None:  # fmt: skip
    """Write the counters as metrics for node_exporter, or to stdout."""
    load_client()
    snapshot = look_once(given, config, seconds, history=not no_history)
    text = as_text(families(snapshot, checked_selection(snapshot, patterns, most)))
    if out is None:
        sys.stdout.write(text)
    else:
        write_whole(absolute_path(out), text, 0o644)


def checked_selection(snapshot: CountersSnapshot, patterns: tuple[str, ...], most: int) -> SequenceSelection:
    """The selection of sequences. Raises InputError for a pattern that matches none."""
    for sentence in without_match(snapshot, patterns):
        raise InputError(sentence, "tallyglass counters lists them.")
    return SequenceSelection(patterns, most)


def without_match(snapshot: CountersSnapshot, patterns: Sequence[str]) -> Iterator[str]:
    """A sentence for each pattern that selects no sequence; none before all collections were searched."""
    for pattern in patterns if not snapshot.discovering else ():
        if not SequenceSelection((pattern,)).select(snapshot)[0]:
            yield no_match(pattern)


def no_match(pattern: str) -> str:
    """The sentence for a pattern that selects nothing."""
    return f"No counter matches --match {clean(pattern, 60)!r}."


def as_text(found: Iterable[MetricFamily]) -> str:
    """Metrics in the text format of Prometheus."""
    from prometheus_client import generate_latest

    text: bytes = generate_latest(registry_of(lambda: found))
    return text.decode()


def write_beside(path: Path, found: Iterable[MetricFamily]) -> None:
    """Write metrics beside an answer; print a warning where they cannot be written."""
    text = as_text(found)
    beside_the_answer(lambda: write_whole(path, text, 0o644))


def registry_of(read: Callable[[], Iterable[MetricFamily]]) -> CollectorRegistry:
    """A registry that reads the metrics each time it is collected."""
    from prometheus_client.registry import Collector, CollectorRegistry

    class Gauges(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            return _gauges(read())

    registry = CollectorRegistry(auto_describe=False)
    collector: Collector = Gauges()
    registry.register(collector)
    return registry


def _gauges(found: Iterable[MetricFamily]) -> Iterator[GaugeMetricFamily]:
    from prometheus_client.core import GaugeMetricFamily

    for family in found:
        metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
        for labels, value in family.rows:
            metric.add_metric(labels, value)
        yield metric


def load_client() -> None:
    """Raise InputError if the extra ``metrics`` is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise InputError("Metrics need the package prometheus-client.", "pip install 'tallyglass[metrics]'") from None
