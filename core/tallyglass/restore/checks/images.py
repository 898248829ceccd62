"""Checks of the pre-images of an incident: can there be any, and is each of them held?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tallyglass.deployment.cluster import Deployment
from tallyglass.mongo.gateway import CollectionInfo
from tallyglass.oplog.incidents.verdict import MAYBE_TTL
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.checks.outcome import block, ok, warn
from tallyglass.restore.model.check import Check
from tallyglass.restore.pre_images.image_proof import ImageProof
from tallyglass.restore.pre_images.settings import SINCE, Retention, how_to_enable, keeps_images
from tallyglass.restore.proof.returns import LONGEST_NAMESPACE
from tallyglass.restore.tools.toolset import version_pair
from tallyglass.restore.undo.incident_scope import written
from tallyglass.restore.undo.outcome import id_json
from tallyglass.text import clean_name

_SOON_HOURS = 24
GONE = (
    "If it was renamed, rename it back and plan again: its pre-images are held. A drop leaves none: restore from a "
    "backup and the oplog."
)


def possible(deployment: Deployment, incident: Incident) -> Iterator[Check]:
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


def collections(names: list[str], live: dict[str, CollectionInfo], incident: Incident) -> Iterator[Check]:
    """Checks that the collections of the incident still exist, and that copies of them can be named."""
    gone = [clean_name(name) for name in names if name not in live] if names else [incident.ns]
    for shown in gone:
        yield block(
            "images-collection",
            f"{shown} no longer exists.",
            GONE,
        )
    for name in names:
        if "$" in name or len(name.encode()) > LONGEST_NAMESPACE - 40:
            yield block("images-name", f"{clean_name(name)}: its name cannot be lengthened for a copy.")


def gaps(proofs: list[ImageProof], kept: Retention) -> Iterator[Check]:
    """Checks that no image is missing of any collection."""
    for proof in proofs:
        shown = clean_name(proof.ns)
        if not proof.by_accident:
            yield block("images-none", f"The oplog holds no operation of this incident on {shown}.", "Plan again.")
        elif proof.missing_count:
            yield block(
                "images-gap",
                f"{shown}: {_missing(proof)}.",
                f"{_why(proof, kept)} {proof.refused} Restore from a backup and the oplog (--backup PATH).",
            )
        elif proof.from_backup:
            yield ok(
                "images-from-backup",
                f"{shown}: {_from_backup(proof)} come from the backup, carried forward through the oplog.",
            )
        else:
            yield ok("images-held", f"{shown}: all {proof.needed:,} pre-images are held, {proof.bytes:,} bytes.")


def _missing(proof: ImageProof) -> str:
    """How many images are not held, and of which documents where that tells them apart."""
    if proof.missing_count == proof.needed:
        return f"none of the {proof.needed:,} pre-images is held"
    ids = ", ".join(id_json(one) for one in proof.missing)
    more = " and others" if proof.missing_count > len(proof.missing) else ""
    return f"{proof.missing_count:,} of {proof.needed:,} pre-images are not held: _id {ids}{more}"


def _from_backup(proof: ImageProof) -> str:
    held = proof.needed - proof.from_backup
    if not held:
        return f"no pre-image is held; all {proof.needed:,} documents"
    return f"{held:,} pre-images are held; the other {proof.from_backup:,} documents"


def _why(proof: ImageProof, kept: Retention) -> str:
    if keeps_images(proof.info) is False:
        ns = proof.info.ns
        return f"The collection keeps none; for the next time: {how_to_enable(ns.db, ns.collection)}."
    if kept.seconds is not None:
        return f"They expire after {kept.seconds:,} s, or were not kept then."
    return "The collection did not keep them then, or they expired."


def streamed(proofs: list[ImageProof]) -> Iterator[Check]:
    """Tells where the images are read more slowly for lack of a privilege."""
    if any(proof.streamed for proof in proofs):
        title = "This user may not read config.system.preimages: the images come through a change stream, more slowly."
        yield ok("images-stream", title)


def expiring(proofs: list[ImageProof], kept: Retention) -> Iterator[Check]:
    """Tells when the first image expires."""
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
