"""Which collections keep pre-images, for how long, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import MaxKey
from bson.binary import UUID_SUBTYPE, Binary

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.mongo.mongosh import MAJORITY, literal
from tallyglass.oplog.snapshot import BUCKETS
from tallyglass.restore.undo.sources.images import PRE_IMAGES

SINCE = (6, 0)
"""The first version that keeps images."""

COST = "Each update and delete then stores the whole document as it was: about 37 % fewer mass writes per second."
"""Measured with documents of 520 bytes on MongoDB 6.0; single journalled writes showed no difference."""

ROLE = (
    'db.getSiblingDB("admin").createRole({role: "readPreImages", privileges: '
    '[{resource: {db: "config", collection: "system.preimages"}, actions: ["find"]}, '
    '{resource: {cluster: true}, actions: ["getClusterParameter"]}], roles: []})'
)
"""mongosh text for a role that may read images; among the built-in roles only ``root`` may."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long images are kept: ``seconds``, or as long as their oplog entry if ``off``. Both are unset if this user
    may not run ``getClusterParameter``."""

    seconds: int | None = None
    off: bool = False

    @property
    def known(self) -> bool:
        """Whether the server reported it."""
        return self.off or self.seconds is not None

    @property
    def words(self) -> str:
        """The words that follow "kept"."""
        return f"for {self}" if self.seconds is not None else str(self) if self.off else "for an unknown time"

    def __str__(self) -> str:
        if self.off:
            return "as long as the oplog"
        return f"{self.seconds} s" if self.seconds is not None else "unknown"


async def retention(gateway: Gateway) -> Retention:
    """The cluster parameter ``changeStreamOptions``."""
    try:
        reply = await gateway.command("getClusterParameter", "changeStreamOptions")
    except (PrivilegeError, ReadError):
        return Retention()
    return parse_retention(reply)


def parse_retention(reply: Mapping[str, Any]) -> Retention:
    """The answer of ``getClusterParameter``."""
    for parameter in reply.get("clusterParameters", ()):
        seconds = (parameter.get("preAndPostImages") or {}).get("expireAfterSeconds")
        if seconds == "off":
            return Retention(off=True)
        if isinstance(seconds, int):
            return Retention(int(seconds))
    return Retention()


def keeps_images(info: CollectionInfo) -> bool | None:
    """Whether a collection keeps images; None if this user may not read its options."""
    if info.options is None:
        return None
    option = info.options.get("changeStreamPreAndPostImages")
    return bool(option.get("enabled")) if isinstance(option, Mapping) else False


def can_keep_images(info: CollectionInfo) -> bool:
    """Whether a collection can be made to keep images: the server refuses it for a time-series collection."""
    return info.kind != "timeseries" and not info.ns.collection.startswith(BUCKETS)


def how_to_enable(db: str, collection: str) -> str:
    """mongosh text that enables pre-images for a collection; it needs ``collMod`` (``dbAdmin``)."""
    body = {"collMod": collection, "changeStreamPreAndPostImages": {"enabled": True}, "writeConcern": MAJORITY}
    return f"db.getSiblingDB({literal(db)}).runCommand({literal(body)})"


async def oldest_image(gateway: Gateway, collection: bytes) -> datetime | None:
    """When the oldest image of a collection was stored; None if there is none. Raises the gateway's errors."""
    uuid = Binary(collection, UUID_SUBTYPE)
    query = {"_id": {"$gte": {"nsUUID": uuid}, "$lt": {"nsUUID": uuid, "ts": MaxKey()}}}
    found = await gateway.find_one(PRE_IMAGES, query, projection={"operationTime": 1}, sort=[("_id", 1)])
    stored = None if found is None else found.get("operationTime")
    return stored if isinstance(stored, datetime) else None
