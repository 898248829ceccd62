"""Reads what was named of a restore: the deployment, the backup, the tools, the spare."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, TallyglassError
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Gateway
from tallyglass.paths import home
from tallyglass.restore.backup.backup import DATA_FILES
from tallyglass.restore.backup.data_files import read_running
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.spare import inspect_spare
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.tool_uri import tool_uri


async def read_inputs(gateway: Gateway, request: RestoreRequest) -> Inputs:
    """The first stage. Raises the errors of the gateway, and InputError for what cannot be read."""
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
    return await _inspect_spare(_with_uris(inputs, request), request)


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


async def _inspect_spare(inputs: Inputs, request: RestoreRequest) -> Inputs:
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
        spare = await inspect_spare(gateway, address)
        if contents.backup.form == DATA_FILES and not spare.trouble:
            contents = await read_running(gateway, contents)
    finally:
        await gateway.close()
    spare_uri = tool_uri(uri, spare.set_name) if spare.set_name else inputs.spare_uri
    return replace(inputs, spare=spare, contents=contents, spare_uri=spare_uri)


def _free_bytes(work_dir: str) -> int | None:
    folder = Path(work_dir) if work_dir else home()
    try:
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free
    except OSError:
        return None
