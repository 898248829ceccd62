"""``tallyglass restore images``: save the pre-images that an undo needs, as a dump folder."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallyglass.errors import InputError, ReadError
from tallyglass.text import clean_name, plural
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.headless import print_text
from tallyglass_tui.cli.options import PATH, ConnectionOptions
from tallyglass_tui.cli.restore.plan_file import PATIENT, ask_live, read_plan, server
from tallyglass_tui.cli.restore.sides import private_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.model.source import Backup
    from tallyglass.restore.model.undo import Accident, Return
    from tallyglass.restore.undo.sources.images import ImageSelection

_PROGRESS_EVERY = 20_000  # pre-images between two lines: some seconds


@click.command(hidden=True)
@click.argument("plan_file", metavar="PLAN", type=PATH)
@click.option("--source", metavar="URI", required=True, help="Read the live set: a URI, or a .yml file.")
@click.option("--source-password-file", metavar="FILE", default="", help="Read the live set's password from FILE.")
@click.option("--out", type=PATH, metavar="DIR", required=True, help="Write the images into DIR.")
def images(plan_file: Path, source: str, source_password_file: str, out: Path) -> None:
    """Save the pre-images of the plan's incident. Fails if one that the plan proved no longer exists.

    Nothing is written to the server.
    """
    from tallyglass.restore.model.source import FromImages

    plan = read_plan(plan_file)
    accident = plan.undo.accident
    if accident is None or not isinstance(plan.source, FromImages):
        raise InputError("That plan does not say what to undo.", "Plan with --from pre-images.")

    async def work(gateway: Gateway) -> list[tuple[str, int]]:
        return [
            (row.ns, await _save(gateway, plan, accident, row, number, out))
            for number, row in enumerate(plan.undo.returns, start=1)
        ]

    target = server(source, ConnectionOptions(password_file=source_password_file))
    for ns, count in ask_live(plan, target, work, **PATIENT):
        print_text(f"{clean_name(ns)}: {plural(count, 'document')} saved")


async def _rest(
    gateway: Gateway, plan: Plan, backup: Backup, ns: str, selection: ImageSelection
) -> AsyncIterator[bytes]:
    """The documents without an image, from the plan's backup."""
    from tallyglass.restore.catalogue.usable_backup import usable_backup
    from tallyglass.restore.undo.sources.backup import carry_forward

    if next(selection.missing(), None) is None:
        return
    info = next((one for one in await gateway.list_collections(ns.partition(".")[0]) if str(one.ns) == ns), None)
    if info is None:
        raise ReadError(f"{clean_name(ns)} is not there any more.", "Plan again.")
    given = backup.start if backup.source == "given" else None
    usable = await usable_backup(gateway, backup.path, plan.facts.limit, given)
    async for _, document in carry_forward(gateway, usable, info, selection.missing(), plan.facts.limit):
        if document is None:
            raise ReadError(
                f"{clean_name(ns)}: a document has neither a pre-image nor a proof in the backup any more.",
                "Restore from a backup and the oplog.",
            )
        yield document


async def _save(gateway: Gateway, plan: Plan, accident: Accident, row: Return, number: int, out: Path) -> int:
    from tallyglass.restore.undo.sources.image_files import image_file
    from tallyglass.restore.undo.sources.images import read_images, select

    count, shown = 0, clean_name(row.ns)
    expected = next((item.documents for item in plan.proof.expected if item.ns == row.ns), None)
    path = image_file(out, number)
    draft = path.with_suffix(".new")
    with closing(await select(gateway, accident, row.ns, plan.facts.limit)) as selection, private_file(draft) as file:
        async for image in read_images(gateway, selection):
            if image.document is None:
                if plan.source.backup is None:
                    raise ReadError(
                        f"{shown}: a pre-image that the plan proved no longer exists.",
                        "Restore from a backup and the oplog.",
                    )
                selection.note_missing(image.id)
                continue
            file.write(image.document)
            count += 1
            if count % _PROGRESS_EVERY == 0:
                print_message(f"{shown}: {count} of {expected} pre-images")
        if plan.source.backup is not None:
            async for document in _rest(gateway, plan, plan.source.backup, row.ns, selection):
                file.write(document)
                count += 1
    if count != expected:
        raise ReadError(f"{shown}: {count} pre-images were found; the plan proved {expected}.", "Plan again.")
    draft.replace(path)
    return count
