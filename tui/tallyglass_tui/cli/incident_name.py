"""How a command line names one incident: by its number in the list, or by its point, which no later entry changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tallyglass.errors import InputError
from tallyglass.moment import Ts, parse_ts
from tallyglass.text import clean
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.incident_facts import counted
from tallyglass_tui.cli.question import confirmed

if TYPE_CHECKING:
    from tallyglass.oplog.snapshot import Incident, IncidentScan

_DIGITS = 18
"""Digits of a number in a list. Python reads no number of thousands of them."""


def incident_name(text: str) -> int | Ts:
    """A number of ``tallyglass incidents``, or the timestamp in its last column. Raises InputError."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) > 0:
        return int(text)
    try:
        return parse_ts(text)
    except InputError:
        raise InputError(
            f"'{clean(text, 60)}' names no incident.", "Give its number in tallyglass incidents, or its last column."
        ) from None


def announce(incident: Incident, name: int | Ts, since: Ts | None) -> None:
    """Say on stderr what was named."""
    print_message(identified(incident, name, since))


async def agreed(incident: Incident, name: int | Ts, since: Ts | None) -> None:
    """Say what was named, and ask the person at a terminal who gave a number whether that is the one. Raises InputError
    if it is not."""
    announce(incident, name, since)
    if isinstance(name, Ts) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not await confirmed("Is this the one you mean?", default=False):
        raise InputError("Nothing was planned.", "In tallyglass incidents, take the last column of the one you mean.")


def identified(incident: Incident, name: int | Ts, since: Ts | None) -> str:
    """What was named in a list that begins at ``since``, in one line, and the name that stays if it was a number."""
    size = f", {counted(incident)}" if incident.documents is not None else ""
    line = f"incident {name} is {clean(incident.described, 300)}{size}."
    if isinstance(name, Ts):
        return line
    # What is routine, and where an act begins, depends on how far back the list goes.
    options = f"--incident {incident.limit}" + (f" --since {since}" if since else "")
    return f"{line} Numbers may change as the oplog grows; {options} names this one."


def chosen(scan: IncidentScan, name: int | Ts) -> Incident:
    """The incident of a scan that was named. Raises InputError unless there is exactly one."""
    numbered = [one for one in scan.incidents if one.number]
    found = [one for one in numbered if name in (one.number, one.limit)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{len(found)} incidents begin at {name}.", "Give the number of one.")
    raise InputError(
        f"There is no incident {name}.",
        f"There are {len(numbered)}: see tallyglass incidents. One that was listed with --since, --log or --evidence "
        "may need the same option here.",
    )
