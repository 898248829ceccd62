"""A filter as two answers: how much of an entry it needs, by operation and namespace, and whether it wants the entry.

So that an entry is decoded once, and no further than the filter asks.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from typing import Any

import bson
from bson import Decimal128

from tallyglass.moment import Ts
from tallyglass.oplog.entry import json, walk
from tallyglass.oplog.entry.batch import UNREADABLE, Walker, chosen, entries
from tallyglass.oplog.entry.describe import describe
from tallyglass.oplog.entry.entry import Entry, element_key, read_entry
from tallyglass.oplog.entry.identity import candidates
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.entry.walk import Element, Malformed
from tallyglass.oplog.filter.query import OplogFilter, compile_text, glob_pattern, is_glob
from tallyglass.text import unescape_name

REGEX_LIMIT = 4_000
"""Characters of an entry that a regular expression is tried on."""

_NUMBER = re.compile(r"-?\d{1,19}(\.\d{1,19})?", re.ASCII)
"""A number as text that is looked for among numbers as well."""

_CACHE_LIMIT = 20_000
"""Namespaces whose verdict is remembered, some 3 MB."""


class Needed(IntEnum):
    """What must be read of an entry to tell whether it is wanted, given its operation and namespace."""

    LEFT_OUT = 0
    """Nothing more: it is not wanted."""
    WANTED = 1
    """Nothing more: it is wanted."""
    ENTRY = 2
    """The entry with all its fields."""
    BYTES = 4
    """The entry, if :meth:`CompiledFilter.may_want` finds in its bytes what is searched for."""


class CompiledFilter:
    """Decides which entries a filter wants."""

    def __init__(self, wanted: OplogFilter) -> None:
        self.wanted = wanted
        self._keep_ops = {op for op in wanted.ops if not op.startswith("!")}
        self._leave_ops = {op[1:] for op in wanted.ops if op.startswith("!")}
        self._keep_ns = _names(tuple(n for n in wanted.namespaces if not n.startswith("!")))
        self._leave_ns = _names(tuple(n[1:] for n in wanted.namespaces if n.startswith("!")))
        self._ids = IdMatcher(wanted.id) if wanted.id else None
        self._text = TextMatcher(wanted.text) if wanted.text else None
        session, _, number = wanted.transaction.partition(":")
        self._transaction = (session, int(number)) if number.isdecimal() else None
        asks_more = wanted.id or wanted.text or wanted.transaction or wanted.since or wanted.until
        self._write = Needed.BYTES if asks_more else Needed.WANTED

    def need(self, op: str, ns: str, session: bool = False) -> Needed:
        """How much of an entry with this operation and namespace must be read; of any session."""
        if op == "n" and not self.wanted.noops:
            return Needed.LEFT_OUT
        if op in (UNREADABLE, "c", "n"):
            return Needed.ENTRY
        wants = self._wants_op(op) and self._wants_ns(ns) and (not self.wanted.destructive or op == "d")
        return self._write if wants else Needed.LEFT_OUT

    def may_want(self, batch: bytes, start: int, end: int) -> bool:
        """Whether the bytes of an entry hold what the id and the text ask for: much faster than reading it."""
        if self._ids is not None and not self._ids.may_match(batch, start, end):
            return False
        return self._text is None or self._text.may_match(batch, start, end)

    def wants(self, raw: bytes) -> bool:
        """Whether the filter wants this entry. One that is not readable is wanted: it must not pass unseen."""
        try:
            return self.wants_entry(read_entry(raw))
        except Malformed:
            return True

    def wants_entry(self, entry: Entry) -> bool:
        """Whether the filter wants an entry that is read. Raises Malformed."""
        wanted = self.wanted
        if entry.op == "n" and not wanted.noops:
            return False
        if not _in_time(entry.ts, wanted):
            return False
        if self._transaction and (entry.session_text, entry.txn_number) != self._transaction:
            return False
        wants = self._wants_apply_ops if entry.command == "applyOps" else self._wants_operation
        return wants(entry) and (self._text is None or self._text.found_in(entry))

    def _wants_operation(self, entry: Entry, *, within: bool = False) -> bool:
        # Who asks for commands means an applyOps whole: the writes in it need not be asked for.
        belongs_to_command = within and "c" in self._keep_ops and entry.op in "iud"
        if not belongs_to_command and not self._wants_op(entry.op):
            return False
        if not self._wants_command(entry) if entry.op == "c" else not self._wants_ns(entry.ns):
            return False
        if self.wanted.destructive and entry.op != "d" and not (entry.op == "c" and describe(entry).destructive):
            return False
        return self._ids is None or self._ids.match(entry)

    def _wants_apply_ops(self, entry: Entry) -> bool:
        if "c" in self._leave_ops:
            return False
        narrowed = self._keep_ns or self._leave_ns or self._ids or self.wanted.destructive
        if not narrowed and ("c" in self._keep_ops or not self.wanted.ops):
            return True
        return any(self._wants_operation(inner, within=True) for inner in operations_of(entry))

    def _wants_op(self, op: str) -> bool:
        return op not in self._leave_ops and (not self._keep_ops or op in self._keep_ops)

    def _wants_command(self, entry: Entry) -> bool:
        """By the collection that it acts on, or that a rename makes."""
        if self._wants_ns(entry.target):
            return True
        return entry.within(entry.o_at, b"to") is not None and self._wants_ns(entry.text_in(entry.o_at, b"to"))

    def _wants_ns(self, ns: str) -> bool:
        return (self._keep_ns is None or self._keep_ns(ns)) and not (self._leave_ns and self._leave_ns(ns))


class EntrySelector:
    """The wanted entries of batches, as bytes of their own."""

    def __init__(self, wanted: OplogFilter) -> None:
        self._filter = CompiledFilter(wanted)
        self._walker = Walker(self._filter.need)

    def select(self, batch: bytes) -> list[bytes]:
        """The wanted entries, in order. Bytes that are no entry are wanted: they must not pass unseen."""
        try:
            groups = self._walker.gather(batch)
        except Malformed:
            return [raw for raw in entries(batch) if self._filter.wants(raw)]
        return [
            raw
            for start, end, envelope in chosen(groups)
            if (raw := batch[start:end]) and (envelope.tag == Needed.WANTED or self._filter.wants(raw))
        ]


def _in_time(ts: Ts, wanted: OplogFilter) -> bool:
    return (wanted.since is None or ts >= wanted.since) and (wanted.until is None or ts < wanted.until)


def _names(globs: tuple[str, ...]) -> Callable[[str], bool] | None:
    """Whether any of the globs matches a namespace; a glob of a whole database matches its name alone too."""
    if not globs:
        return None
    exact = frozenset(unescape_name(glob) for glob in globs if not is_glob(glob))
    exact |= {unescape_name(glob.removesuffix(".*")) for glob in globs if glob.endswith(".*")}
    patterns = [re.compile(glob_pattern(glob), re.DOTALL) for glob in globs if is_glob(glob)]
    return lru_cache(_CACHE_LIMIT)(lambda ns: ns in exact or any(pattern.fullmatch(ns) for pattern in patterns))


class IdMatcher:
    """Whether an operation touches the document of one ``_id``. As to the server, numbers are equal by their value,
    also within a document."""

    def __init__(self, text: str) -> None:
        values = list(candidates(text))
        self._encoded = {_encoded(value) for value in values}
        self._alike = {_comparable(value) for value in values}
        self._byte_patterns = [form[:1] + b"_id\0" + form[1:] for value in values for form in _id_forms(value)]

    def may_match(self, batch: bytes, start: int, end: int) -> bool:
        """Whether the bytes hold such an ``_id`` anywhere."""
        return any(batch.find(needle, start, end) >= 0 for needle in self._byte_patterns)

    def match(self, entry: Entry) -> bool:
        """Whether an insert, update or delete is about that document. Raises Malformed."""
        found = entry.id_at if entry.op in "iud" else None
        if found is None:
            return False
        if element_key(entry.raw, found) in self._encoded:
            return True
        return found.type in _BY_VALUE and _comparable(walk.value(entry.raw, found)) in self._alike


_BY_VALUE = frozenset({walk.INT32, walk.INT64, walk.DOUBLE, walk.DECIMAL, walk.DOCUMENT, walk.ARRAY})
"""Types of values that may be equal to others whose bytes differ."""


def _comparable(value: Any) -> Any:
    """A value that can be compared with others: a number, or a document or array with numbers, by its value, anything
    else by its bytes."""
    if isinstance(value, Mapping):
        return tuple((name, _comparable(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return ("array", *map(_comparable, value))
    number = _number(value)
    return _encoded(value) if number is None else ("number", number)


def _number(value: Any) -> int | float | Decimal | None:
    """The number that a value is; None for any other value, and for what is not a number."""
    if isinstance(value, Decimal128):
        decimal = value.to_decimal()
        return None if decimal.is_nan() else decimal
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return None
    return value


def _id_forms(value: Any) -> list[bytes]:
    """Type and bytes with which an equal ``_id`` may begin."""
    number, encoded = _number(value), _encoded(value)
    if number is not None:
        return [bytes((walk.DECIMAL,)), *(bytes((kind,)) + body for kind, body in _forms(number))]
    return [encoded[:1] if encoded[0] in (walk.DOCUMENT, walk.ARRAY) else encoded]


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
        self._plain = re.compile(b"".join(map(_in_any_case, word)), re.IGNORECASE)
        self._number = None if _NUMBER.fullmatch(word) is None else float(word) if "." in word else int(word)
        self._bytes = _byte_patterns(word, self._number)
        self._sure = self._inverse or self._expression is not None

    def may_match(self, batch: bytes, start: int, end: int) -> bool:
        """Whether the bytes may hold the text; always, where only the entry itself can tell."""
        if self._sure or self._plain.search(batch, start, end):
            return True
        return any(batch.find(needle, start, end) >= 0 for needle in self._bytes)

    def found_in(self, entry: Entry) -> bool:
        """Whether the text is in the namespace or the documents of an entry, or not, for ``!text``. Raises
        Malformed."""
        return self._found(entry) is not self._inverse

    def _found(self, entry: Entry) -> bool:
        if self._expression is not None:
            return self._expression_found(entry)
        if self._plain.search(entry.ns.encode("utf-8", "replace")):
            return True
        return any(part is not None and self._in_part(entry.raw, part) for part in (entry.o_at, entry.o2_at))

    def _expression_found(self, entry: Entry) -> bool:
        assert self._expression is not None
        parts = [json.one_line(entry.raw, p, REGEX_LIMIT) for p in (entry.o_at, entry.o2_at) if p is not None]
        return any(self._expression.search(text) for text in (entry.ns, *parts))

    def _in_part(self, raw: bytes, part: Element) -> bool:
        if self._plain.search(raw, part.start, part.end):
            return True
        if not any(raw.find(needle, part.start, part.end) >= 0 for needle in self._bytes):
            return False
        return self._number is None or _holds_number(raw, part, self._number)


def _in_any_case(char: str) -> bytes:
    """The pattern of a character in UTF-8 in either case. Of bytes, an expression knows the case of ASCII alone."""
    forms = sorted({re.escape(form.encode()) for form in (char, char.lower(), char.upper())})
    return forms[0] if char.isascii() else b"(?:" + b"|".join(forms) + b")"


def _forms(number: float | Decimal) -> list[tuple[int, bytes]]:
    """Type and bytes of a number in each form that BSON has for it, but for decimals, of which it has many."""
    forms = [(walk.DOUBLE, struct.pack("<d", number))]
    if math.isfinite(number) and number == int(number) and -(2**63) <= number < 2**63:
        forms.append((walk.INT64, struct.pack("<q", int(number))))
        if -(2**31) <= number < 2**31:
            forms.append((walk.INT32, struct.pack("<i", int(number))))
    return forms


def _byte_patterns(word: str, number: float | None) -> list[bytes]:
    if number is not None:
        return [body for _, body in _forms(number)]
    return [bytes.fromhex(word)] if re.fullmatch(r"[0-9a-fA-F]{24}", word) else []


def _holds_number(raw: bytes, part: Element, number: float) -> bool:
    """Whether a number stands anywhere in a document; a stack in place of recursion."""
    waiting = [part]
    while waiting:
        holder = waiting.pop()
        for element in walk.elements(raw, holder.start, holder.end):
            if element.type in (walk.DOCUMENT, walk.ARRAY):
                waiting.append(element)
            elif element.type in _BY_VALUE and walk.value(raw, element) == number:
                return True
    return False
