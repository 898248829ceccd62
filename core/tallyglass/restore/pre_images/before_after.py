"""A document before and after one oplog entry, if the server holds its pre-image; otherwise why it is unknown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry import json
from tallyglass.oplog.entry.changes import Unfit, apply_update, differing, get
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.entry.wording import path_text, value_text
from tallyglass.restore.pre_images.settings import (
    COST,
    ROLE,
    SINCE,
    can_keep_images,
    how_to_enable,
    keeps_images,
    oldest_image,
    retention,
)
from tallyglass.restore.tools.toolset import version_pair
from tallyglass.restore.undo.sources.images import ImageKey, images_between
from tallyglass.text import clean_name, plural

_OPERATIONS = 20
"""How many operations of one transaction are shown."""
_CHANGES = 200
"""Changed fields of one document that are shown: about ten screens."""
_DOCUMENT = 20_000
"""Characters of a document that are shown, also about ten screens."""


@dataclass(frozen=True, slots=True)
class BeforeAfterText:
    """Lines, safe to show and bounded: ``found`` is what changed; ``notes`` say what is unknown and why, and how long
    images are kept."""

    found: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


async def before_and_after(gateway: Gateway, raw: bytes, lists: str = "X") -> BeforeAfterText:
    """What an update or delete did to its document, or a transaction to the first of its documents; empty for other
    entries. ``lists`` is the key that lists all operations of a transaction. Raises the errors of the gateway."""
    try:
        entry = read_entry(raw)
        operations = list(islice(_operations(entry), _OPERATIONS))
    except Malformed:
        return BeforeAfterText()
    if not operations:
        return BeforeAfterText()
    first = operations[0][1]
    mine = {ImageKey(first.ui, entry.ts, place): one for place, one in operations if one.ui == first.ui}
    try:
        held = {key: image async for key, image in images_between(gateway, min(mine), max(mine))}
    except PrivilegeError as error:
        why = await _too_old(gateway) or f"before: unknown. {error.title} In mongosh: {ROLE}"
        return BeforeAfterText(notes=(why,))
    found = [line for key, one in mine.items() if key in held for line in _difference(one, held[key])]
    notes = [line async for line in _kept(gateway, first, held=bool(held))]
    if entry.command == "applyOps":
        lacking = sum(key not in held for key in mine)
        read = plural(len(mine), "operation")
        notes.append(f"Of this entry, {read} on {clean_name(first.ns)} could be read; {lists} lists all.")
        notes += [f"before: unknown for {lacking} of them."] if held and lacking else []
    return BeforeAfterText(tuple(found), tuple(notes))


def _operations(entry: Entry) -> Iterator[tuple[int, Entry]]:
    """The updates and deletes, each with its index in the entry."""
    inside = entry.inner() if entry.command == "applyOps" else (entry,)
    for place, operation in enumerate(inside):
        if operation.op in ("u", "d") and operation.ui:
            yield place, operation


def _id_text(operation: Entry) -> str:
    found = operation.id_at
    return json.id_text(operation.raw, found) if found else "unknown"


def _difference(operation: Entry, before: bytes) -> Iterator[str]:
    """The fields that an update changed; the whole document that a delete removed."""
    of = f"_id {_id_text(operation)}, from its pre-image:"
    try:
        if operation.op == "d":
            yield f"before, {of}"
            yield from json.block(before, limit=_DOCUMENT).split("\n")
            return
        after = apply_update(before, operation.o_raw)
        paths = list(islice(differing(before, after), _CHANGES + 1))
        yield f"before -> after, {of}" if paths else f"the same before and after, {of}"
        for path in paths[:_CHANGES]:
            yield f"  {path_text(path)}: {value_text(get(before, path))} -> {value_text(get(after, path))}"
        if len(paths) > _CHANGES:
            yield "  ..."
    except (Unfit, Malformed):
        yield f"after: unknown, the update does not fit. before, {of}"
        yield from json.block(before, limit=_DOCUMENT).split("\n")


async def _too_old(gateway: Gateway) -> str:
    """That the server keeps no images, whatever a role allows; empty where it may keep some."""
    version = (await look_at(gateway)).version
    pair = version_pair(version)
    old = pair is not None and pair < SINCE
    return f"before: unknown. MongoDB {version} keeps no pre-images; 6.0 and later do." if old else ""


async def _kept(gateway: Gateway, operation: Entry, *, held: bool) -> AsyncIterator[str]:
    """How long the collection keeps its images; if there is none, why not and how to enable them."""
    shown = clean_name(operation.ns)
    if held:
        oldest = await oldest_image(gateway, operation.ui)
        since = f", the oldest held is from {oldest:%Y-%m-%d %H:%M:%SZ}" if oldest else ""
        yield f"{shown} keeps pre-images {(await retention(gateway)).words}{since}."
        return
    if why := await _too_old(gateway):
        yield why
        return
    try:
        found = await gateway.list_collections(operation.db)
    except (PrivilegeError, ReadError) as error:
        yield f"before: unknown, its pre-image is not held. {error.title}"
        return
    info = next((one for one in found if one.uuid == operation.ui), None)
    if info is None:
        yield f"before: unknown. No pre-image is held, and the collection that was {shown} is not there any more."
    elif not can_keep_images(info):
        yield f"before: unknown. {shown} is of a time-series collection, which cannot keep pre-images."
    elif keeps_images(info) is False:
        yield f"before: unknown. {shown} keeps no pre-images. To switch them on, as dbAdmin in mongosh:"
        yield f"  {how_to_enable(info.ns.db, info.ns.collection)}"
        yield f"  {COST}"
    elif keeps_images(info):
        yield f"before: unknown. {shown} keeps pre-images {(await retention(gateway)).words}; this one is not held."
    else:
        yield f"before: unknown. No pre-image is held; whether {shown} keeps any may not be read."
