"""Read everything that a plan rests on, stage by stage; each stage needs the one before."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.backup.backup import DATA_FILES
from tallyglass.restore.proof.assess import assess
from tallyglass.restore.proof.findings import Assessed, Covered, Findings, Located, Replayed
from tallyglass.restore.proof.locate import locate
from tallyglass.restore.proof.progress import Progress
from tallyglass.restore.proof.replayed import replayed
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.saved_oplog.joined import JoinedOplog
from tallyglass.restore.timeline.coverage import Start


async def prove(gateway: Gateway, request: RestoreRequest, progress: Progress | None = None) -> Findings:
    """Run the stages as far as the facts allow. Raises the errors of the gateway, and InputError for what cannot
    be read."""
    found, oplog = await locate(gateway, request)
    if found.located is None:
        return found
    proven = replace(found, reached=await _prove(oplog, request, found.located, progress))
    if isinstance(oplog, JoinedOplog):
        await oplog.prove()
    return proven


async def _prove(
    gateway: Gateway, request: RestoreRequest, located: Located, progress: Progress | None
) -> Located | Covered | Replayed | Assessed:
    inputs, start = located.inputs, located.start
    backup, spare = inputs.contents.backup, inputs.spare
    if not isinstance(start, Start) or inputs.limit <= start.ts:
        return located
    if backup.form == DATA_FILES and (spare is None or spare.trouble):
        return located  # only the spare that runs on them can list what they hold
    found = await replayed(gateway, located, start, progress)
    copy = open_gateway(request.full_spare_uri) if backup.form == DATA_FILES else None
    try:
        return await assess(gateway, found, copy)
    finally:
        if copy is not None:
            await copy.close()
