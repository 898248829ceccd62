"""``tallyglass restore backups``: the backups of a folder, and which of them the oplog can continue."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallyglass.connection.target import is_uri, with_scheme
from tallyglass.moment import iso
from tallyglass.text import clean
from tallyglass.typed_json import plain
from tallyglass_tui.cli.headless import as_json, ask, print_text, table
from tallyglass_tui.cli.options import PATH, ConnectionOptions, connection_options, is_named, json_option

if TYPE_CHECKING:
    from tallyglass.moment import Ts
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.catalogue.backups import Listed


@click.command()
@click.argument("folders", metavar="DIR...", type=PATH, nargs=-1)
@connection_options()
@json_option
def backups(given: ConnectionOptions, folders: tuple[Path, ...], wants_json: bool) -> int:
    """List the backups of a folder, and how far each reaches.

    That is: kind, span, and whether the oplog of URI continues each up to now. Without a server only what the backups
    say of themselves is known. The documents in a dump folder are not read: restore window and restore plan read them.
    Exit 0 where one can be continued, or none was compared; 1 where none can.
    """
    if given.uri and (Path(given.uri).is_dir() or not is_uri(with_scheme(given.uri))):
        folders, given = (*folders, Path(given.uri)), replace(given, uri="")  # the last DIR was parsed as URI
    if not folders:
        raise click.UsageError("Name the folder that holds the backups: DIR.")
    listed = _list(given, folders)
    if wants_json:
        print_text(as_json([_as_dict(one) for one in listed], indent=2))
    else:
        head = ("backup", "kind", "MiB", "begun", "ended", "provable", "")
        print_text(table([head, *(_row(one) for one in listed)], right=frozenset({2})))
    return 1 if all(one.provable is False for one in listed) else 0


def _list(given: ConnectionOptions, folders: tuple[Path, ...]) -> list[Listed]:
    from tallyglass.restore.catalogue.backups import list_backups

    async def work(gateway: Gateway | None) -> list[Listed]:
        return [one for folder in folders async for one in list_backups(folder, gateway)]

    return ask(given, work) if is_named(given) else asyncio.run(work(None))


def _row(one: Listed) -> tuple[str, ...]:
    backup = one.backup
    provable = {True: "yes", False: "no", None: "not compared"}[one.provable]
    if backup is None:
        return clean(one.path.name, 60), "", "", "", "", provable, clean(one.why, 200)
    size = f"{backup.bytes / 2**20:.1f}"
    return (
        clean(one.path.name, 60), backup.form, size, _time(backup.start), _time(backup.end), provable,
        clean(one.why, 200),
    )  # fmt: skip


def _time(ts: Ts | None) -> str:
    return iso(ts.time) if ts else "unknown"


_FACTS = ("form", "start", "end", "source", "bytes", "server_version", "namespaces")


def _as_dict(one: Listed) -> dict[str, Any]:
    found = {"path": clean(str(one.path), 300), "provable": one.provable, "why": clean(one.why)}
    if one.backup is None:
        return found | dict.fromkeys(_FACTS)
    facts = plain(one.backup)
    return found | {name: facts[name] for name in _FACTS} | {"namespaces": len(one.backup.namespaces)}
