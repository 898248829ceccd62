"""``tallyglass export``: the counters as metrics over HTTP, refreshed periodically."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.counters.metrics import SequenceSelection, families
from tallyglass.errors import InputError, ReadError
from tallyglass.text import clean
from tallyglass_tui.cli.counter_look import config_option, history_option, watch_settings
from tallyglass_tui.cli.error_boundary import print_message, warn
from tallyglass_tui.cli.headless import ask
from tallyglass_tui.cli.metrics import load_client, registry_of, selection_options, without_match
from tallyglass_tui.cli.options import ConnectionOptions, Number, connection_options, seconds_option

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass.counters.snapshot import CountersSnapshot
    from tallyglass.mongo.gateway import Gateway

_DEFAULT_LISTEN = "127.0.0.1:9867"
_PORT_DIGITS = 5
"""Digits of the largest port. Python reads no number of thousands of them."""


def _address(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or len(port) > _PORT_DIGITS or int(port) > 65_535:
        raise click.BadParameter("Write HOST:PORT, such as 127.0.0.1:9867.", ctx, parameter)
    return host.strip("[]") or "127.0.0.1", int(port)


@click.command()
@connection_options(shards=True)
@config_option
@history_option
@selection_options
@click.option(
    "--listen", callback=_address, default=_DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT", help="Listen here."
)
@click.option(
    "--every",
    type=Number(min=1),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Read the counters this often.",
)
@seconds_option
def command(
    given: ConnectionOptions, config: Path | None, no_history: bool, most: int, patterns: tuple[str, ...],
    listen: tuple[str, int], every: float, seconds: float | None,
) -> None:  # fmt: skip
    """Serve the counters as metrics on http://HOST:PORT/metrics.

    As OpenMetrics or in the text format of Prometheus, whichever is asked for.
    """
    from dataclasses import replace

    load_client()
    settings = replace(watch_settings(given, config, history=not no_history), refresh_seconds=every)
    selection = SequenceSelection(patterns, most)
    latest: deque[CountersSnapshot] = deque(maxlen=1)
    server, thread = _serve(listen, registry_of(lambda: families(latest[0], selection) if latest else ()))
    print_message(f"Serving {url_of(*server.server_address[:2])}; press Ctrl-C to stop.")
    try:
        ask(given, lambda gateway: _follow(gateway, settings, patterns, latest, seconds))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def url_of(host: str, port: int) -> str:
    """Where the metrics of a server that listens there can be opened; an address of IPv6 needs brackets."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/metrics"


def _serve(listen: tuple[str, int], registry: CollectorRegistry) -> tuple[Any, Any]:
    from prometheus_client import start_http_server

    host, port = listen
    try:
        return start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise InputError(
            f"Cannot listen on {clean(host)}:{port}: {error.strerror}.", "Choose another --listen HOST:PORT."
        ) from error


async def _follow(
    gateway: Gateway,
    settings: WatchSettings,
    patterns: Sequence[str],
    latest: deque[CountersSnapshot],
    seconds: float | None,
) -> None:
    """Replace the latest snapshot by each new one; one repeated during an outage keeps its time. Raises ReadError if no
    server has answered within the time."""
    from tallyglass.counters.follow.watch import watch
    from tallyglass.mongo.gateway import closing

    said = ""
    unmatched: set[str] = set()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), closing(watch(gateway, settings)) as snapshots:
            async for snapshot in snapshots:
                latest.append(snapshot)
                trouble = snapshot.troubles[0].text if snapshot.troubles and not snapshot.collections_seen else ""
                if trouble not in ("", said):
                    warn(trouble)
                said = trouble
                found = [f"The configuration does not match this deployment: {one}" for one in snapshot.unmatched]
                found += without_match(snapshot, patterns) if snapshot.collections_seen else ()
                for sentence in found:
                    if sentence not in unmatched:
                        warn(sentence)
                unmatched.update(found)
    if not latest or said:
        raise ReadError("No counters could be read, so none were served.")
