"""Checks of the pre-images that were read: is each held, and for how long?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.checks.images import collections
from tallyglass.restore.checks.undone import expired, large_documents, unclear
from tallyglass.restore.checks.window import SHORT_HEAD_ROOM_HOURS, head_room
from tallyglass.restore.model.check import Check, block, ok, warn
from tallyglass.restore.pre_images.damaged import IncidentDamage
from tallyglass.restore.pre_images.image_proof import ImageProof, ImagesProof
from tallyglass.restore.pre_images.settings import Retention, how_to_enable, keeps_images
from tallyglass.restore.undo.outcome_rows import id_json
from tallyglass.text import clean_name


def damage(damaged: IncidentDamage, incident: Incident) -> Iterator[Check]:
    """Checks that it is known what is undone, and that its collections are live."""
    found = damaged.found
    yield from expired(found.accident, damaged.expiring)
    yield from unclear(found.accident, found.doubts, found.groups, incident)
    yield from collections(damaged.names, damaged.live, damaged.renamed, incident)


def held(proven: ImagesProof) -> Iterator[Check]:
    """Checks that each image is held, how it is read, and for how long it still is."""
    accident, proofs, kept = proven.damaged.found.accident, proven.images, proven.kept
    yield from _gaps(proofs, kept)
    yield from large_documents(accident, {proof.ns: proof.large for proof in proofs})
    if any(proof.streamed for proof in proofs):
        title = "This user may not read config.system.preimages: the images come through a change stream, more slowly."
        yield ok("images-stream", title)
    yield from _expiring(proofs, kept, proven.newest)
    # What was written from the point on no phase saves.
    before = "The return reads the oplog from there on: run all phases before that"
    yield from head_room(proven.hours_left, "the point", before, "Run all phases at once.")


def _gaps(proofs: Sequence[ImageProof], kept: Retention) -> Iterator[Check]:
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


def _expiring(proofs: Sequence[ImageProof], kept: Retention, newest: Ts | None) -> Iterator[Check]:
    """When the first image expires. The newest entry tells the time of the server; that of this host may be another."""
    firsts = [proof.first for proof in proofs if proof.first is not None]
    if not firsts or newest is None:
        return
    if not kept.known:
        yield warn(
            "images-expiring",
            "How long pre-images are kept could not be read: they may expire at any time.",
            "Run the phase secure at once. getClusterParameter on the cluster would tell.",
        )
    elif kept.seconds is not None:
        hours = (min(firsts).t + kept.seconds - newest.t) / 3_600
        title = f"In about {max(hours, 0):.1f} h the first of these pre-images expires."
        if hours < SHORT_HEAD_ROOM_HOURS:
            yield warn("images-expiring", title, "Run the phase secure at once.")
        else:
            yield ok("images-expiring", title)
