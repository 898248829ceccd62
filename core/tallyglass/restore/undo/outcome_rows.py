"""What the account says of one namespace: counts, and what is damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from bson import json_util

from tallyglass.oplog.entry.changes import build
from tallyglass.restore.backup.bson_file import decode

CANONICAL = json_util.CANONICAL_JSON_OPTIONS


@dataclass(frozen=True, slots=True)
class Damaged:
    """One document or definition that is still damaged: its ``_id`` as Extended JSON, and why."""

    ns: str
    id: str
    why: str
    left_alone: bool = False
    """Whether it was left alone on purpose: what others did since stays."""

    @property
    def where(self) -> str:
        """The namespace, and the ``_id`` of a document."""
        return f"{self.ns} {self.id}" if self.id else self.ns

    def line(self) -> str:
        """Return one line of JSON, in printable ASCII."""
        return json.dumps({"ns": self.ns, "_id": json.loads(self.id) if self.id else None, "why": self.why})


@dataclass(slots=True)
class NamespaceOutcome:
    """The documents of one namespace that the accident touched: those that came back, those that were right before,
    those that others wrote or deleted since and that are as they would be, and those that are not."""

    ns: str
    restored: int = 0
    already: int = 0
    returned: int = 0
    """How many of those that were right before an earlier return had brought back."""
    left: int = 0
    damaged: list[Damaged] = field(default_factory=list)
    """Documents and definitions that are not as they would be."""
    empty: bool = False
    """Whether it is as it was, and had no documents to bring back: it was empty, or only definitions had changed."""

    @property
    def unclear(self) -> int:
        """The documents that were left alone and hold the accident's value, one computed from it, or a doubt."""
        return sum(one.left_alone for one in self.damaged)

    @property
    def still_damaged(self) -> int:
        """The documents that could not be written."""
        return sum(bool(one.id) and not one.left_alone for one in self.damaged)

    @property
    def touched(self) -> int:
        """All documents that the accident touched."""
        return self.restored + self.already + self.left + self.unclear + self.still_damaged


def id_json(key: bytes) -> str:
    """An ``_id``, a type byte and the value's bytes, as canonical Extended JSON."""
    raw = build({b"_id": (key[0], key[1:])})
    return json_util.dumps(decode(raw)["_id"], json_options=CANONICAL)
