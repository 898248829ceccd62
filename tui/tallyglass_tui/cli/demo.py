"""``tallyglass demo``: an embedded MongoDB with a workload, to try everything."""

from __future__ import annotations

import sys

import click

from tallyglass.errors import InputError
from tallyglass_tui.cli.dashboard import open_dashboard, why_no_terminal
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.options import Number
from tallyglass_tui.cli.until_signal import EndSignal


@click.command("demo")
@click.option("--headless", is_flag=True, help="Print the URI and run the workload until a signal.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Listen on this port; default: a free one.")
@click.option("--seconds", type=Number(min=0), metavar="N", help="Stop after N seconds (--headless).")
@click.option("--mongod", metavar="PATH", help="Run this mongod; default: one that is found.")
def command(headless: bool, port: int | None, seconds: float | None, mongod: str | None) -> int:
    """Start an embedded replica set with a workload and open the dashboard on it.

    Without a terminal, print a report instead. Everything is removed at the end.
    """
    if headless:
        return _headless(port, seconds, mongod)
    if seconds is not None:
        raise InputError("--seconds needs --headless.", "q quits the dashboard.")
    from tallyglass.demo.programs import put_on_path

    put_on_path(mongod)
    if why_no_terminal():
        from tallyglass_tui.cli.demo_report import report

        return report(port, mongod)
    return _dashboard(port, mongod)


def _headless(port: int | None, seconds: float | None, mongod: str | None) -> int:
    end = EndSignal()
    from tallyglass.demo.session import Demo

    with Demo(port=port, mongod=mongod) as demo:
        print(demo.uri, flush=True)
        print_message(f"a backup from before the workload is in {demo.backup}; Ctrl-C stops and removes everything.")
        end.wait(seconds)
        if demo.failure:
            print_message(f"the workload stopped early: {type(demo.failure).__name__}.")
            return 1
    return 0


def _dashboard(port: int | None, mongod: str | None) -> int:
    from tallyglass.connection.target import Target
    from tallyglass.demo.session import Demo

    sys.stderr.write("Starting an embedded MongoDB with a workload and a backup...\n")
    sys.stderr.flush()
    with Demo(port=port, mongod=mongod) as demo:
        return open_dashboard(Target.parse(demo.uri), demo.backup, label="demo")
