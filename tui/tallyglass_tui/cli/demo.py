"""``tallyglass demo``: a real MongoDB of its own with a lively workload, to try everything on."""

from __future__ import annotations

import select
import signal
import socket
import sys

import click

from tallyglass.errors import InputError
from tallyglass_tui.cli.dashboard import open_dashboard, why_no_terminal
from tallyglass_tui.cli.outermost import complain

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("demo")
@click.option("--headless", is_flag=True, help="Print the URI and keep the workload going, until a signal.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Listen on this port instead of a free one.")
@click.option("--seconds", type=click.FloatRange(min=0), metavar="N", help="With --headless: end after this time.")
@click.option("--mongod", metavar="PATH", help="The mongod to run; else $TALLYGLASS_MONGOD, PATH, the demo extra.")
def command(headless: bool, port: int | None, seconds: float | None, mongod: str | None) -> int:
    """Start an embedded replica set with a workload and open the dashboard on it.

    Without a terminal, print a report of the four jobs instead. Everything is removed at the end.
    """
    if headless:
        return _headless(port, seconds, mongod)
    if seconds is not None:
        raise InputError("--seconds goes with --headless.", "The dashboard ends with q.")
    if why_no_terminal():
        from tallyglass_tui.cli.demo_report import report

        return report(port, mongod)
    return _dashboard(port, mongod)


def _headless(port: int | None, seconds: float | None, mongod: str | None) -> int:
    # A signal that comes just before a wait on a lock does not end it; on a socket that the signal writes to, it does.
    hears, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.fileno())
    for number in _END_SIGNALS:
        signal.signal(number, lambda *_: None)
    from tallyglass.demo.session import Demo

    with Demo(port=port, mongod=mongod) as demo:
        print(demo.uri, flush=True)
        complain(f"a backup from before the workload is in {demo.backup}; Ctrl-C ends and removes everything.")
        select.select([hears], [], [], seconds)
        if demo.failure:
            complain(f"the workload stopped early: {type(demo.failure).__name__}.")
            return 1
    return 0


def _dashboard(port: int | None, mongod: str | None) -> int:
    from tallyglass.connection.target import Target
    from tallyglass.demo.session import Demo

    sys.stderr.write("Starting a MongoDB of its own, with a workload and a backup...\n")
    sys.stderr.flush()
    with Demo(port=port, mongod=mongod) as demo:
        return open_dashboard(Target.parse(demo.uri), demo.backup, label="demo")
