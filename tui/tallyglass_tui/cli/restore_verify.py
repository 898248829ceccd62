"""``tallyglass restore verify``: compare the spare with what the plan computed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError
from tallyglass.text import clean
from tallyglass_tui.cli.headless import as_json, ask, tell
from tallyglass_tui.cli.options import Given, connection_options, target_of
from tallyglass_tui.cli.restore_plan import CODES, WORDS, in_words, tell_doubts

if TYPE_CHECKING:
    from tallyglass.restore.model.plan import Plan

_PLAN_BYTES = 200_000_000
# Counting a large collection is one command that says nothing until it is done; a dead server is noticed by heartbeats.
PATIENT: dict[str, Any] = {"socketTimeoutMS": 3_700_000}


@click.command(short_help="Compare what was restored with the plan.")
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--spare", metavar="URI", required=True, help="The server that was restored onto.")
@click.option("--log", type=click.Path(path_type=Path), metavar="FILE", help="What mongorestore wrote.")
@click.option("--empty", is_flag=True, help="Only look whether the spare is empty and fit, before anything is written.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON document.")
@connection_options(uri=False, profile=False)
def verify(given: Given, plan_file: Path, spare: str, log: Path | None, empty: bool, wants_json: bool) -> int:
    """Compare the spare with PLAN, the JSON of restore plan, and say what mends the differences.

    Exit 0 as computed, 1 with warnings, 2 not as computed.
    """
    plan = read_plan(plan_file)
    from tallyglass.restore.spare.ready import ready
    from tallyglass.restore.spare.verify import verify as compare

    target = target_of(Given(uri=as_uri(spare), password_file=given.password_file, driver=given.driver))
    found = ask(
        target, lambda gateway: ready(plan, gateway) if empty else compare(plan, gateway, log=log), None, **PATIENT
    )
    if wants_json:
        tell_doubts(found.checks)
        checks = [
            {"id": check.id, "level": check.level, "title": clean(check.title), "advice": clean(check.advice)}
            for check in found.checks
        ]
        tell(as_json({"level": found.level, "checks": checks, "repair": found.repair}, indent=2))
    else:
        tell("\n".join(f"{WORDS[check.level]:<8} {in_words(check)}" for check in found.checks))
        if found.repair:
            tell("\nIn mongosh on the spare:\n" + "\n".join(found.repair))
    return CODES[found.level]


def as_uri(spare: str) -> str:
    """A URI for what may be given as host and port."""
    return spare if "://" in spare else f"mongodb://{spare}/?directConnection=true"


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises InputError."""
    from tallyglass.restore.model.document import from_json

    try:
        with path.expanduser().open(encoding="utf-8") as file:
            return from_json(file.read(_PLAN_BYTES))
    except UnicodeDecodeError:
        raise InputError(f"{clean(str(path))} is not a plan.") from None
    except OSError as error:
        raise InputError(f"The plan {clean(str(path))} cannot be read: {error.strerror}.") from None
