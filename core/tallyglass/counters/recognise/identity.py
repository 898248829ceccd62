"""The identity of a counter: its location, a stable key, and its id as text that is safe to show."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import bson
from bson import json_util
from bson.objectid import ObjectId

from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.recognise.config import IdField, Resets, Rule
from tallyglass.counters.recognise.guess import LOOSE
from tallyglass.counters.recognise.shapes import Shape, dig
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.codec import CODEC
from tallyglass.mongo.gateway import Document, Namespace
from tallyglass.text import clean, clean_name

_ID_CHARACTERS = 120  # of an id as text: what a wide screen shows
_LEAST_NAME = 3
"""A shorter name is in many others by chance."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The constant facts about a counter: its location, name and library.

    ``doc_id`` is the raw ``_id``, not safe to show; it is None for a pool. All of the ``targets`` have ids of
    the counter if ``uses_all_targets``, else the first that exists. ``is_step_known``: the step is configured,
    or in the document; ``is_step_configured``, ``are_consumers_known``, ``is_target_named``: the step, the consumer,
    the target is configured. ``ids_apart``: so far apart its ids in the targets are; those in between may be of
    other counters.
    """

    key: str
    ns: Namespace
    ns_text: str
    doc_id: Any
    id: str
    path: str
    field: str
    shape: str
    library: str
    semantics: Semantics
    start: int = 0
    bound: int | None = None
    bound_name: str = "MAX_VALUE"
    consumers: tuple[Consumer, ...] = ()
    are_consumers_known: bool = False
    digits: int | None = None
    confidence: float = 1.0
    targets: tuple[IdField, ...] = ()
    uses_all_targets: bool = False
    is_target_named: bool = False
    step: int = 1
    is_step_known: bool = False
    is_step_configured: bool = False
    ids_apart: int = 1
    block: int = 1
    int64_ids: bool = False
    cycle: bool = False
    cycles_in_use: bool = False
    resets: Resets | None = None
    text: bool = False
    grade: Grade = Grade.LIKELY
    evidence: str = ""

    @property
    def starts_again(self) -> bool:
        """Whether it goes back on purpose, as it is configured or was seen in use."""
        return self.cycles or self.resets is not None

    @property
    def cycles(self) -> bool:
        """Whether it starts again after its last id, so that this is no end."""
        return self.cycle or self.cycles_in_use

    def turns_at(self, limit: int) -> bool:
        """Whether it starts again after ``limit``, the end of its own range: at the end of its type it fails."""
        digits = None if self.digits is None else 10**self.digits - 1
        return self.cycles and limit in (self.bound, digits)

    @property
    def is_loose(self) -> bool:
        """Whether no more than a common name speaks for it, and its ids were not seen in use."""
        return self.confidence <= LOOSE and self.grade is not Grade.CERTAIN

    @property
    def direction(self) -> int:
        """1 for a counter that rises, -1 for one that descends."""
        return -1 if self.step < 0 else 1


def document_key(identity: Any) -> Hashable:
    """A hashable key that is unique to an ``_id``."""
    if isinstance(identity, (str, ObjectId)):
        return identity
    return bson.encode({"": identity})


def identity_of(key: Hashable) -> Any:
    """The ``_id`` that a :func:`document_key` is of."""
    return bson.decode(key, CODEC)[""] if isinstance(key, bytes) else key


def id_text(value: Any) -> str:
    """An ``_id`` or a part of one as text, safe to show: names as they are, everything else as compact JSON.

    One that is cut off ends in a hash of the whole, so that patterns and monitoring can tell it from others.
    """
    whole, short = _texts(value)
    if len(whole) <= _ID_CHARACTERS:
        return short
    return f"{short}#{hashlib.sha256(whole.encode(errors='surrogatepass')).hexdigest()[:8]}"


def _texts(value: Any) -> tuple[str, str]:
    """An ``_id`` as text, and what of it is shown."""
    if not isinstance(value, str) and isinstance(value, Mapping) and set(value) == {"db", "coll"}:
        value = f"{value['db']}.{value['coll']}"
    if isinstance(value, (str, ObjectId)):
        whole = str(value)
        return whole, clean_name(whole, _ID_CHARACTERS)
    whole = json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS, separators=(",", ":"))
    return whole, clean(whole, _ID_CHARACTERS)


def label_of(shape: Shape, path: str, document: Document) -> str:
    """The display name of the counter in a document."""
    if shape.label == ("_id",) and not shape.number.endswith("*"):
        return id_text(document.get("_id"))
    spare = {key: value for key, value in document.items() if key not in ("_id", path) and key not in shape.keys}
    named = ((spare or None) if where == "*" else dig(document, where) for where in shape.label)
    parts = [id_text(part) for part in named if part is not None and part != ""]
    if shape.number.endswith("*"):
        parts.append(id_text(path))
    return ".".join(parts) or id_text(document.get("_id"))


def counter_key(ns_text: str, identity: Any, path: str) -> str:
    """A unique key for one number, the same in every snapshot and run."""
    # Without the fingerprint of a long one: the samples of earlier runs are kept under this key.
    _, text = _texts(identity)
    if not isinstance(identity, ObjectId) and text != identity:
        text += "#" + hashlib.sha256(bson.encode({"": identity})).hexdigest()[:12]
    return f"{ns_text}/{text}/{clean_name(path, _ID_CHARACTERS)}"


def apply_rule(identity: Identity, rule: Rule) -> Identity:
    """The identity with the settings of a configuration rule applied."""
    step = rule.step if rule.step is not None else identity.step
    bound, first = rule.max if step > 0 else rule.min, rule.first(step)
    return replace(
        identity,
        id=rule.name or identity.id,
        semantics=rule.semantics or identity.semantics,
        start=identity.start if first is None else first,
        bound=identity.bound if bound is None else bound,
        bound_name=identity.bound_name if bound is None else f"{'max' if step > 0 else 'min'} (configured)",
        digits=identity.digits if rule.digits is None else rule.digits,
        consumers=identity.consumers if rule.consumer is None else (rule.consumer,),
        are_consumers_known=rule.consumer is not None,
        targets=rule.targets or identity.targets,
        uses_all_targets=identity.uses_all_targets and not rule.targets,
        is_target_named=rule.target is not None,
        ids_apart=1 if rule.targets and not {*rule.targets}.intersection(identity.targets) else identity.ids_apart,
        confidence=1.0,
        step=step,
        is_step_known=identity.is_step_known or rule.step is not None,
        is_step_configured=rule.step is not None,
        block=rule.block or identity.block,
        cycle=rule.cycle or identity.cycle,
        resets=rule.resets,
        grade=Grade.CERTAIN,
        evidence="Named in the configuration.",
    )


def resembles(collection: str, names: Iterable[str]) -> bool:
    """Whether the name of a collection and one of the ``names`` of a counter contain each other, but for a plural."""
    stem = collection.lower().rstrip("s")
    stems = [name.lower().rstrip("s") for name in names]
    return any(min(len(one), len(stem)) >= _LEAST_NAME and (one in stem or stem in one) for one in stems)
