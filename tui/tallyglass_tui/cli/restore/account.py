"""``tallyglass restore recover`` and ``outcome``: run by the script before and after it writes to the live set."""

from __future__ import annotations

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
from tallyglass_tui.cli.restore.verify import PATIENT, read_plan, server

if TYPE_CHECKING:
    from tallyglass.moment import Ts
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.undo.outcome import NamespaceOutcome

Answer = TypeVar("Answer")

SHOWN = 5
"""Ids that are shown of each namespace; the file has all."""

BEGAN = "began.txt"
"""In the plan's folder: the newest entry of the oplog when the repairs were first computed. What was right by then did
not come back by the return."""

DAMAGED = 3
"""The exit code of an account with something damaged or unclear."""


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
    # What is not on a majority yet may be lost: it is no basis for a repair, and does not count as restored.
    lasting = PATIENT | {"readConcernLevel": "majority"}

    async def with_saved(gateway: Gateway, other: Gateway) -> Answer:
        from tallyglass.restore.saved_oplog.joined import open_joined

        slices = [Path(one) for one in plan.oplog]
        return await work(await open_joined(gateway, slices, plan.limit) if slices else gateway, other)

    if isinstance(copy, Path):
        from tallyglass.restore.undo.sources.image_files import ImageFiles, as_copy

        with closing(ImageFiles(copy, plan)) as files:
            return ask(live, lambda gateway: with_saved(gateway, as_copy(files)), None, **lasting)
    spare = server(copy, ConnectionOptions(password_file=sides.spare_password_file))

    async def on_both(gateway: Gateway) -> Answer:
        from tallyglass.mongo.client import open_gateway

        other = open_gateway(spare, **PATIENT)
        try:
            return await with_saved(gateway, other)
        finally:
            await other.close()

    return ask(live, on_both, None, **lasting)


@click.command("check-return", hidden=True)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--source", metavar="URI", required=True, help="The live set: a URI, or a .yml file with one.")
@click.option("--source-password-file", metavar="FILE", default="", help="The live set's password.")
def check_return(plan_file: Path, source: str, source_password_file: str) -> None:
    """Check the privileges that the return needs on the live set, before it begins. Nothing is written."""
    plan = read_plan(plan_file)
    from tallyglass.restore.undo.return_needs import check_return as check

    ask(server(source, ConnectionOptions(password_file=source_password_file)), lambda gateway: check(gateway, plan))
    print_text("This user has all privileges that the return needs.")


@click.command(hidden=True)
@_with_sides
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="Where the repairs go.")
def recover(plan_file: Path, sides: _Sides, out: Path) -> None:
    """Compute the repairs of the live collections, as files for mongorestore. Nothing else is written."""
    plan = read_plan(plan_file)
    from tallyglass.oplog.read.entries import edge
    from tallyglass.restore.tools.files import NULL_IDS
    from tallyglass.restore.undo.carry import to_write
    from tallyglass.restore.undo.recovery import Repairs

    rows = [(number, row) for number, row in enumerate(plan.returns, start=1) if row.strategy in ("merge", "replace")]

    async def work(live: Gateway, copy: Gateway) -> list[tuple[int, Repairs]]:
        first, newest = out.parent / BEGAN, await edge(live, -1)
        if newest is not None and not first.exists():
            with private_file(first) as file:
                file.write(f"{newest.ts}\n".encode())
        found = []
        for number, row in rows:
            held = Repairs(row.ns)
            with private_file(out / "tallyglass" / f"{number}.bson") as file:
                async for document in to_write(live, copy, plan, number, held, out.parent):
                    file.write(document)
                    held.written += 1
            held.written += bool(held.null_id)
            found.append((number, held))
        with private_file(out / NULL_IDS) as file:
            file.writelines(held.null_id.encode() + b"\n" for _, held in found if held.null_id)
        return found

    found = _ask_both(plan, sides, work)
    for _, held in found:
        kinds = {verdict.value: count for verdict, count in sorted(held.verdicts.items())}
        print_text(
            as_json({"ns": clean(held.ns), "written": held.written, "by_hand": held.by_hand, "documents": kinds})
        )


@click.command()
@_with_sides
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="The work directory.")
def outcome(plan_file: Path, sides: _Sides, out: Path) -> int:
    """Print per namespace what came back, what others changed since, and what is damaged or unclear.

    Exit 0 every document that the accident touched is as it should be, 3 one is not, or nothing was restored.
    """
    plan = read_plan(plan_file)
    from tallyglass.restore.undo.outcome import account, is_complete

    # Until the account is done, nothing is proven: a run that fails leaves no older account behind.
    incomplete, told = out / "incomplete", out / "outcome.txt"
    with private_file(incomplete):
        told.unlink(missing_ok=True)

    async def work(live: Gateway, copy: Gateway) -> list[NamespaceOutcome]:
        return [row async for row in account(live, copy, plan, _began(out), out)]

    rows = _ask_both(plan, sides, work)
    ids = out / "still-damaged.jsonl"
    with private_file(ids) as file:
        file.writelines(one.line().encode() + b"\n" for row in rows for one in row.damaged)
    text = "\n".join(_report(rows, ids))
    with private_file(told) as file:
        file.write(text.encode("ascii", "backslashreplace") + b"\n")
    print_text(text)
    if not is_complete(rows):
        return DAMAGED
    incomplete.unlink()
    return 0


_COLUMNS = ("namespace", "touched", "restored", "already right", "left, right", "left, unclear", "still damaged")
_LEGEND = (
    "left, right: others deleted or changed it since, and it is as it would be without the accident.",
    "left, unclear: it was left alone, and holds the accident's value, one that may be computed from it, or a doubt.",
)


def _report(rows: list[NamespaceOutcome], ids: Path) -> list[str]:
    cells = [
        (row.ns, *map(str, (row.touched, row.restored, row.already, row.left, row.unclear, row.still_damaged)))
        for row in rows
    ]
    lines = (
        [table([_COLUMNS, *cells], right=frozenset(range(1, 7))), *_LEGEND] if rows else ["Nothing was brought back."]
    )
    damaged = [one for row in rows for one in row.damaged]
    for row in rows:
        lines += [f"  {row.ns} {one.id}: {one.why}" for one in row.damaged[:SHOWN]]
    if damaged:
        lines.append(f"Still damaged or unclear: {len(damaged)}. All of them are in {clean(str(ids), 300)}.")
    elif rows and not any(row.restored or row.empty for row in rows):
        lines.append("Nothing was restored.")
    return lines


def _began(out: Path) -> Ts | None:
    """The newest entry of the oplog when the return began; None where no repairs were computed."""
    from tallyglass.moment import parse_ts

    path = out / BEGAN
    return parse_ts(path.read_text()) if path.exists() else None


def private_file(path: Path) -> IO[bytes]:
    """A file that its owner alone can read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be written: {error.strerror}.") from None
