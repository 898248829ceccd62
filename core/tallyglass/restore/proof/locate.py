"""The first two stages: what was named is read, and the oplog is found from the backup to the point."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, PrivilegeError, TallyglassError
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import edge, stamp
from tallyglass.paths import home
from tallyglass.restore.backup.backup import DATA_FILES
from tallyglass.restore.backup.data_files import read_running
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.proof.findings import Findings, Inputs, Located, Saved, is_broken
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.saved_oplog.joined import join
from tallyglass.restore.saved_oplog.saved_oplog import read_saved
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.spare import feature_version, look_at_spare
from tallyglass.restore.timeline import coverage
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.timeline.identity import foreign_anchor
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.tool_uri import tool_uri


async def locate(gateway: Gateway, request: RestoreRequest) -> tuple[Findings, Gateway]:
    """The first two stages, the request and the ends of the oplog, and the gateway that the rest is read through.

    Takes seconds on any oplog of a server; of a saved one it visits every entry. Errors as for :func:`gather`.
    """
    inputs = await _inputs(gateway, request)
    if inputs.deployment.sharded or not inputs.deployment.has_oplog:
        return Findings(inputs), gateway
    try:
        paths = tuple(path for path in (request.oplog, inputs.contents.oplog) if path is not None)
        if paths:
            gateway, inputs = await _with_saved(gateway, inputs, paths)
            if is_broken(inputs):
                return Findings(inputs), gateway
        return Findings(inputs, await _locate(gateway, inputs)), gateway
    except PrivilegeError as error:
        return Findings(inputs, unreadable=error.title), gateway


async def _with_saved(gateway: Gateway, inputs: Inputs, paths: tuple[Path, ...]) -> tuple[Gateway, Inputs]:
    """The saved oplog and the live one as one, from before the backup on."""
    oplog = await asyncio.to_thread(read_saved, paths, inputs.contents.backup.start)
    joined, found = await join(gateway, oplog)
    return joined, replace(inputs, saved=Saved(paths, oplog, found))


async def _inputs(gateway: Gateway, request: RestoreRequest) -> Inputs:
    limit = request.limit
    if request.backup is None:
        raise InputError("No backup is named.", "Name a mongodump directory, an archive, or data files.")
    deployment = await look_at(gateway)
    contents = await asyncio.to_thread(read_backup, request.backup, request.backup_start)
    inputs = Inputs(
        limit,
        deployment,
        contents,
        request.incident,
        tools=await asyncio.to_thread(toolset.installed),
        free_bytes=_free_bytes(request.work_dir),
        choice=request.choice,
        evidence=request.evidence,
    )
    if deployment.sharded or not deployment.has_oplog:
        return inputs
    return await _look_at_spare(_with_uris(inputs, request), request)


def _with_uris(inputs: Inputs, request: RestoreRequest) -> Inputs:
    try:
        source = tool_uri(request.source_uri, inputs.deployment.set_name, inputs.deployment.reached_at)
    except InputError as error:
        return replace(inputs, uri_trouble=str(error))
    inputs = replace(inputs, source_uri=source)
    try:
        if request.spare or request.spare_uri:
            return replace(inputs, spare_uri=tool_uri(request.spare_uri or f"mongodb://{request.spare}/"))
        if inputs.contents.backup.form != DATA_FILES:
            port = request.own_spare_port or own_spare.free_port()
            return replace(inputs, spare_uri=tool_uri(own_spare.uri(port)), own_spare=port)
    except InputError as error:
        return replace(inputs, uri_trouble=str(error))
    return inputs


async def _look_at_spare(inputs: Inputs, request: RestoreRequest) -> Inputs:
    if inputs.own_spare or inputs.spare_uri is None:
        return inputs
    address = request.spare or inputs.spare_uri.hosts[0]
    uri = request.full_spare_uri
    contents = inputs.contents
    try:
        gateway = open_gateway(uri, serverSelectionTimeoutMS=5_000)
    except TallyglassError as error:
        return replace(inputs, uri_trouble=str(error))
    try:
        spare = await look_at_spare(gateway, address)
        if contents.backup.form == DATA_FILES and not spare.trouble:
            contents = await read_running(gateway, contents)
    finally:
        await gateway.close()
    spare_uri = tool_uri(uri, spare.set_name) if spare.set_name else inputs.spare_uri
    return replace(inputs, spare=spare, contents=contents, spare_uri=spare_uri)


async def _locate(gateway: Gateway, inputs: Inputs) -> Located:
    located = Located(inputs, await feature_version(gateway), await coverage.majority(gateway))
    backup = inputs.contents.backup
    if backup.start is None or inputs.limit.t == 0:
        return located
    exact = backup.exact or backup.form == DATA_FILES
    start = await coverage.choose_start(gateway, backup.start, 0 if exact else coverage.BACK_OFF_SECONDS)
    at_limit = await edge(gateway, 1, {"ts": {"$gte": stamp(inputs.limit)}})
    foreign = ""
    if isinstance(start, Start):
        foreign = await foreign_anchor(gateway, inputs.contents.anchors, start.oldest)
    return replace(located, start=start, at_limit=at_limit, foreign=foreign)


def _free_bytes(work_dir: str) -> int | None:
    folder = Path(work_dir) if work_dir else home()
    while not folder.exists():
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
