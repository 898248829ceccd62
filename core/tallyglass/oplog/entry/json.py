"""BSON as MongoDB Extended JSON v2, straight from the bytes, in two spellings.

Exact, for other programs: ASCII, one line, canonical or relaxed as the specification has them, several times as fast as
decoding a document and encoding the result. Readable, for a screen: bounded in length and depth, safe to show, never an
error; a 16 MB document costs no more than what is shown of it.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import struct
import uuid
from collections.abc import Container, Iterator
from datetime import UTC, datetime, timedelta
from json.encoder import encode_basestring_ascii as _c_quoted

from bson import json_util

from tallyglass.moment import from_millis, iso
from tallyglass.oplog.entry import layout, walk
from tallyglass.oplog.entry.entry import SIGNING_KEYS, Entry, read_entry
from tallyglass.oplog.entry.walk import (
    ARRAY,
    BINARY,
    BOOL,
    DATE,
    DOCUMENT,
    DOUBLE,
    INT32,
    INT64,
    NULL,
    OBJECT_ID,
    STRING,
    TIMESTAMP,
    Element,
    Malformed,
)  # fmt: skip
from tallyglass.text import clean, clean_name

HIDDEN = "(hidden)"
"""What stands in place of credentials and keys."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000 = 253_402_300_800_000
"""Milliseconds from 1970 to a year of five digits, which the specification has no relaxed date for."""

_REPEATED_BYTES = 40
"""Binary values up to this size, such as sessions, users and UUIDs, recur in many entries."""

_KEYS_NAMED = SIGNING_KEYS.encode() + b"\0"
_NOTHING: frozenset[str] = frozenset()
_NESTED = (DOCUMENT, ARRAY)
_int = struct.Struct("<i").unpack_from
_long = struct.Struct("<q").unpack_from
_double = struct.Struct("<d").unpack_from
_stamp = struct.Struct("<II").unpack_from


def to_json(raw: bytes, *, kind: str = "", shard: str = "", relaxed: bool = False) -> str:
    """The whole entry as one line of exact Extended JSON, for saving and for other programs.

    Canonical unless ``relaxed``; with ``kind`` and ``shard`` those fields come first. An object with ``$broken`` in hex
    where it is not BSON. Every character outside ASCII is escaped, so the line is safe on a terminal as well; users'
    credentials and signing keys are left out.
    """
    named = {name: value for name, value in (("kind", kind), ("shard", shard)) if value}
    first = json.dumps(named)[1:-1]
    try:
        hidden = _NOTHING
        if b"credentials" in raw or _KEYS_NAMED in raw:
            hidden = frozenset(name.decode() for name in hidden_names(read_entry(raw)))
        return exact(raw, hidden, first, canonical=not relaxed)
    except (Malformed, ValueError, TypeError):
        return f'{{{first}{", " if first else ""}"$broken": "{raw.hex()}"}}'


def hidden_names(entry: Entry) -> frozenset[bytes]:
    """Names of the elements of an entry that must not be shown: in an applyOps, the secrets of each collection in it.
    Each also as a diff names what changes within it."""
    names = entry.secrets
    if entry.op == "c" and _KEYS_NAMED in entry.raw:
        names |= {b"key"}
    return names | {b"s" + name for name in names}


def exact(raw: bytes, hidden: frozenset[str] = _NOTHING, first: str = "", *, canonical: bool) -> str:
    """A document as Extended JSON: canonical, which keeps every type, or relaxed, with numbers and dates as people
    write them. Raises Malformed.

    The values of the names in ``hidden``, and of paths that begin with one, are left out at any depth. ``first`` is
    text put before the first element.
    """
    try:
        stop = walk.document_end(raw, 0, len(raw)) - 1
        parts = _usual_entry(raw, canonical) if not hidden else None
        if parts is None:
            parts = []
            _elements(raw, 4, stop, parts, hidden, canonical, False, 0)
    except (struct.error, IndexError, ValueError, OverflowError, RecursionError) as error:
        raise Malformed(str(error)) from None
    text = "".join(parts).replace("\x7f", "\\u007f")
    return f"{{{first}, {text}}}" if first and text else f"{{{first or text}}}"


def _usual_entry(raw: bytes, canonical: bool) -> list[str] | None:
    """An entry whose first and last fields lie as servers since 5.0 write them; None for any other document.

    The first fields recur in many entries, and the last ones have fixed places: neither is read one by one.
    """
    found = layout.frame(raw, 0, len(raw))
    if found is None:
        return None
    op, rest, tail, place, term, version, wall = found
    middle = layout.after_ui(raw, rest)
    parts: list[str] = []
    previous = ""
    try:
        if op == layout.SESSION_OP_AT:
            number = _whole(layout.txn_number(raw, 0), canonical)
            parts.append(f'{_recurring(raw[4 : layout.TXN_AT], canonical)}, "txnNumber": {number}, ')
        parts.append(_recurring(raw[op:middle], canonical))
        _elements(raw, middle, tail, parts, _NOTHING, canonical, False, 0, later=True)
        if tail < len(raw) - layout.TAIL:
            previous = f", {_recurring(raw[-layout.PREVIOUS_AT : -1], canonical)}"
    except Malformed:
        return None  # what looks like the first or last fields is a part of something else
    parts.append(
        f', "ts": {{"$timestamp": {{"t": {place >> 32}, "i": {place & 0xFFFF_FFFF}}}}}, '
        f'"t": {_whole(term, canonical)}, "v": {_whole(version, canonical)}, "wall": {_date(wall, canonical)}{previous}'
    )
    return parts


def _whole(number: int, canonical: bool) -> str:
    return f'{{"$numberLong": "{number}"}}' if canonical else str(number)


@functools.lru_cache(maxsize=8_192)
def _recurring(fields: bytes, canonical: bool) -> str:
    """Fields that are the same in many entries: a session, an operation with its namespace."""
    parts: list[str] = []
    _elements(fields, 0, len(fields), parts, _NOTHING, canonical, False, 0)
    return "".join(parts)


@functools.lru_cache(maxsize=8_192)
def _names(name: bytes) -> tuple[str, str]:
    """A name with its colon, as the first of a document and as a later one."""
    text = f"{_c_quoted(name.decode('utf-8', 'replace'))}: "
    return text, f", {text}"


def _elements(
    raw: bytes,
    at: int,
    stop: int,
    parts: list[str],
    hidden: frozenset[str],
    canonical: bool,
    array: bool,
    depth: int,
    later: bool = False,
) -> None:
    """Append the elements from ``at`` up to ``stop``; ``later`` if others come before them. One chain of types: a
    call for each value would double the cost."""
    if depth > walk.DEPTH_LIMIT:
        raise Malformed("the document is nested too deeply")
    add = parts.append
    comma = ""
    while at < stop:
        kind = raw[at]
        name_end = raw.index(0, at + 1, stop)
        name = raw[at + 1 : name_end]
        at = name_end + 1
        if array:
            add(comma)
            comma = ", "
        else:
            add(_names(name)[later])
            later = True
        if hidden and name.partition(b".")[0].decode("utf-8", "replace") in hidden:
            add(f'"{HIDDEN}"')
            at = walk.value_end(raw, kind, at, stop)
        elif kind == STRING:
            end = at + 4 + _int(raw, at)[0]
            if not at + 4 < end <= stop:
                raise Malformed("a string passes the end of its document")
            add(_c_quoted(raw[at + 4 : end - 1].decode("utf-8", "replace")))
            at = end
        elif kind == INT64:
            number = _long(raw, at)[0]
            add(f'{{"$numberLong": "{number}"}}' if canonical else str(number))
            at += 8
        elif kind == INT32:
            number = _int(raw, at)[0]
            add(f'{{"$numberInt": "{number}"}}' if canonical else str(number))
            at += 4
        elif kind in _NESTED:
            end = walk.document_end(raw, at, stop)
            add("[" if kind == ARRAY else "{")
            _elements(raw, at + 4, end - 1, parts, hidden, canonical, kind == ARRAY, depth + 1)
            add("]" if kind == ARRAY else "}")
            at = end
        elif kind == OBJECT_ID:
            add(f'{{"$oid": "{raw[at : at + 12].hex()}"}}')
            at += 12
        elif kind == TIMESTAMP:
            i, t = _stamp(raw, at)
            add(f'{{"$timestamp": {{"t": {t}, "i": {i}}}}}')
            at += 8
        elif kind == DATE:
            add(_date(_long(raw, at)[0], canonical))
            at += 8
        elif kind == BINARY:
            end = walk.value_end(raw, kind, at, stop)
            add(_repeated_binary(raw[at:end]) if end - at <= _REPEATED_BYTES else _exact_binary(raw[at:end]))
            at = end
        elif kind == DOUBLE:
            add(_number(_double(raw, at)[0], canonical))
            at += 8
        elif kind == BOOL:
            add("true" if raw[at] else "false")
            at += 1
        elif kind == NULL:
            add("null")
        else:
            end = walk.value_end(raw, kind, at, stop)
            add(_exact_rare(raw, kind, at, end, canonical))
            at = end
        if at > stop:
            raise Malformed("a value passes the end of its document")


def _date(millis: int, canonical: bool) -> str:
    if canonical or not 0 <= millis < _YEAR_10000:
        return f'{{"$date": {{"$numberLong": "{millis}"}}}}'
    second, part = divmod(millis, 1_000)
    return f'{_second(second)}.{part:03d}Z"}}' if part else f'{_second(second)}Z"}}'


@functools.lru_cache(maxsize=1_024)
def _second(seconds: int) -> str:
    """A date up to its second: entries of one second share it."""
    return f'{{"$date": "{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}'


def _number(number: float, canonical: bool) -> str:
    if math.isfinite(number):
        return f'{{"$numberDouble": "{number!r}"}}' if canonical else repr(number)
    text = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return f'{{"$numberDouble": "{text}"}}'


def _exact_binary(value: bytes) -> str:
    subtype, body = value[4], value[5:]
    if subtype == 2 and len(body) >= 4:
        body = body[4:]
    return f'{{"$binary": {{"base64": "{base64.b64encode(body).decode()}", "subType": "{subtype:02x}"}}}}'


_repeated_binary = functools.lru_cache(maxsize=8_192)(_exact_binary)


def _exact_rare(raw: bytes, kind: int, start: int, end: int, canonical: bool) -> str:
    """Rare types, encoded by the driver."""
    found = walk.value(raw, walk.Element(kind, b"", start, end))
    options = json_util.CANONICAL_JSON_OPTIONS if canonical else json_util.RELAXED_JSON_OPTIONS
    return json_util.dumps(found, json_options=options)


# Readable

LINE_LIMIT, BLOCK_LIMIT, STRING_LIMIT = 400, 60_000, 2_000
"""Characters of a document on one line, of one over several lines (some screens), and of one string in it."""

READABLE_DEPTH = 60
"""Levels of a document that are shown: deeper ones would be indented off any screen."""

_BROKEN = "(not readable)"
_CONTINUATION = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""
_READ_AS_OTHERS = frozenset({"null", "true", "false", "nan", "inf", "infinity"})
_ALIKE = frozenset({INT32, INT64, DOUBLE, OBJECT_ID, BOOL, NULL, TIMESTAMP})
"""Usual types whose readable spelling is the relaxed one."""


def one_line(raw: bytes, element: Element | None = None, limit: int = LINE_LIMIT) -> str:
    """A document or array element, or all of ``raw``, as one line of at most about ``limit`` characters."""
    return _joined(_readable(raw, element or Element(DOCUMENT, b"", 0, len(raw)), 0, limit), limit)


def block(raw: bytes, *, hidden: Container[bytes] = (), limit: int = BLOCK_LIMIT) -> str:
    """The document over several lines, at most about ``limit`` characters of them.

    The values of elements named in ``hidden``, and of paths that begin with one, are not shown, at any depth.
    """
    return _joined(_readable(raw, Element(DOCUMENT, b"", 0, len(raw)), 2, STRING_LIMIT, hidden), limit)


def _joined(parts: Iterator[str], limit: int) -> str:
    kept: list[str] = []
    length = 0
    try:
        for part in parts:
            kept.append(part)
            length += len(part)
            if length > limit:
                break
    except Malformed:
        kept.append(_BROKEN)
    text = "".join(kept)
    return text if len(text) <= limit else text[:limit] + "…"


def _readable(
    raw: bytes, holder: Element, indent: int, text_limit: int, hidden: Container[bytes] = (), depth: int = 1
) -> Iterator[str]:
    """A document or array in pieces. Raises Malformed where the rest is not readable."""
    is_array, separator = holder.type == ARRAY, ""
    line = "\n" + " " * (indent * depth) if indent else ""
    yield "[" if is_array else "{"
    for element in walk.elements(raw, holder.start, holder.end):
        name = "" if is_array else quoted(element.name.decode("utf-8", "replace"), text_limit) + ": "
        yield f"{separator}{line}{name}"
        separator = "," if indent else ", "
        if element.name.partition(b".")[0] in hidden:
            yield HIDDEN
        elif element.type not in _NESTED:
            yield scalar(raw, element, text_limit)
        elif depth > READABLE_DEPTH:
            yield f"(deeper than {READABLE_DEPTH})"
        else:
            yield from _readable(raw, element, indent, text_limit, hidden, depth + 1)
    yield (line[: -indent or None] if separator else "") + ("]" if is_array else "}")


def quoted(value: str, limit: int = STRING_LIMIT, more: int = 0) -> str:
    """A string in JSON quotes, controls as JSON escapes and everything else that hides as a visible one. ``more`` are
    the characters that follow ``value`` and are left out in any case."""
    rest = len(value) + more - limit
    safe = clean(json.dumps(value[:limit], ensure_ascii=False), limit * 8)
    return f'{safe[:-1]}…+{rest}"' if rest > 0 else safe


def scalar(raw: bytes, element: Element, limit: int = STRING_LIMIT) -> str:
    """One value that is not a document, in the readable spelling; text of at most about ``limit`` characters."""
    kind, name, start, end = element
    if kind == STRING:
        # No character has more than four bytes.
        stop = min(max(start + 4, end - 1), start + 4 + limit * 4)
        more = len(raw[stop : end - 1].translate(None, _CONTINUATION))
        return quoted(raw[start + 4 : stop].decode("utf-8", "replace"), limit, more)
    if kind in _ALIKE:
        parts: list[str] = []
        _elements(raw, start - len(name) - 2, end, parts, _NOTHING, False, True, 0)
        return "".join(parts)
    if kind == DATE:
        return f'{{"$date": {date_text(raw, start)}}}'
    if kind == BINARY:
        return _binary(raw, start, end, limit)
    return _rare(raw, element, limit)


def date_text(raw: bytes, start: int) -> str:
    """The date at ``start`` as an ISO string in quotes, or its milliseconds where no calendar holds it."""
    millis = walk.millis(raw, start)
    moment = from_millis(millis)
    return f'"{iso(moment)}"' if moment else f'{{"$numberLong": "{millis}"}}'


def _binary(raw: bytes, start: int, end: int, limit: int) -> str:
    if start + 5 > end:
        return _BROKEN
    subtype, body = raw[start + 4], raw[start + 5 : end]
    if subtype == 4 and len(body) == 16:
        return f'{{"$uuid": "{uuid_text(body)}"}}'
    shown = body[: limit // 2].hex()
    more = f"…+{len(body) - limit // 2} bytes" if len(body) > limit // 2 else ""
    return f'{{"$binary": {{"hex": "{shown}{more}", "subType": "{subtype:02x}"}}}}'


def uuid_text(body: bytes) -> str:
    """16 bytes in the canonical form of a UUID."""
    return str(uuid.UUID(bytes=body))


def _rare(raw: bytes, element: Element, limit: int) -> str:
    if element.type == walk.UNDEFINED:
        return '{"$undefined": true}'
    if element.end - element.start > limit * 8:
        return f"({element.end - element.start:,} bytes)"
    try:
        return clean(_exact_rare(raw, element.type, element.start, element.end, False), limit)
    except (Malformed, ValueError, TypeError):
        return _BROKEN


def id_text(raw: bytes, element: Element, limit: int = 120) -> str:
    """An ``_id`` as a person writes it: hex for an ObjectId, digits, a bare word, a UUID; else extended JSON.

    A string that could be read as one of the others keeps its quotes, so that the text leads back to the value.
    """
    kind, start, end = element.type, element.start, element.end
    if kind == OBJECT_ID:
        return raw[start:end].hex()
    if kind in _NESTED:
        return one_line(raw, element, limit)
    if kind == BINARY and end - start == 21 and raw[start + 4] == 4:
        return uuid_text(raw[start + 5 : end])
    if kind == STRING:
        word = walk.text(raw, element)
        return clean_name(word, limit) if is_plain_word(word) else quoted(word, limit)
    return clean(scalar(raw, element, limit), limit)


def is_plain_word(word: str) -> bool:
    """Whether a string ``_id`` needs no quotes to be typed as one word and told from a number, an ObjectId, a UUID,
    or JSON."""
    if not word or word[0] in "{[+-!0123456789." or word.lower() in _READ_AS_OTHERS:
        return False
    if any(char.isspace() or char in '"\\' for char in word):
        return False
    return not (len(word) in (24, 36) and all(char in "0123456789abcdefABCDEF-" for char in word))
