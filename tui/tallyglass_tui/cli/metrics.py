"""``tallyglass metrics``: all counters once, in the text format of Prometheus, for the textfile collector."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.counters.metrics import DEFAULT_MOST, Choice, families
from tallyglass.errors import InputError
from tallyglass.text import clean
from tallyglass_tui.cli.counters import config_option, history_option, look_once
from tallyglass_tui.cli.headless import timeout_option
from tallyglass_tui.cli.options import Given, connection_options

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector, CollectorRegistry

    from tallyglass.counters.snapshot import CountersSnapshot


def choice_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--top`` and ``--match``: which sequences have series of their own."""
    command = click.option(
        "--top", "most", type=click.IntRange(min=1), default=DEFAULT_MOST, show_default=True, metavar="N",
        help="Series for so many sequences at most, the most urgent first.",
    )(command)  # fmt: skip
    return click.option(
        "--match", "patterns", multiple=True, metavar="PATTERN",
        help='Only sequences whose "namespace id" fits, with * and ?. May be given again.',
    )(command)  # fmt: skip


@click.command()
@connection_options()
@config_option
@history_option
@choice_options
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write there at once and whole.")
@timeout_option
def command(
    given: Given, config: Path | None, no_history: bool, most: int, patterns: tuple[str, ...], out: Path | None,
    seconds: float,
) -> None:  # fmt: skip
    """Counters as metrics: a text file for the collector of node_exporter, or stdout."""
    load_client()
    snapshot = look_once(given, config, seconds, history=not no_history)
    text = exposition(snapshot, checked_choice(snapshot, patterns, most))
    if out is None:
        sys.stdout.write(text)
    else:
        _write_whole(out, text)


def checked_choice(snapshot: CountersSnapshot, patterns: tuple[str, ...], most: int) -> Choice:
    """The choice of sequences. Raises InputError for a pattern that fits none of them."""
    for pattern in patterns:
        if not snapshot.discovering and not Choice((pattern,)).of(snapshot)[0]:
            raise InputError(f"No counter fits --match {clean(pattern, 60)!r}.", "tallyglass counters lists them.")
    return Choice(patterns, most)


def exposition(snapshot: CountersSnapshot, choice: Choice) -> str:
    """One look in the text format of Prometheus."""
    from prometheus_client import generate_latest

    text: bytes = generate_latest(registry_of(lambda: (snapshot, choice)))
    return text.decode()


def registry_of(latest: Callable[[], tuple[CountersSnapshot, Choice] | None]) -> CollectorRegistry:
    """A registry that makes metrics of the latest look whenever it is asked."""
    from prometheus_client.registry import Collector, CollectorRegistry

    class Counters(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            return _collect(latest())

    registry = CollectorRegistry(auto_describe=False)
    collector: Collector = Counters()
    registry.register(collector)
    return registry


def _collect(look: tuple[CountersSnapshot, Choice] | None) -> Iterator[GaugeMetricFamily]:
    from prometheus_client.core import GaugeMetricFamily

    for family in families(*look) if look else ():
        metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
        for labels, value in family.rows:
            metric.add_metric(labels, value)
        yield metric


def load_client() -> None:
    """Raise InputError where the extra ``metrics`` is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise InputError("Metrics need the package prometheus-client.", "pip install 'tallyglass[metrics]'") from None


def _write_whole(path: Path, text: str) -> None:
    """Replace a file at once: a collector must never read half of it."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be written: {error.strerror}.") from error
