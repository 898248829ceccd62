"""Match entries against a filter, from their bytes; caches the verdict on each operation and namespace."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Any

import bson

from tallyglass.moment import Ts
from tallyglass.oplog.decode import describe, render, walk
from tallyglass.oplog.decode.head import (
    NESTING_LIMIT,
    Head,
    command_of,
    inner_heads,
    read_head,
    session_text,
    target_of,
)
from tallyglass.oplog.decode.identity import candidates
from tallyglass.oplog.decode.walk import Element, Malformed
from tallyglass.oplog.filter.query import OplogFilter, compile_text, glob_pattern, is_glob
from tallyglass.text import unescape_name

REGEX_LIMIT = 4_000
"""Characters of an entry that a regular expression is tried on."""

_CACHE_LIMIT = 20_000


class FilterMatcher:
    """Decides which entries a filter wants."""

    def __init__(self, wanted: OplogFilter) -> None:
        self.wanted = wanted
        self._keep_ops = {op for op in wanted.ops if not op.startswith("!")}
        self._leave_ops = {op[1:] for op in wanted.ops if op.startswith("!")}
        self._keep_ns = _names(tuple(n for n in wanted.namespaces if not n.startswith("!")))
        self._leave_ns = _names(tuple(n[1:] for n in wanted.namespaces if n.startswith("!")))
        self._ids = IdMatcher(wanted.id) if wanted.id else None
        self._text = TextMatcher(wanted.text) if wanted.text else None
        self._ns_verdicts: dict[str, bool] = {}
        session, _, number = wanted.transaction.partition(":")
        self._transaction = (session, int(number)) if number.isdigit() else None

    @property
    def by_envelope(self) -> bool:
        """Whether operation and namespace alone decide on an insert, update or delete."""
        wanted = self.wanted
        return not (wanted.id or wanted.text or wanted.transaction or wanted.since or wanted.until)

    def may_want(self, batch: bytes, start: int, end: int) -> bool:
        """Whether the bytes of an entry hold what the id and the text ask for: a fast look before the exact one."""
        if self._ids is not None and not self._ids.may_match(batch, start, end):
            return False
        return self._text is None or self._text.may_match(batch, start, end)

    def wants(self, raw: bytes) -> bool:
        """Whether the filter wants this entry. One that is not readable is wanted: it must not pass unseen."""
        try:
            return self.wants_head(read_head(raw))
        except Malformed:
            return True

    def wants_head(self, head: Head) -> bool:
        """The same for an entry whose envelope is read. Raises Malformed."""
        wanted = self.wanted
        if head.op == "n" and not wanted.noops:
            return False
        if not _in_time(head.ts, wanted):
            return False
        if self._transaction and not self._same_transaction(head):
            return False
        return self._wants_operation(head, 0) and (self._text is None or self._text.found_in(head))

    def wants_envelope(self, op: str, ns: str) -> bool:
        """The verdict on an insert, update or delete where :attr:`by_envelope` holds."""
        return self._wants_op(op) and self._wants_ns(ns) and (not self.wanted.destructive or op == "d")

    def _wants_operation(self, head: Head, depth: int) -> bool:
        first = command_of(head) if head.op == "c" else None
        if first is not None and first.name == b"applyOps" and depth < NESTING_LIMIT:
            return self._wants_apply_ops(head, depth)
        if not self._wants_op(head.op):
            return False
        if not self._wants_command(head) if head.op == "c" else not self._wants_ns(head.ns):
            return False
        if self.wanted.destructive and not (head.op == "d" or (head.op == "c" and describe.describe(head).destructive)):
            return False
        return self._ids is None or self._ids.match(head)

    def _wants_apply_ops(self, head: Head, depth: int) -> bool:
        if "c" in self._leave_ops:
            return False
        asked = self._keep_ns or self._leave_ns or self._ids or self.wanted.destructive or self.wanted.ops
        if not asked:
            return True
        if "c" in self._keep_ops and not (self._keep_ns or self._leave_ns or self._ids or self.wanted.destructive):
            return True
        return any(self._wants_inner(inner, depth) for inner in inner_heads(head))

    def _wants_inner(self, inner: Head, depth: int) -> bool:
        if "c" in self._keep_ops and inner.op in "iud":
            return (
                self._wants_ns(inner.ns)
                and (not self.wanted.destructive or inner.op == "d")
                and (self._ids is None or self._ids.match(inner))
            )
        return self._wants_operation(inner, depth + 1)

    def _wants_op(self, op: str) -> bool:
        return op not in self._leave_ops and (not self._keep_ops or op in self._keep_ops)

    def _wants_command(self, head: Head) -> bool:
        """By the collection that it acts on, or that a rename makes."""
        if self._wants_ns(target_of(head)):
            return True
        to = head.within(head.o, b"to")
        return to is not None and self._wants_ns(walk.text(head.raw, to))

    def _wants_ns(self, ns: str) -> bool:
        verdict = self._ns_verdicts.get(ns)
        if verdict is None:
            verdict = (self._keep_ns is None or self._keep_ns(ns)) and not (self._leave_ns and self._leave_ns(ns))
            if len(self._ns_verdicts) >= _CACHE_LIMIT:
                self._ns_verdicts.clear()
            self._ns_verdicts[ns] = verdict
        return verdict

    def _same_transaction(self, head: Head) -> bool:
        return (session_text(head), head.txn) == self._transaction


def _in_time(ts: Ts, wanted: OplogFilter) -> bool:
    return (wanted.since is None or ts >= wanted.since) and (wanted.until is None or ts < wanted.until)


def _names(globs: tuple[str, ...]) -> Callable[[str], bool] | None:
    """Whether any of the globs matches a namespace; a glob of a whole database matches its name alone too."""
    if not globs:
        return None
    exact = frozenset(unescape_name(glob) for glob in globs if not is_glob(glob))
    exact |= {unescape_name(glob.removesuffix(".*")) for glob in globs if glob.endswith(".*")}
    patterns = [re.compile(glob_pattern(glob), re.DOTALL) for glob in globs if is_glob(glob)]
    return lambda ns: ns in exact or any(pattern.fullmatch(ns) for pattern in patterns)


class IdMatcher:
    """Whether an operation touches the document of one ``_id``."""

    def __init__(self, text: str) -> None:
        values = list(candidates(text))
        self._numbers = {v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)}
        self._encoded = {_encoded(value) for value in values}
        forms = {bytes((kind,)) + body for number in self._numbers for kind, body in _forms(number)}
        self._byte_patterns = [form[:1] + b"_id\0" + form[1:] for form in self._encoded | forms]

    def may_match(self, batch: bytes, start: int, end: int) -> bool:
        """Whether the bytes hold such an ``_id`` anywhere."""
        return any(batch.find(needle, start, end) >= 0 for needle in self._byte_patterns)

    def match(self, head: Head) -> bool:
        """Raises Malformed."""
        found = head.document_id if head.op in "iud" else None
        if found is None:
            return False
        if self._numbers:
            number = walk.whole_number(head.raw, found)
            if number is not None and number in self._numbers:
                return True
        return bytes((found.type,)) + head.raw[found.start : found.end] in self._encoded


def _encoded(value: Any) -> bytes:
    """Type and value bytes of one value, as they stand in a document."""
    raw = bson.encode({"v": value})
    return raw[4:5] + raw[7:-1]


class TextMatcher:
    """Whether a text is found in an entry's documents or namespace."""

    def __init__(self, text: str) -> None:
        self._inverse = text.startswith("!")
        word = text.removeprefix("!")
        self._expression = compile_text(text)
        self._plain = re.compile(re.escape(word.encode()), re.IGNORECASE)
        self._number = int(word) if re.fullmatch(r"-?\d{1,18}", word) else None
        self._bytes = _byte_patterns(word, self._number)
        self._sure = self._inverse or self._expression is not None

    def may_match(self, batch: bytes, start: int, end: int) -> bool:
        """Whether the bytes may hold the text; always, where only the exact look can tell."""
        if self._sure or self._plain.search(batch, start, end):
            return True
        return any(batch.find(needle, start, end) >= 0 for needle in self._bytes)

    def found_in(self, head: Head) -> bool:
        """Raises Malformed."""
        return self._found(head) is not self._inverse

    def _found(self, head: Head) -> bool:
        if self._expression is not None:
            return self._expression_found(head)
        if self._plain.search(head.ns.encode("utf-8", "replace")):
            return True
        return any(part is not None and self._in_part(head.raw, part) for part in (head.o, head.o2))

    def _expression_found(self, head: Head) -> bool:
        assert self._expression is not None
        parts = [render.one_line(head.raw, p, REGEX_LIMIT) for p in (head.o, head.o2) if p is not None]
        return any(self._expression.search(text) for text in (head.ns, *parts))

    def _in_part(self, raw: bytes, part: Element) -> bool:
        if self._plain.search(raw, part.start, part.end):
            return True
        if not any(raw.find(needle, part.start, part.end) >= 0 for needle in self._bytes):
            return False
        return self._number is None or _holds_number(raw, part, self._number)


def _forms(number: float) -> list[tuple[int, bytes]]:
    """Type and bytes of a number in each form that BSON has for it."""
    forms = [(walk.DOUBLE, struct.pack("<d", number))]
    if math.isfinite(number) and number == int(number) and abs(number) < 2**63:
        forms.append((walk.INT64, struct.pack("<q", int(number))))
        if abs(number) < 2**31:
            forms.append((walk.INT32, struct.pack("<i", int(number))))
    return forms


def _byte_patterns(word: str, number: int | None) -> list[bytes]:
    if number is not None:
        return [body for _, body in _forms(number)]
    return [bytes.fromhex(word)] if re.fullmatch(r"[0-9a-fA-F]{24}", word) else []


def _holds_number(raw: bytes, part: Element, number: int) -> bool:
    """Whether a number stands anywhere in a document; a stack in place of recursion."""
    waiting = [part]
    while waiting:
        holder = waiting.pop()
        for element in walk.elements(raw, holder.start, holder.end):
            if element.type in (walk.DOCUMENT, walk.ARRAY):
                waiting.append(element)
            elif walk.whole_number(raw, element) == number:
                return True
    return False
