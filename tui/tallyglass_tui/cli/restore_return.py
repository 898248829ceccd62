"""``tallyglass restore recover`` and ``outcome``: run by the script before and after it writes to the live set."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from tallyglass.errors import InputError
from tallyglass.text import clean
from tallyglass_tui.cli.headless import as_json, ask, print_text, table
from tallyglass_tui.cli.options import ConnectionOptions
from tallyglass_tui.cli.restore_verify import PATIENT, read_plan, server

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.impact.outcome import NamespaceOutcome
    from tallyglass.restore.model.plan import Plan

Answer = TypeVar("Answer")

SHOWN = 5
"""Ids that are shown of each namespace; the file has all."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """The live set, where the documents come from (a spare, or a folder of saved images), and the password files."""

    source: str
    spare: str
    images: Path | None
    source_password_file: str
    spare_password_file: str

    @property
    def copy(self) -> str | Path:
        """Where the documents come from. Raises InputError unless exactly one place is named."""
        if bool(self.spare) == bool(self.images):
            raise InputError("The source of the documents is not clear.", "Give either --spare URI or --images DIR.")
        return self.images or self.spare


def _with_sides(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options that name both sides, and pass them on as ``sides``."""

    @wraps(function)
    def command(**given: Any) -> object:
        sides = _Sides(**{field.name: given.pop(field.name) for field in fields(_Sides)})
        return function(sides=sides, **given)

    for option in (
        click.option("--spare-password-file", metavar="FILE", default="", help="The spare's password."),
        click.option("--source-password-file", metavar="FILE", default="", help="The live set's password."),
        click.option(
            "--images", type=click.Path(path_type=Path), metavar="DIR", help="Saved pre-images, in place of a spare."
        ),
        click.option(
            "--spare",
            metavar="URI",
            default="",
            help="The server that was restored onto: a URI, or a .yml file with one.",
        ),
        click.option("--source", metavar="URI", required=True, help="The live set: a URI, or a .yml file with one."),
        click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


def _ask_both(plan: Plan, sides: _Sides, work: Callable[[Gateway, Gateway], Awaitable[Answer]]) -> Answer:
    """Run ``work`` on the live set and on the spare or the saved pre-images."""
    copy = sides.copy
    live = server(sides.source, ConnectionOptions(password_file=sides.source_password_file))

    async def with_saved(gateway: Gateway, other: Gateway) -> Answer:
        from tallyglass.restore.saved.joined import open_joined

        return await work(await open_joined(gateway, Path(plan.oplog), plan.limit) if plan.oplog else gateway, other)

    if isinstance(copy, Path):
        from tallyglass.restore.preimages.image_files import ImageFiles, as_copy

        with closing(ImageFiles(copy, plan)) as files:
            return ask(live, lambda gateway: with_saved(gateway, as_copy(files)), None, **PATIENT)
    spare = server(copy, ConnectionOptions(password_file=sides.spare_password_file))

    async def on_both(gateway: Gateway) -> Answer:
        from tallyglass.mongo.client import open_gateway

        other = open_gateway(spare, **PATIENT)
        try:
            return await with_saved(gateway, other)
        finally:
            await other.close()

    return ask(live, on_both, None, **PATIENT)


@click.command("check-return", hidden=True)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--source", metavar="URI", required=True, help="The live set: a URI, or a .yml file with one.")
@click.option("--source-password-file", metavar="FILE", default="", help="The live set's password.")
def check_return(plan_file: Path, source: str, source_password_file: str) -> None:
    """Check the privileges that the return needs on the live set, before it begins. Nothing is written."""
    plan = read_plan(plan_file)
    from tallyglass.restore.impact.return_needs import check_return as check

    ask(server(source, ConnectionOptions(password_file=source_password_file)), lambda gateway: check(gateway, plan))
    print_text("This user has all privileges that the return needs.")


@click.command(hidden=True)
@_with_sides
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="Where the repairs go.")
def recover(plan_file: Path, sides: _Sides, out: Path) -> None:
    """Compute the repairs of the live collections, as files for mongorestore. Nothing else is written."""
    plan = read_plan(plan_file)
    from tallyglass.restore.impact.outcome import Repairs, history_file, repairs
    from tallyglass.restore.tools.files import NULL_IDS

    rows = [(number, row) for number, row in enumerate(plan.returns, start=1) if row.strategy == "merge"]

    async def work(live: Gateway, copy: Gateway) -> list[tuple[int, Repairs]]:
        found = []
        for number, row in rows:
            held = Repairs(row.ns)
            with private_file(out / "tallyglass" / f"{number}.bson") as file:
                async for document in repairs(live, copy, plan, row, held, history_file(out.parent, number)):
                    file.write(document)
                    held.written += 1
            held.written += bool(held.null_id)
            found.append((number, held))
        with private_file(out / NULL_IDS) as file:
            file.writelines(held.null_id.encode() + b"\n" for _, held in found if held.null_id)
        return found

    found = _ask_both(plan, sides, work)
    first = out.parent / "damaged.json"
    if not first.exists():
        with private_file(first) as file:
            file.write(as_json({held.ns: held.written for _, held in found}).encode())
    for _, held in found:
        kinds = {verdict.value: count for verdict, count in sorted(held.verdicts.items())}
        print_text(
            as_json({"ns": clean(held.ns), "written": held.written, "by_hand": held.by_hand, "documents": kinds})
        )


@click.command()
@_with_sides
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="The work directory.")
def outcome(plan_file: Path, sides: _Sides, out: Path) -> int:
    """Print per namespace what came back, what others changed since, and what is still damaged.

    Exit 0 nothing is damaged any more, 1 something is, or nothing came back.
    """
    plan = read_plan(plan_file)
    from tallyglass.restore.impact.outcome import account

    before = _damaged_before(out)

    async def work(live: Gateway, copy: Gateway) -> list[NamespaceOutcome]:
        return [row async for row in account(live, copy, plan, before, out)]

    rows = _ask_both(plan, sides, work)
    ids = out / "still-damaged.jsonl"
    damaged = [one for row in rows for one in row.damaged]
    with private_file(ids) as file:
        file.writelines(one.line().encode() + b"\n" for one in damaged)
    text = "\n".join(_report(rows, ids))
    nothing = not any(row.restored or row.already or row.left or row.empty for row in rows)
    with private_file(out / "outcome.txt") as file:
        file.write(text.encode("ascii", "backslashreplace") + b"\n")
    incomplete = out / "incomplete"
    incomplete.unlink(missing_ok=True)
    if damaged or nothing:
        incomplete.touch(mode=0o600)
    print_text(text)
    return 1 if damaged or nothing else 0


def _report(rows: list[NamespaceOutcome], ids: Path) -> list[str]:
    head = ("namespace", "restored", "already there", "changed by others, left alone", "still damaged")
    cells = [
        (row.ns, f"{row.restored}", f"{row.already}", f"{row.left}", f"{len(row.damaged)}") for row in rows
    ]  # fmt: skip
    lines = [table([head, *cells], right=frozenset({1, 2, 3, 4}))] if rows else ["Nothing was brought back."]
    damaged = [one for row in rows for one in row.damaged]
    for row in rows:
        lines += [f"  {row.ns} {one.id}: {one.why}" for one in row.damaged[:SHOWN]]
    if damaged:
        lines.append(f"Still damaged: {len(damaged)}. All of them are in {clean(str(ids), 300)}.")
    elif rows and not any(row.restored or row.already or row.left or row.empty for row in rows):
        lines.append("Nothing was restored.")
    return lines


def _damaged_before(out: Path) -> dict[str, int]:
    """How many documents were damaged when the return began, by namespace."""
    path = out / "damaged.json"
    return json.loads(path.read_text()) if path.exists() else {}


def private_file(path: Path) -> IO[bytes]:
    """A file that its owner alone can read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be written: {error.strerror}.") from None
