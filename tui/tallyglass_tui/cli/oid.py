"""``tallyglass oid``: needs no server, and imports neither driver nor screen."""

from __future__ import annotations

import io
import sys
from datetime import timedelta

import click

from tallyglass.errors import InputError
from tallyglass.moment import FORMS, iso
from tallyglass.objectid import ObjectIdParts, decode, find_all, first_of, last_of, range_filter
from tallyglass_tui.cli.error_boundary import warn
from tallyglass_tui.cli.headless import as_json
from tallyglass_tui.cli.options import json_option, moment_of

_STDIN_CHARACTERS = 16_000_000  # the size of the largest document


@click.command(epilog=f"TIME: {FORMS}.")
@click.argument("hex_texts", metavar="HEX...", nargs=-1)
@click.option("--at", metavar="TIME", help="Print the first ObjectId of a moment.")
@click.option("--until", metavar="TIME", help="Print the filter for the ids from --at until TIME.")
@json_option
def command(hex_texts: tuple[str, ...], at: str | None, until: str | None, wants_json: bool) -> None:
    """Decode ObjectIds: when each was created, by which process, and its counter.

    HEX may be 24 digits, ObjectId("...") or {"$oid": "..."}; - reads any text from stdin and finds the ids in it.
    """
    if at is not None:
        if hex_texts:
            raise InputError("--at and ObjectIds cannot be combined.", "Leave one of them out.")
        _moment(at, until, wants_json)
    elif until is not None:
        raise InputError("--until needs --at.")
    else:
        _decoded(hex_texts, wants_json)


def _moment(at: str, until: str | None, wants_json: bool) -> None:
    start = moment_of("--at", at)
    end = moment_of("--until", until) if until is not None else None
    if wants_json:
        facts = {
            "time": start,
            "first": first_of(start),
            "last": last_of(end - timedelta(microseconds=1) if end else start),
        }
        if end is not None:
            facts |= {"until": end, "filter": range_filter(start, end)}
        print(as_json(facts))
    else:
        print(range_filter(start, end) if end is not None else first_of(start))


def _decoded(hex_texts: tuple[str, ...], wants_json: bool) -> None:
    found = [decode(text) for text in hex_texts if text != "-"]
    if "-" in hex_texts or not hex_texts:
        given = "" if not hex_texts and sys.stdin.isatty() else _stdin()
        # Nobody types on an empty stdin: a script or a service that names no id has one.
        if not hex_texts and not given.strip():
            raise InputError("No ObjectId was given.", "Give one, - for stdin, or --at TIME.")
        found += [decode(text) for text in find_all(given)]
        if not found:
            raise InputError("There is no ObjectId in that text.", "An ObjectId is 24 hexadecimal digits.")
    if wants_json:
        print(as_json([_facts(parts) for parts in found], indent=2))
        return
    for parts in found:
        print(
            f"{parts.hex}  {iso(parts.time)}  random {parts.random_hex}"
            f" (before 2018: machine {parts.machine:06x}, pid {parts.pid})  counter {parts.counter}"
        )


def _stdin() -> str:
    """What is on stdin, in any encoding: an id is of ASCII."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    text = sys.stdin.read(_STDIN_CHARACTERS)
    if sys.stdin.read(1):
        warn(f"only the first {_STDIN_CHARACTERS:,} characters were read.")
    return text


def _facts(parts: ObjectIdParts) -> dict[str, object]:
    return {
        "hex": parts.hex,
        "time": parts.time,
        "random": parts.random_hex,
        "machine": parts.machine,
        "pid": parts.pid,
        "counter": parts.counter,
    }
