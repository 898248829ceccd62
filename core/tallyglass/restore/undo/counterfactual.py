"""One document as it is, and as it would be without the accident: both from its copy at the point and the oplog."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import (
    Fields,
    Path,
    Unfit,
    apply_update,
    build,
    differing,
    get,
    is_replacement,
    parse,
    put,
    repeats_name,
)


class Verdict(StrEnum):
    """What to do about a document that the accident touched."""

    DAMAGED = "damaged"
    """It differs from what it would be without the accident, and can be repaired."""
    WHOLE = "whole"
    """It is as it would be without the accident."""
    LEFT = "left"
    """Others deleted it or wrote the same field since: their change stays."""
    UNCLEAR = "unclear"
    """What the accident changed and what others changed cannot be separated."""


@dataclass(slots=True)
class Counterfactual:
    """Feed the operations on one document in order. ``actual`` is the document as it is, ``wanted`` as it would be
    without the accident's operations; None where there is none."""

    actual: bytes | None
    wanted: bytes | None
    overwritten: bool = False
    unclear: bool = False
    hits: int = 0
    deleted: tuple[bytes | None, bytes | None, bool] = (None, None, False)
    """``actual``, ``wanted`` and ``overwritten`` before others last deleted it."""

    @property
    def verdict(self) -> Verdict:
        """The result after all operations."""
        if self.unclear:
            return Verdict.UNCLEAR
        if self.actual == self.wanted:
            return Verdict.LEFT if self.overwritten or self.wanted is None else Verdict.WHOLE
        return Verdict.LEFT if self.wanted is None else Verdict.DAMAGED

    def accident(self, op: str, o: bytes) -> None:
        """An operation of the accident: i, u or d. Raises Malformed for broken BSON."""
        self.hits += 1
        if op == "u":
            try:
                self.actual = None if self.actual is None else apply_update(self.actual, o)
            except Unfit:
                self.unclear = True
        else:
            self.actual = o if op == "i" else None

    def others(self, op: str, o: bytes) -> None:
        """An operation of somebody else. Raises Malformed for broken BSON."""
        if op == "d":
            self.deleted = self.actual, self.wanted, self.overwritten
            self.overwritten |= self.actual != self.wanted
            self.actual = self.wanted = None
        elif op == "i":
            self.overwritten |= self.wanted is not None and o != self.wanted
            self.actual = self.wanted = o
        else:
            try:
                self._update(o)
            except Unfit:
                self.unclear = True

    def returned(self, o: bytes) -> None:
        """An insert by which an earlier return undid a delete: where it brings back the very document that was deleted,
        that document is still the accident's, and neither the delete nor the insert is others' work."""
        if o == self.deleted[0]:
            self.actual, self.wanted, self.overwritten = self.deleted
        else:
            self.others("i", o)

    def _update(self, o: bytes) -> None:
        before, wanted = self.actual, self.wanted
        if before is None:
            return
        self.actual = after = apply_update(before, o)
        if wanted is None or after == wanted:
            return  # put there by the accident; or set right by this update
        if before == wanted:
            self.wanted = after
            return
        damaged = list(differing(before, wanted))
        inside = any(_is_array(before, path) and get(after, path) != get(before, path) for path in damaged)
        if inside and not is_replacement(o):
            self.unclear = True  # elements by their place, in an array that had other elements
            return
        result = after if is_replacement(o) else apply_update(wanted, o)
        for path in damaged:
            if get(after, path) != get(before, path):
                self.overwritten = True
            elif len(path) == 1 or _is_document(result, path[:-1]):
                result = put(result, path, get(wanted, path))
        self.wanted = result


def _is_array(document: bytes, path: Path) -> bool:
    found = get(document, path)
    return found is not None and found[0] == walk.ARRAY


def _is_document(document: bytes, path: Path) -> bool:
    found = get(document, path)
    return found is not None and found[0] == walk.DOCUMENT


LARGEST = 15 * 1024 * 1024
"""A repair that is larger cannot be loaded as one document."""


def repair(identity: tuple[int, bytes], actual: bytes | None, wanted: bytes) -> bytes | None:
    """The document that is loaded into the staging collection: ``_id``, and ``r`` as it is to be.

    For a live document also ``f``, its top-level fields that differ: ``k`` the name, ``l`` the value that the accident
    left, ``r`` the one to set; either is missing where the field is. ``l`` at the top is the whole live document where
    setting the fields one by one would come to another order of them. None where it would be too large, and where a
    document that is changed has one field name twice: the server changes no such document without a loss.
    """
    fields: Fields = {b"_id": identity, b"r": (walk.DOCUMENT, wanted)}
    if actual is not None:
        try:
            here, there = parse(actual), parse(wanted)
        except Unfit:
            return None
        result = dict(here)
        items: Fields = {}
        for name in dict.fromkeys((*here, *there)):
            left, right = here.get(name), there.get(name)
            if left == right:
                continue
            if any(map(repeats_name, filter(None, (left, right)))):
                return None
            item: Fields = {b"k": (walk.STRING, len(name + b"\0").to_bytes(4, "little") + name + b"\0")}
            item |= {b"l": left} if left is not None else {}
            item |= {b"r": right} if right is not None else {}
            items[str(len(items)).encode()] = (walk.DOCUMENT, build(item))
            if right is None:
                result.pop(name, None)
            else:
                result[name] = right
        fields[b"f"] = (walk.ARRAY, build(items))
        if list(result) != list(there):
            fields[b"l"] = (walk.DOCUMENT, actual)
            if sum(len(value) for _, value in fields.values()) > LARGEST:
                del fields[b"l"]
    raw = build(fields)
    return raw if len(raw) <= LARGEST else None
