"""Whole entries as MongoDB Extended JSON v2, written straight from the bytes: ASCII, one line, several times as fast as
decoding them and encoding the result.

Specification: MongoDB Extended JSON (v2), canonical and relaxed.
"""

from __future__ import annotations

import base64
import functools
import math
import struct
from datetime import UTC, datetime, timedelta
from json.encoder import encode_basestring_ascii as _c_quoted

from bson import json_util

from tallyglass.oplog.decode import walk
from tallyglass.oplog.decode.render import HIDDEN
from tallyglass.oplog.decode.walk import Malformed

DEPTH_LIMIT = 200
"""A server nests documents at most 100 deep; beyond this the bytes are not an entry."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000 = 253_402_300_800_000
_int = struct.Struct("<i").unpack_from
_long = struct.Struct("<q").unpack_from
_double = struct.Struct("<d").unpack_from
_stamp = struct.Struct("<II").unpack_from
_tail = struct.Struct("<4sII3sq3sq6sq").unpack_from
_TAIL_NAMES = (b"\x11ts\0", b"\x12t\0", b"\x12v\0", b"\x09wall\0")
_SESSION, _TXN, _TXN_AT = b"\x03lsid\0\x48\0\0\0", b"\x12txnNumber\0", 82
_OP, _NS, _UI = b"\x02op\0\x02\0\0\0", b"\x02ns\0", b"\x05ui\0\x10\0\0\0"
_PREVIOUS = b"\x03prevOpTime\0\x1c\0\0\0"
_REPEATED_BYTES = 40
_NONE: frozenset[str] = frozenset()


def relaxed(raw: bytes, hidden: frozenset[str] = _NONE, first: str = "") -> str:
    """A document as relaxed extended JSON: numbers and dates as people write them. Raises Malformed.

    The values of the names in ``hidden`` are left out at any depth. ``first`` is text put before the first element.
    """
    return _written(raw, hidden, first, canonical=False)


def canonical(raw: bytes, hidden: frozenset[str] = _NONE, first: str = "") -> str:
    """The same as canonical extended JSON, which keeps every type."""
    return _written(raw, hidden, first, canonical=True)


def _written(raw: bytes, hidden: frozenset[str], first: str, *, canonical: bool) -> str:
    try:
        stop = walk.document_end(raw, 0, len(raw)) - 1
        parts = _usual_entry(raw, stop, canonical) if not hidden else None
        if parts is None:
            parts = []
            _elements(raw, 4, stop, parts, hidden, canonical, False, 0)
    except (struct.error, IndexError, ValueError, OverflowError, RecursionError) as error:
        raise Malformed(str(error)) from None
    text = "".join(parts).replace("\x7f", "\\u007f")
    return f"{{{first}, {text}}}" if first and text else f"{{{first or text}}}"


def _usual_entry(raw: bytes, stop: int, canonical: bool) -> list[str] | None:
    """An entry whose first and last fields lie as servers since 5.0 write them; None for any other document.

    The first fields recur in many entries, and the last ones have fixed places: neither is read one by one.
    """
    at, tail, previous = 4, stop - 48, ""
    if raw.startswith(_SESSION, 4) and raw.startswith(_TXN, _TXN_AT):
        at = _TXN_AT + 19
    if raw.startswith(_PREVIOUS, stop - 40):
        tail, previous = stop - 88, ", "
    if tail < at + 18 or not (raw.startswith(_OP, at) and raw.startswith(_NS, at + 10)):
        return None
    middle = at + 18 + _int(raw, at + 14)[0]
    if raw.startswith(_UI, middle):
        middle += 25
    ts_name, i, t, term_name, term, version_name, version, wall_name, wall = _tail(raw, tail)
    if (ts_name, term_name, version_name, wall_name) != _TAIL_NAMES or not at < middle <= tail:
        return None
    parts: list[str] = []
    try:
        if at > 4:
            number = _long(raw, _TXN_AT + 11)[0]
            parts.append(f'{_recurring(raw[4:_TXN_AT], canonical)}, "txnNumber": {_whole(number, canonical)}, ')
        parts.append(_recurring(raw[at:middle], canonical))
        _elements(raw, middle, tail, parts, _NONE, canonical, False, 0, later=True)
        if previous:
            previous += _recurring(raw[stop - 40 : stop], canonical)
    except Malformed:
        return None  # what looks like the first or last fields is a part of something else
    parts.append(
        f', "ts": {{"$timestamp": {{"t": {t}, "i": {i}}}}}, "t": {_whole(term, canonical)}, '
        f'"v": {_whole(version, canonical)}, "wall": {_date(wall, canonical)}{previous}'
    )
    return parts


def _whole(number: int, canonical: bool) -> str:
    return f'{{"$numberLong": "{number}"}}' if canonical else str(number)


@functools.lru_cache(maxsize=8_192)
def _recurring(fields: bytes, canonical: bool) -> str:
    """Fields that are the same in many entries: a session, an operation with its namespace."""
    parts: list[str] = []
    _elements(fields, 0, len(fields), parts, _NONE, canonical, False, 0)
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
    if depth > DEPTH_LIMIT:
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
        if hidden and name.decode("utf-8", "replace") in hidden:
            add(f'"{HIDDEN}"')
            at = walk.value_end(raw, kind, at, stop)
        elif kind == 0x02:
            end = at + 4 + _int(raw, at)[0]
            if not at + 4 < end <= stop:
                raise Malformed("a string passes the end of its document")
            add(_c_quoted(raw[at + 4 : end - 1].decode("utf-8", "replace")))
            at = end
        elif kind == 0x12:
            number = _long(raw, at)[0]
            add(f'{{"$numberLong": "{number}"}}' if canonical else str(number))
            at += 8
        elif kind == 0x10:
            number = _int(raw, at)[0]
            add(f'{{"$numberInt": "{number}"}}' if canonical else str(number))
            at += 4
        elif kind in (0x03, 0x04):
            end = walk.document_end(raw, at, stop)
            add("[" if kind == 0x04 else "{")
            _elements(raw, at + 4, end - 1, parts, hidden, canonical, kind == 0x04, depth + 1)
            add("]" if kind == 0x04 else "}")
            at = end
        elif kind == 0x07:
            add(f'{{"$oid": "{raw[at : at + 12].hex()}"}}')
            at += 12
        elif kind == 0x11:
            i, t = _stamp(raw, at)
            add(f'{{"$timestamp": {{"t": {t}, "i": {i}}}}}')
            at += 8
        elif kind == 0x09:
            add(_date(_long(raw, at)[0], canonical))
            at += 8
        elif kind == 0x05:
            end = walk.value_end(raw, kind, at, stop)
            add(_repeated_binary(raw[at:end]) if end - at <= _REPEATED_BYTES else _binary(raw[at:end]))
            at = end
        elif kind == 0x01:
            add(_number(_double(raw, at)[0], canonical))
            at += 8
        elif kind == 0x08:
            add("true" if raw[at] else "false")
            at += 1
        elif kind == 0x0A:
            add("null")
        else:
            end = walk.value_end(raw, kind, at, stop)
            add(_rare(raw, kind, at, end, canonical))
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


def _binary(value: bytes) -> str:
    subtype, body = value[4], value[5:]
    if subtype == 2 and len(body) >= 4:
        body = body[4:]
    return f'{{"$binary": {{"base64": "{base64.b64encode(body).decode()}", "subType": "{subtype:02x}"}}}}'


_repeated_binary = functools.lru_cache(maxsize=8_192)(_binary)
"""Sessions, users and collections recur in many entries."""


def _rare(raw: bytes, kind: int, start: int, end: int, canonical: bool) -> str:
    """Rare types, encoded by the driver."""
    found = walk.value(raw, walk.Element(kind, b"", start, end))
    options = json_util.CANONICAL_JSON_OPTIONS if canonical else json_util.RELAXED_JSON_OPTIONS
    return json_util.dumps(found, json_options=options)
