"""The live set and where the documents as they were come from: options that name both, and work on both."""

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
from tallyglass_tui.cli.options import PATH, ConnectionOptions
from tallyglass_tui.cli.restore.plan_file import PATIENT, ask_live, server

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.undo.documents import DocumentSource

Answer = TypeVar("Answer")

BEGAN = "began.txt"
"""In the plan's folder: the newest entry of the oplog when the repairs were first computed. What was right by then did
not come back by the return."""


@dataclass(frozen=True, slots=True)
class Sides:
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


def with_sides(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options that name both sides, and pass them on as ``sides``."""

    @wraps(function)
    def command(**given: Any) -> object:
        sides = Sides(**{field.name: given.pop(field.name) for field in fields(Sides)})
        return function(sides=sides, **given)

    for option in (
        click.option("--spare-password-file", metavar="FILE", default="", help="Read the spare's password from FILE."),
        click.option(
            "--source-password-file", metavar="FILE", default="", help="Read the live set's password from FILE."
        ),
        click.option("--images", type=PATH, metavar="DIR", help="Read saved pre-images in place of a spare."),
        click.option("--spare", metavar="URI", default="", help="Read the spare: a URI, or a .yml file."),
        click.option("--source", metavar="URI", required=True, help="Read this live set (URI or .yml)."),
        click.argument("plan_file", metavar="PLAN", type=PATH),
    ):
        command = option(command)
    return command


def ask_both(
    plan: Plan, sides: Sides, folder: Path, work: Callable[[Gateway, DocumentSource], Awaitable[Answer]]
) -> Answer:
    """Run ``work`` on the live set and on the spare or the saved pre-images. ``folder`` is the plan's."""
    copy = sides.copy
    live = server(sides.source, ConnectionOptions(password_file=sides.source_password_file))
    # What is not on a majority yet may be lost: it is no basis for a repair, and does not count as restored.
    lasting = PATIENT | {"readConcernLevel": "majority"}

    async def with_saved(gateway: Gateway, other: DocumentSource) -> Answer:
        from tallyglass.restore.model.source import FromBackup
        from tallyglass.restore.saved_oplog.joined import open_joined

        slices = [Path(one) for one in plan.source.oplog] if isinstance(plan.source, FromBackup) else []
        return await work(await open_joined(gateway, slices, plan.facts.limit) if slices else gateway, other)

    if isinstance(copy, Path):
        from tallyglass.restore.undo.sources.image_files import ImageFiles

        with closing(ImageFiles(copy, plan)) as files:
            return ask_live(plan, live, lambda gateway: with_saved(gateway, files), **lasting)
    spare = server(copy, ConnectionOptions(password_file=sides.spare_password_file))

    async def on_both(gateway: Gateway) -> Answer:
        from tallyglass.mongo.client import open_gateway
        from tallyglass.restore.spare.verify import check_unchanged
        from tallyglass.restore.spare.writes import check_unwritten

        other = open_gateway(spare, **PATIENT)
        try:
            await check_unchanged(plan, other)
            await check_unwritten(plan, other, folder)
            return await with_saved(gateway, other)
        finally:
            await other.close()

    return ask_live(plan, live, on_both, **lasting)


def private_file(path: Path) -> IO[bytes]:
    """A file that its owner alone can read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be written: {error.strerror}.") from None
