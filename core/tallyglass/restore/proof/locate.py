"""The second stage: the oplog is found from the backup to the point."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.errors import PrivilegeError
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import edge, stamp
from tallyglass.restore.backup.backup import DATA_FILES
from tallyglass.restore.proof.findings import Findings, Located
from tallyglass.restore.proof.inputs import Inputs, is_broken
from tallyglass.restore.proof.read_inputs import read_inputs
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.saved_oplog.joined import join_saved
from tallyglass.restore.spare.spare import feature_version
from tallyglass.restore.timeline import coverage
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.timeline.identity import foreign_anchor


async def locate(gateway: Gateway, request: RestoreRequest) -> tuple[Findings, Gateway]:
    """The first two stages, the request and the ends of the oplog, and the gateway that the rest is read through.

    Takes seconds on any oplog of a server; of a saved one it visits every entry. Errors as for :func:`prove`.
    """
    inputs = await read_inputs(gateway, request)
    if inputs.deployment.sharded or not inputs.deployment.has_oplog:
        return Findings(inputs), gateway
    try:
        paths = tuple(path for path in (request.oplog, inputs.contents.oplog) if path is not None)
        if paths:
            gateway, saved = await join_saved(gateway, paths, inputs.contents.backup.start)
            inputs = replace(inputs, saved=saved)
            if is_broken(inputs):
                return Findings(inputs), gateway
        return Findings(inputs, await _locate(gateway, inputs)), gateway
    except PrivilegeError as error:
        return Findings(inputs, unreadable=error.title), gateway


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
