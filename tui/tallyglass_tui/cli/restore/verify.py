"""``tallyglass restore verify``: compare the spare with what the plan computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass_tui.cli.headless import as_json, ask, print_text
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, target_of
from tallyglass_tui.cli.restore.plan import CODES, WORDS, in_words, tell_doubts

if TYPE_CHECKING:
    from tallyglass.connection.target import Target
    from tallyglass.restore.model.plan import Plan

_PLAN_BYTES = 200_000_000
_ANSWER_SECONDS = 30.0
"""A server that works may be slow to answer."""
# Counting a large collection is one command without an answer for minutes; heartbeats notice a dead server.
PATIENT: dict[str, Any] = {"socketTimeoutMS": 3_700_000}


@click.command(short_help="Compare what was restored with the plan.")
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "--spare", metavar="URI", required=True, help="The server that was restored onto: a URI, or a .yml file with one."
)
@click.option("--log", type=click.Path(path_type=Path), metavar="FILE", help="Read the log of mongorestore.")
@click.option(
    "--empty", is_flag=True, help="Only check that the spare is empty and fits the plan, before anything is written."
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@connection_options(uri=False, profile=False)
def verify(
    given: ConnectionOptions, plan_file: Path, spare: str, log: Path | None, empty: bool, wants_json: bool
) -> int:
    """Compare the spare with PLAN, the JSON of restore plan, and say what mends the differences.

    Exit 0 as computed, 1 with warnings, 2 not as computed.
    """
    plan = read_plan(plan_file)
    from tallyglass.restore.spare.ready import ready
    from tallyglass.restore.spare.verify import verify as compare

    target = server(spare, given)
    found = ask(
        target, lambda gateway: ready(plan, gateway) if empty else compare(plan, gateway, log=log), None, **PATIENT
    )
    if wants_json:
        tell_doubts(found.checks)
        checks = [
            {"id": check.id, "level": check.level, "title": clean(check.title), "advice": clean(check.advice)}
            for check in found.checks
        ]
        print_text(as_json({"level": found.level, "checks": checks, "repair": found.repair}, indent=2))
    else:
        print_text("\n".join(f"{WORDS[check.level]:<8} {in_words(check)}" for check in found.checks))
        if found.repair:
            print_text("\nIn mongosh on the spare:\n" + "\n".join(found.repair))
    return CODES[found.level]


@click.command(hidden=True)
@click.argument("named", metavar="SERVER")
@click.option("--app", required=True, help="The name that the program gives to the server.")
@connection_options(uri=False, profile=False)
def working(given: ConnectionOptions, named: str, app: str) -> int:
    """Say whether SERVER runs an operation of a program: exit 0 if it does, 1 if not."""
    from tallyglass.restore.spare.working import works_for

    return 0 if ask(server(named, given), lambda gateway: works_for(gateway, app), _ANSWER_SECONDS) else 1


def server(named: str, given: ConnectionOptions) -> Target:
    """The server of a URI, of HOST:PORT, or of a configuration file of the database tools (``*.yml``), whose password
    is taken where it has one. ``given`` has a password file and a driver. Raises InputError."""
    if not named.endswith(".yml"):
        uri = named if "://" in named else f"mongodb://{named}/?directConnection=true"
        return target_of(replace(given, uri=uri))
    from tallyglass.connection.secret import Secret
    from tallyglass.connection.target import Target
    from tallyglass.restore.tools.files import read_config

    try:
        uri, password = read_config(Path(named).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{clean(named)} cannot be read: {error.strerror}.", "Run it in the plan's folder.") from None
    except ValueError:
        raise InputError(f"{clean(named)} is not a configuration file of the database tools.") from None
    if password and not given.password_file:
        return Target.parse(uri).with_password(Secret(password))
    return target_of(replace(given, uri=uri))


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises InputError."""
    from tallyglass.restore.model.document import from_json

    try:
        with absolute_path(path).open(encoding="utf-8") as file:
            return from_json(file.read(_PLAN_BYTES))
    except UnicodeDecodeError:
        raise InputError(f"{clean(str(path))} is not a plan.") from None
    except OSError as error:
        raise InputError(f"The plan {clean(str(path))} cannot be read: {error.strerror}.") from None
