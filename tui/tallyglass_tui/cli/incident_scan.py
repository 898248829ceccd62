"""The scan for incidents that several commands make, and where it reads who wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyglass.errors import InputError, ReadError
from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass_tui.cli.error_boundary import warn
from tallyglass_tui.cli.headless import each_within
from tallyglass_tui.cli.oplog_window import require_window
from tallyglass_tui.cli.shards import named_shards

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallyglass.evidence.store import EvidenceFolder
    from tallyglass.moment import Ts
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.oplog.snapshot import IncidentScan


def log_files(paths: Sequence[Path]) -> list[Path]:
    """The log files that ``--log`` names. Raises InputError for a path without one."""
    from tallyglass.evidence.log_files import files_of

    return [file for path in paths for file in files_of(absolute_path(path))]


def evidence_folder(path: Path | None) -> EvidenceFolder | None:
    """The folder that ``--evidence`` names. Raises InputError if it cannot be used."""
    from tallyglass.evidence.store import EvidenceFolder

    if path is None:
        return None
    folder = absolute_path(path)
    if not folder.is_dir():
        raise InputError(f"There is no folder {clean(str(folder))}.", "tallyglass watch --evidence DIR makes one.")
    return EvidenceFolder(folder)


async def scan_all(
    gateway: Gateway,
    since: Ts | None,
    seconds: float,
    logs: Sequence[Path] = (),
    folder: EvidenceFolder | None = None,
    *,
    ns: str = "",
) -> IncidentScan:
    """The last result of the scan, with who wrote the incidents. Raises ReadError if it could not reach the end."""
    from tallyglass.mongo.gateway import closing
    from tallyglass.oplog.incidents import incident
    from tallyglass.oplog.incidents.across_shards import scan_shards
    from tallyglass.oplog.incidents.authors import naming

    shards = await named_shards(gateway, seconds)
    if shards is not None and ns:
        raise InputError("--ns reads one replica set.", "Leave it out to read all shards.")
    if not ns:
        await require_window(shards or {"": gateway}, since, None, seconds)
    named = naming(gateway, logs, folder)
    whole = named(gateway, incident.scan(gateway, since, ns=ns)) if shards is None else None
    scans = whole or scan_shards(shards or {}, since, named=named)
    last: IncidentScan | None = None
    async with closing(each_within(scans, seconds)) as scan:
        async for progress in scan:
            last = progress
    if last is None or not last.done:
        raise ReadError("The oplog could not be read to its end.", last.trouble if last else "")
    if last.trouble:
        warn(last.trouble)
    for one in last.running:
        warn(f"{one.statement} on {one.ns} has run for {one.seconds:.0f} s now. To stop it, in mongosh: {one.kill}")
    return last
