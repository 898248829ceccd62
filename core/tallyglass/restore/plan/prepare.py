"""Prepare a provable backup: record the position of the oplog before it begins, and give the command that takes it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import DeploymentError, InputError, PrivilegeError, ReadError
from tallyglass.moment import Ts, iso
from tallyglass.mongo.driver_errors import closed_oplog
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import end_of_oplog, op_time
from tallyglass.paths import absolute_path
from tallyglass.restore.backup.sidecar import SIDECAR, SIDECAR_FORMAT
from tallyglass.restore.model.step import Command, Phase
from tallyglass.restore.spare.spare import feature_version
from tallyglass.restore.tools.tool_uri import tool_uri
from tallyglass.restore.tools.toolset import needed_for
from tallyglass.text import clean, clean_name, shell_join


@dataclass(frozen=True, slots=True)
class Preparation:
    """The sidecar's text and place, and the backup command that must follow it. ``before`` is the majority's newest
    timestamp at this moment: a backup that begins later is covered from this position. ``warnings`` are for the
    operator."""

    path: Path
    text: str
    before: Ts
    command: Command
    warnings: tuple[str, ...] = ()

    def write(self) -> Path:
        """Write the sidecar, readable only by its owner, and return its path. Raises InputError if that fails."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as out:
                out.write(self.text)
        except FileExistsError:
            raise InputError(f"{clean(str(self.path))} exists already.", "Name a new place for the backup.") from None
        except OSError as error:
            raise InputError(f"{clean(str(self.path))} cannot be written: {error.strerror}.") from None
        return self.path


async def prepare(
    gateway: Gateway, source_uri: str, out: Path, *, gzip: bool = False, archive: bool = False
) -> Preparation:
    """Record the oplog position for a backup into ``out``: a directory, or a file if ``archive``.

    Raises InputError if ``out`` already exists, DeploymentError if there is no oplog to replay, and the errors of the
    gateway.
    """
    out = absolute_path(out)
    _must_be_new(out)
    deployment = await look_at(gateway)
    if deployment.sharded:
        raise DeploymentError("This is part of a sharded cluster: one oplog does not hold all of it.")
    if not deployment.has_oplog:
        raise DeploymentError("There is no oplog to replay here.", deployment.no_oplog_because())
    hello = await gateway.command("hello")
    newest = hello.get("lastWrite", {}).get("majorityOpTime", {})
    before = op_time(newest)
    if await end_of_oplog(gateway, -1) is None:
        raise closed_oplog()
    if before is None:
        raise ReadError("The server does not say which entries a majority of the members has.")
    if not hello.get("isWritablePrimary"):
        raise DeploymentError(
            "This member is not the primary: a backup read from it may lack what the sidecar vouches for.",
            "Connect to the primary, or to the set as a whole.",
        )
    uri = tool_uri(source_uri, deployment.set_name, deployment.reached_at)
    names, warnings = await _namespaces(gateway)
    sidecar = {
        "format": SIDECAR_FORMAT,
        "before": str(before),
        "fcv": await feature_version(gateway) or "",
        "server_version": deployment.version,
        "set_name": deployment.set_name,
        "term": int(newest.get("t", 0)),
        "made": iso(datetime.now(UTC).replace(microsecond=0)),
        "namespaces": names,
    }
    where = f"--archive={out}" if archive else f"--out={out}"
    # A lagging member would not hold what the sidecar promises.
    read = (f"--uri={uri.text}", "--readPreference=primary")
    argv = ("mongodump", *read, "--oplog", *(["--gzip"] if gzip else []), where)
    command = Command(
        Phase.SECURE,
        "Take the backup now",
        argv,
        shell_join(argv),
        why=f"With --oplog it also says when it ended. Version {'.'.join(map(str, needed_for(deployment.version)))}+.",
    )
    path = out.with_name(f"{out.name}.{SIDECAR}") if archive else out / SIDECAR
    return Preparation(
        path, json.dumps(sidecar, ensure_ascii=True, indent=1) + "\n", before, command, (*uri.warnings, *warnings)
    )


def _must_be_new(out: Path) -> None:
    """Refuse a place that already holds a backup: it is older than this position, and two mixed dumps are no backup."""
    try:
        if not (out.exists() or out.is_symlink()) or (out.is_dir() and not any(out.iterdir())):
            return
    except OSError as error:
        raise InputError(f"{clean(str(out))} cannot be read: {error.strerror}.") from None
    raise InputError(f"{clean(str(out))} exists already.", "Name a new place for the backup.")


async def _namespaces(gateway: Gateway) -> tuple[list[str], list[str]]:
    names: list[str] = []
    warnings: list[str] = []
    for db in await gateway.list_databases():
        try:
            names += [str(info.ns) for info in await gateway.list_collections(db)]
        except (PrivilegeError, ReadError) as error:
            warnings.append(f"The collections of {clean_name(db)} could not be listed: {error.title}")
    return sorted(names), warnings
