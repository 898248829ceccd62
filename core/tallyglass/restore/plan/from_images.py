"""Plan the undo of an incident from pre-images: commands are made only if every image is proven to be there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tallyglass import __version__
from tallyglass.deployment.cluster import Deployment, look_at
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.incidents.verdict import MAYBE_TTL
from tallyglass.oplog.read.entries import edge, read_effects, stamp
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.backup.backup import LEFT_OUT, Contents
from tallyglass.restore.checks.all_checks import tested
from tallyglass.restore.checks.outcome import block, ok, warn
from tallyglass.restore.checks.undone import unclear
from tallyglass.restore.model.plan import (
    Accident,
    Backup,
    Check,
    ExpectedNamespace,
    Level,
    Loss,
    Plan,
    Return,
    Slice,
    Strategy,
    worst,
)
from tallyglass.restore.plan.from_backup import default_work_dir
from tallyglass.restore.plan.steps.spec import Damage, RunbookSpec
from tallyglass.restore.plan.steps.undo_steps import undo_steps
from tallyglass.restore.pre_images.settings import ROLE, SINCE, Retention, how_to_enable, keeps_images, retention
from tallyglass.restore.proof.prove import RestoreRequest
from tallyglass.restore.proof.returns import LONGEST_NAMESPACE, free_name
from tallyglass.restore.timeline import coverage
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.tool_uri import ToolUri, tool_uri
from tallyglass.restore.tools.toolset import needed_for, version_pair
from tallyglass.restore.undo.earlier_returns import STAGING
from tallyglass.restore.undo.incident_scope import written
from tallyglass.restore.undo.infer import find_accident
from tallyglass.restore.undo.outcome import id_json
from tallyglass.restore.undo.sources.backup import UsableBackup, carry_forward, usable_backup
from tallyglass.restore.undo.sources.image_files import FOLDER
from tallyglass.restore.undo.sources.images import ImageSelection, read_images, select
from tallyglass.text import clean_name

FORM = "pre-images"
"""The backup form that a plan from pre-images records."""
WITH_BACKUP = "pre-images, the missing ones from this backup"
"""The backup form of a plan in which documents without an image come from a backup."""

_SHOWN = 5
_SOON_HOURS = 24


@dataclass(slots=True)
class _Proof:
    """What is known of one collection: how many images are needed, which of them are missing, and their bytes.
    ``from_backup`` counts the documents that come from a backup instead; ``refused`` says why others do not."""

    ns: str
    info: CollectionInfo
    needed: int
    by_accident: int
    by_others: int
    first: Ts | None = None
    missing: list[bytes] = field(default_factory=list)
    missing_count: int = 0
    bytes: int = 0
    from_backup: int = 0
    refused: str = ""
    streamed: bool = False
    loss: Loss | None = None


async def plan_undo(gateway: Gateway, request: RestoreRequest) -> Plan:
    """Prove that every damaged document can be read as it was, then emit the commands; a blocked plan has none.

    Documents without an image come from the backup of the request, if it names one. Reads the oplog from the point on
    and every image, so it may take minutes. Raises the errors of the gateway, and InputError without an incident.
    """
    incident = _incident(request)
    deployment = await look_at(gateway)
    plan = Plan(
        point=incident.limit, start=None, limit=incident.limit,
        backup=Backup(Path("config.system.preimages"), FORM, False, None, None, FORM),
        set_name=deployment.set_name, spare="", made=datetime.now(UTC).replace(microsecond=0),
        incident=incident.described,
        server_version=deployment.version, made_by=__version__,
        tools_needed=".".join(map(str, needed_for(deployment.version))),
        work_dir=request.work_dir or default_work_dir(incident.limit),
    )  # fmt: skip
    checks = [*images_possible(deployment, incident), *tested(deployment)]
    checks += await asyncio.to_thread(lambda: list(_tools(deployment.version)))
    source = None
    try:
        source = tool_uri(request.source_uri, deployment.set_name, deployment.reached_at)
    except InputError as error:
        checks.append(block("uri", str(error)))
    if source is None or worst(checks) is Level.BLOCK:
        return replace(plan, checks=tuple(checks))
    plan = replace(
        plan, source_user=clean_name(source.user), passwords=("source",) if source.asks else ()
    )  # fmt: skip
    try:
        return await _prove(gateway, plan, checks, source, request)
    except PrivilegeError as error:
        advice = f"In mongosh: {ROLE}"
        return replace(plan, checks=(*checks, block("images-privilege", error.title, advice)))


def _incident(request: RestoreRequest) -> Incident:
    if request.incident is None:
        raise InputError("Pre-images undo an incident, and none is named.", "Name an incident.")
    return request.incident


def images_possible(deployment: Deployment, incident: Incident) -> Iterator[Check]:
    """Checks of an undo from pre-images that need no entry of the incident."""
    version = version_pair(deployment.version)
    if deployment.sharded or not deployment.has_oplog:
        yield block("images-sharded", "Pre-images are read from one replica set alone.", "Restore each shard.")
    if version is not None and version < SINCE:
        yield block("images-version", f"MongoDB {deployment.version} keeps no pre-images; 6.0 and later do.")
    if incident.harm is Harm.DEFINITION:
        yield block(
            "images-kind",
            f"{incident.title}: this changes no document itself.",
            "If documents expired by it, plan for the incident of their deletes.",
        )
    elif not written(incident) and incident.kind not in ("transaction", "ttl"):
        yield block(
            "images-kind",
            f"{incident.title}: no pre-images are kept of what a command removes or replaces.",
            "Restore from a backup and the oplog.",
        )
    if incident.kind == "ttl" or MAYBE_TTL in incident.note:
        yield warn(
            "images-ttl",
            "A TTL index deleted these documents and would delete them again."
            if incident.kind == "ttl"
            else "The collection has a TTL index: if it deleted these documents, it would delete them again.",
            "Drop it, or raise its expireAfterSeconds with collMod first: what would expire is left out otherwise.",
        )


def _tools(server_version: str) -> Iterator[Check]:
    oldest, needed = toolset.installed().oldest, needed_for(server_version)
    word = ".".join(map(str, needed))
    if oldest is None:
        yield ok("tool-version", f"mongorestore {word} or newer is needed; the script checks.")
    elif oldest[:2] < needed:
        have = ".".join(map(str, oldest))
        yield block("tool-version", f"The tools here are too old: {have}.", f"Install {word} or newer.")


async def _prove(gateway: Gateway, plan: Plan, checks: list[Check], source: ToolUri, request: RestoreRequest) -> Plan:
    incident = _incident(request)
    oldest, majority = await edge(gateway, 1), await coverage.majority(gateway)
    if oldest is None or oldest.ts > plan.limit:
        first = oldest.ts if oldest else "unknown"
        checks.append(block("coverage", f"The oplog no longer reaches back to {plan.limit}: it begins at {first}."))
    if majority is None or plan.limit > majority:
        checks.append(block("not-majority", f"{plan.limit} is not on a majority of the members yet.", "Plan again."))
    if worst(checks) is Level.BLOCK:
        return replace(plan, checks=tuple(checks))
    live = await live_collections(gateway, incident)
    found = await find_accident(gateway, incident, plan.limit, incident.last, None, live, request.evidence)
    accident = found.accident
    checks += unclear(accident, found.doubts, found.groups)
    names = [accident.ns] if accident.ns else await _of_transaction(gateway, accident)
    checks += _collections(names, live, incident)
    kept = await retention(gateway)
    proofs: list[_Proof] = []
    backup = _LazyBackup(gateway, request, plan.limit)
    for ns in names:
        if ns in live:
            with closing(await select(gateway, accident, ns, plan.limit)) as selection:
                proofs.append(await _read(gateway, selection, live[ns]))
                await _fill(gateway, selection, proofs[-1], backup, plan.limit)
    checks += _gaps(proofs, kept)
    if any(proof.streamed for proof in proofs):
        title = "This user may not read config.system.preimages: the images come through a change stream, more slowly."
        checks.append(ok("images-stream", title))
    checks += _expiring(proofs, kept)
    returns = tuple(_return(proof, plan.limit, live) for proof in proofs)
    plan = replace(
        plan,
        accident=accident,
        undone=found.undone,
        returns=returns,
        backup=replace(
            backup.as_source if any(proof.from_backup for proof in proofs) else plan.backup,
            bytes=sum(proof.bytes for proof in proofs),
        ),
        operations=accident.entries,
        loss=tuple(proof.loss for proof in proofs if proof.loss),
        expected=tuple(ExpectedNamespace(proof.ns, "collection", proof.needed) for proof in proofs),
        checks=tuple(checks),
    )
    if plan.level is Level.BLOCK:
        return plan
    spec = RunbookSpec(
        mark=plan.mark, source=source, spare=source, contents=Contents(plan.backup), start=plan.limit,
        limit=plan.limit, slice=Slice(0, plan.limit, plan.limit, 0), applied=0, returns=returns,
        damage={proof.ns: _damage(proof, accident) for proof in proofs},
        set_name=plan.set_name, undone=found.undone, copy=f"--images={FOLDER}",
    )  # fmt: skip
    steps = undo_steps(spec, plan)
    return replace(plan, commands=steps.commands, files=steps.files)


def _damage(proof: _Proof, accident: Accident) -> Damage:
    """How many operations are undone on a collection. Among the updates that were selected are some of others."""
    own = accident.entries if accident.ns == proof.ns else proof.by_accident
    return Damage(own, proof.by_others + proof.by_accident - own)


async def live_collections(gateway: Gateway, incident: Incident) -> dict[str, CollectionInfo]:
    """The live collections that the incident may refer to: its own namespace is sanitised for display."""
    found: dict[str, CollectionInfo] = {}
    for db in await gateway.list_databases():
        if db in LEFT_OUT or (incident.kind != "transaction" and not incident.ns.startswith(f"{clean_name(db)}.")):
            continue
        found |= {str(info.ns): info for info in await gateway.list_collections(db) if info.kind == "collection"}
    return found


async def _of_transaction(gateway: Gateway, accident: Accident) -> list[str]:
    """The namespaces that a transaction wrote."""
    if accident.kind != "transaction":
        return []
    names = dict[str, None]()
    async for _, parts in read_effects(gateway, {"ts": stamp(accident.first)}):
        for part in parts:
            names |= {one.ns: None for one in part.inner() if one.op in ("i", "u", "d")}
    return list(names)


def _collections(names: list[str], live: dict[str, CollectionInfo], incident: Incident) -> Iterator[Check]:
    gone = [clean_name(name) for name in names if name not in live] if names else [incident.ns]
    for shown in gone:
        yield block(
            "images-collection",
            f"{shown} no longer exists.",
            "A drop leaves no pre-images of its documents: restore from a backup and the oplog.",
        )
    for name in names:
        if "$" in name or len(name.encode()) > LONGEST_NAMESPACE - 40:
            yield block("images-name", f"{clean_name(name)}: its name cannot be lengthened for a copy.")


async def _read(gateway: Gateway, selection: ImageSelection, info: CollectionInfo) -> _Proof:
    """Read every image once: only what the server still holds counts."""
    proof = _Proof(selection.ns, info, selection.count, selection.by_accident, selection.by_others)
    async for image in read_images(gateway, selection):
        proof.first = min(proof.first or image.key.ts, image.key.ts)
        if image.document is None:
            selection.note_missing(image.id)
            proof.missing_count += 1
            if len(proof.missing) < _SHOWN:
                proof.missing.append(image.id)
        else:
            proof.bytes += len(image.document)
    proof.streamed = selection.streamed
    done = selection.operations
    proof.loss = Loss(clean_name(proof.ns), done["i"], done["u"], done["d"])
    return proof


class _LazyBackup:
    """The backup of a request, opened only if an image is missing."""

    def __init__(self, gateway: Gateway, request: RestoreRequest, limit: Ts) -> None:
        self._gateway, self._request, self._limit = gateway, request, limit
        self.found: UsableBackup | None = None

    async def use(self) -> UsableBackup:
        """The backup. Raises InputError, which says why it cannot be used."""
        request = self._request
        if request.backup is None:
            raise InputError("No backup was named.")
        if self.found is None:
            self.found = await usable_backup(self._gateway, request.backup, self._limit, request.backup_start)
        return self.found

    @property
    def as_source(self) -> Backup:
        """The backup, as a plan from pre-images records it."""
        assert self.found is not None
        return replace(self.found.contents.backup, form=WITH_BACKUP, gzip=False)


async def _fill(gateway: Gateway, selection: ImageSelection, proof: _Proof, backup: _LazyBackup, limit: Ts) -> None:
    """Look for the documents without an image in the backup. If no image exists at all, use a restore."""
    if not 0 < proof.missing_count < proof.needed:
        return
    try:
        found = carry_forward(gateway, await backup.use(), proof.info, selection.missing(), limit)
        missing: list[bytes] = []
        lacking = 0
        async for id_, document in found:
            if document is None:
                lacking += 1
                missing += [id_] if len(missing) < _SHOWN else []
            else:
                proof.from_backup += 1
                proof.bytes += len(document)
    except InputError as error:
        proof.refused, proof.from_backup = str(error), 0
        return
    proof.missing, proof.missing_count = missing, lacking
    if lacking:
        proof.refused = f"The backup does not prove how {lacking:,} of them were at the point."


def _gaps(proofs: list[_Proof], kept: Retention) -> Iterator[Check]:
    for proof in proofs:
        shown = clean_name(proof.ns)
        if not proof.by_accident:
            yield block("images-none", f"The oplog holds no operation of this incident on {shown}.", "Plan again.")
        elif proof.missing_count:
            ids = ", ".join(id_json(one) for one in proof.missing)
            more = " and others" if proof.missing_count > len(proof.missing) else ""
            yield block(
                "images-gap",
                f"{shown}: {proof.missing_count:,} of {proof.needed:,} pre-images are not held: _id {ids}{more}.",
                f"{_why(proof, kept)} {proof.refused} Restore from a backup and the oplog (--backup PATH).",
            )
        elif proof.from_backup:
            yield ok(
                "images-from-backup",
                f"{shown}: {proof.needed - proof.from_backup:,} pre-images are held; the other {proof.from_backup:,} "
                "documents come from the backup, carried forward through the oplog.",
            )
        else:
            yield ok("images-held", f"{shown}: all {proof.needed:,} pre-images are held, {proof.bytes:,} bytes.")


def _why(proof: _Proof, kept: Retention) -> str:
    if keeps_images(proof.info) is False:
        ns = proof.info.ns
        return f"The collection keeps none; for the next time: {how_to_enable(ns.db, ns.collection)}."
    if kept.seconds is not None:
        return f"They expire after {kept.seconds:,} s, or were not kept then."
    return "The collection did not keep them then, or they expired."


def _expiring(proofs: list[_Proof], kept: Retention) -> Iterator[Check]:
    firsts = [proof.first for proof in proofs if proof.first is not None]
    if not firsts:
        return
    if not kept.known:
        yield warn(
            "images-expiring",
            "How long pre-images are kept could not be read: they may expire at any time.",
            "Run the phase secure at once. getClusterParameter on the cluster would tell.",
        )
    elif kept.seconds is not None:
        hours = (min(firsts).t + kept.seconds - datetime.now(UTC).timestamp()) / 3_600
        title = f"In about {max(hours, 0):.1f} h the first of these pre-images expires."
        if hours < _SOON_HOURS:
            yield warn("images-expiring", title, "Run the phase secure at once.")
        else:
            yield ok("images-expiring", title)


def _return(proof: _Proof, limit: Ts, live: dict[str, CollectionInfo]) -> Return:
    name = free_name(f"{proof.ns}{STAGING}{limit.time:%Y%m%dT%H%M%S}", frozenset(live))
    return Return(proof.ns, Strategy.MERGE, name, proof.by_others)
