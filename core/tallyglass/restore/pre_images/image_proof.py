"""Which images an undo needs of one collection, and whether each is held, or its document comes from a backup."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.read.entries import end_of_oplog
from tallyglass.restore.catalogue.usable_backup import UsableBackup, usable_backup
from tallyglass.restore.model.proof import Loss
from tallyglass.restore.model.source import WITH_BACKUP, Backup
from tallyglass.restore.model.way import WITHOUT_SPARE
from tallyglass.restore.pre_images.damaged import IncidentDamage
from tallyglass.restore.pre_images.settings import Retention, retention
from tallyglass.restore.timeline.coverage import hours_left
from tallyglass.restore.undo.counterfactual import LARGE
from tallyglass.restore.undo.sources.backup import carry_forward
from tallyglass.restore.undo.sources.images import ImageSelection, read_images, select
from tallyglass.text import clean_name

SHOWN = 5
"""Ids of missing images that are shown of each collection."""


@dataclass(slots=True)
class ImageProof:
    """What is known of one collection: how many images are needed, which of them are missing, and their bytes.

    ``large`` counts those of more than 8 MB, ``from_backup`` the documents that come from a backup instead; ``refused``
    says why others do not. ``again`` counts the documents whose ``_id`` was inserted again after the accident.
    """

    ns: str
    info: CollectionInfo
    needed: int
    by_accident: int
    by_others: int
    loss: Loss
    again: int
    first: Ts | None = None
    missing: list[bytes] = field(default_factory=list)
    missing_count: int = 0
    bytes: int = 0
    large: int = 0
    from_backup: int = 0
    refused: str = ""
    streamed: bool = False


def _note(proof: ImageProof, id_: bytes, document: bytes | None) -> None:
    """Count a document as it was, None where that is not known."""
    if document is None:
        proof.missing_count += 1
        proof.missing += [id_] if len(proof.missing) < SHOWN else []
    else:
        proof.bytes += len(document)
        proof.large += len(document) > LARGE


async def read_proof(gateway: Gateway, selection: ImageSelection, info: CollectionInfo) -> ImageProof:
    """Read every image once: only what the server still holds counts."""
    done = selection.operations
    loss = Loss(clean_name(selection.ns), done["i"], done["u"], done["d"])
    counts = selection.count, selection.by_accident, selection.by_others
    proof = ImageProof(selection.ns, info, *counts, loss, selection.again)
    async for image in read_images(gateway, selection):
        _note(proof, image.id, image.document)
        if image.document is None:
            selection.note_missing(image.id)
        else:
            proof.first = min(proof.first or image.key.ts, image.key.ts)
    proof.streamed = selection.streamed
    return proof


@dataclass(frozen=True, slots=True)
class ImagesProof:
    """What is known of an incident that is undone from pre-images: what it ``damaged``, the images of each damaged
    collection that is live, how long they are ``kept``, the ``backup`` that has documents without one, the ``newest``
    entry of the oplog, and for how long it still holds the point, in hours, None where that is not known."""

    damaged: IncidentDamage
    images: tuple[ImageProof, ...]
    kept: Retention
    backup: Backup | None
    newest: Ts | None = None
    hours_left: float | None = None

    @property
    def bytes(self) -> int:
        """The size of all documents as they were."""
        return sum(one.bytes for one in self.images)


async def prove_images(
    gateway: Gateway, damaged: IncidentDamage, limit: Ts, path: Path | None, start: Ts | None
) -> ImagesProof:
    """Read every image that an undo needs, and the documents without one in the backup at ``path``, if one is named.
    ``start`` is an oplog position known to lie before the backup began."""
    images: list[ImageProof] = []
    backup: UsableBackup | None = None
    for ns in damaged.names:
        if ns not in damaged.live:
            continue
        with closing(await select(gateway, damaged.found.accident, ns, limit)) as selection:
            proof = await read_proof(gateway, selection, damaged.live[ns])
            if proof.missing_count and path is not None:
                try:
                    backup = backup or await usable_backup(gateway, path, limit, start)
                    proof = await _with_backup(gateway, selection, proof, backup, limit)
                except InputError as error:
                    proof.refused = str(error)
            images.append(proof)
    used = None
    if backup is not None and any(one.from_backup for one in images):
        form = WITH_BACKUP if any(one.first for one in images) else WITHOUT_SPARE
        used = replace(backup.contents.backup, form=form, gzip=False, bytes=0)
    kept, newest = await retention(gateway), await end_of_oplog(gateway, -1)
    return ImagesProof(damaged, tuple(images), kept, used, newest, await hours_left(gateway, limit))


async def _with_backup(
    gateway: Gateway, selection: ImageSelection, proof: ImageProof, backup: UsableBackup, limit: Ts
) -> ImageProof:
    """The proof with the documents without an image from the backup, all of them where there is no image at all. Raises
    InputError, which says why it cannot be used."""
    found = replace(proof, missing=[], missing_count=0)
    async for id_, document in carry_forward(gateway, backup, proof.info, selection.missing(), limit):
        _note(found, id_, document)
        found.from_backup += document is not None
    if found.missing_count:
        found.refused = f"The backup does not prove how {found.missing_count:,} of them were at the point."
    return found
