"""``tallyglass restore window``: from when to when every second can be restored, as a monitoring system asks it."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.moment import iso
from tallyglass.text import clean, plural
from tallyglass.typed_json import plain
from tallyglass_tui.cli.headless import as_json, ask, print_text, table
from tallyglass_tui.cli.monitoring import MonitoringPlugin, beside_the_answer, status_line
from tallyglass_tui.cli.options import PATH, ConnectionOptions, Number, connection_options, is_named, json_option
from tallyglass_tui.cli.restore.drill_made import checked_outputs
from tallyglass_tui.format import duration

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.catalogue.window import RecoverableWindow, Stretch
    from tallyglass.restore.drill.past_drills import LastDrill

_HEAD_ROOM_HOURS = 24.0
"""Default of --head-room: a night in which somebody can save the oplog."""
_MINUTE = 60.0  # seconds
_SHOWN = 5  # reasons in the line of a monitoring system, the worst first


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """Where backups and slices lie, and below how many hours of window and of head-room a warning is due."""

    backups: tuple[Path, ...]
    slices: tuple[Path, ...] = ()
    least: float = 0.0
    head_room: float = _HEAD_ROOM_HOURS


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """The window with the last drill, its state as an exit code, a sentence, perfdata, and the band of seconds in which
    a restore of the newest base may end."""

    window: RecoverableWindow
    drill: LastDrill | None
    status: int
    words: str
    perfdata: str
    band: tuple[float, float] | None = None


@click.command(cls=MonitoringPlugin, service="WINDOW")
@connection_options()
@click.option(
    "--backups",
    type=PATH,
    metavar="DIR",
    multiple=True,
    required=True,
    help="Read a folder of backups; may be repeated.",
)
@click.option(
    "--oplog", "slices", type=PATH, metavar="PATH", multiple=True, help="Read a saved oplog, or a folder of slices."
)
@click.option("--at-least", "least", type=Number(min=0), default=0.0, metavar="HOURS", help="Warn of a shorter window.")
@click.option(
    "--head-room",
    type=Number(min=0),
    default=_HEAD_ROOM_HOURS,
    metavar="HOURS",
    show_default=True,
    help="Warn of less beyond the slices.",
)
@click.option("--metrics", type=PATH, metavar="FILE", help="Write the window as metrics, too.")
@json_option
def window(
    given: ConnectionOptions,
    backups: tuple[Path, ...],
    slices: tuple[Path, ...],
    least: float,
    head_room: float,
    metrics: Path | None,
    wants_json: bool,
) -> int:
    """Prove from when to when every second can be restored.

    Reads every slice and every backup, those of PBM and wal-g too. Without a server, what is newer than the slices is
    not known. Exit 0 OK, 1 a hole, a damaged slice, a short window or head-room, 2 nothing can be restored, or not
    what is newest, or the newest backup cannot be proven, 3 unknown.
    """
    _, metrics = checked_outputs(None, metrics)
    found = answer(given, WindowOptions(backups, slices, least, head_room))
    if wants_json:
        print_text(as_json(_as_dict(found), indent=2))
    else:
        print_text(status_line("WINDOW", found.status, found.words, found.perfdata))
        from tallyglass_tui.cli.restore.time_line import picture

        print_text("\n".join(picture(found.window, *shutil.get_terminal_size((80, 24)))))
        print_text(table([("from", "to", ""), *_time_line(found.window)]))
    if metrics is not None:
        from tallyglass.restore.catalogue.window import families
        from tallyglass_tui.cli.metrics import write_beside

        write_beside(metrics, families(found.window, found.status))
    return found.status


def answer(given: ConnectionOptions, options: WindowOptions, seconds: float | None = None) -> WindowAnswer:
    """Find and judge the window, within ``seconds`` if they are given. Raises InputError, TimeoutError, and the errors
    of the gateway."""
    from tallyglass.deployment.identity import identify
    from tallyglass.restore.catalogue.window import find_window, judge
    from tallyglass.restore.drill.last_window import store_window, summary
    from tallyglass.restore.drill.past_drills import last_of, restore_seconds

    async def work(gateway: Gateway | None) -> tuple[RecoverableWindow, LastDrill | None, str]:
        async with asyncio.timeout(seconds):
            found = await find_window(options.backups, options.slices, gateway)
        if gateway is None:
            return found, None, ""
        return found, await last_of(gateway), await identify(gateway, await gateway.command("hello"))

    found, drill, deployment = ask(given, work) if is_named(given) else asyncio.run(work(None))
    status, reasons = judge(found, least_hours=options.least, head_room_hours=options.head_room)
    base = found.newest_base
    band = restore_seconds(base.backup.bytes, drill) if base is not None and base.backup is not None else None
    if deployment:
        why = reasons[: 1 if found.restorable else 2]  # that nothing can be restored needs its reason
        for_dashboard = summary(found, int(status), "; ".join(why), band)
        beside_the_answer(lambda: store_window(deployment, for_dashboard))
    takes = [may_take(*band)] if band and found.restorable else []
    shown = [clean(one.removesuffix("."), 300).replace("|", "/") for one in reasons[:_SHOWN]]
    more = [f"and {len(reasons) - _SHOWN} more"] if len(reasons) > _SHOWN else []
    words = "; ".join([*shown, *more, _span(found), *takes, *_last(drill)])
    values = {"window": f"{found.seconds}s", "holes": str(len(found.holes))}
    if found.hours_left is not None:
        values["head_room"] = f"{found.hours_left * 3600:.0f}s"
    perfdata = " ".join(f"{name}={value}" for name, value in values.items())
    return WindowAnswer(found, drill, int(status), words, perfdata, band)


def may_take(least: float, most: float) -> str:
    """The band of a restore in words. Its least is the speed of mongorestore alone: starting the spare and replaying
    take a part of a minute more."""
    low, high = (duration(one) if one >= _MINUTE else "less than a minute" for one in (least, most))
    return f"a restore may take {low}" + (f" to {high}" if low != high else "")


def _span(found: RecoverableWindow) -> str:
    if not found.restorable:
        return plural(len(found.bases), "backup")
    newest = found.restorable[-1]
    return (
        f"every second from {iso(newest.first.time)} to {iso(newest.last.time)} can be restored "
        f"({duration(found.seconds)})"
    )


def _last(drill: LastDrill | None) -> list[str]:
    if drill is None:
        return []
    if drill.made is None:
        return ["no drill yet"]
    took = f", took {duration(drill.rto_seconds)}" if drill.rto_seconds is not None else ""
    return [f"last drill {duration((datetime.now(UTC) - drill.made).total_seconds())} ago{took}"]


def _time_line(found: RecoverableWindow) -> list[tuple[str, str, str]]:
    """Every base, stretch of oplog and hole, and what can be restored, in the order of time."""
    rows: list[tuple[Stretch | None, str]] = [(one, "oplog") for one in found.oplog]
    rows += [(one, "restorable") for one in found.restorable] + [(one, "HOLE") for one in found.holes]
    lines = [(iso(one.first.time), iso(one.last.time), what) for one, what in rows if one is not None]
    for base in found.bases:
        start, end = (base.backup.start, base.end) if base.backup else (None, None)
        name = f"base {clean(base.path.name, 60)}" + (f": {clean(base.why, 200)}" if base.why else "")
        lines.append((iso(start.time) if start else "unknown", iso(end.time) if end else "unknown", name))
    return sorted(lines)


def _as_dict(found: WindowAnswer) -> dict[str, Any]:
    window, drill = found.window, found.drill
    return {
        "status": found.status,
        "reason": found.words,
        "restorable": plain(window.restorable),
        "holes": plain(window.holes),
        "oplog": plain(window.oplog),
        "bases": [
            {"path": clean(str(one.path), 300), "end": str(one.end) if one.end else None, "provable": one.provable,
             "why": clean(one.why)}
            for one in window.bases
        ],
        "seconds": window.seconds,
        "head_room_hours": window.hours_left,
        "last_drill": iso(drill.made) if drill and drill.made else None,
        "rto_seconds": drill.rto_seconds if drill else None,
        "restore_seconds": found.band,
    }  # fmt: skip
