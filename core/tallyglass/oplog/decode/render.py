"""Raw BSON as readable extended JSON: bounded in length and depth, safe to show, never an error.

Written straight from the bytes, so a 16 MB document costs no more than what is shown of it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Container, Iterator
from datetime import UTC, datetime, timedelta

from tallyglass.moment import iso
from tallyglass.oplog.decode import walk
from tallyglass.oplog.decode.walk import Element, Malformed
from tallyglass.text import clean, clean_name

LINE_LIMIT = 400
BLOCK_LIMIT = 60_000
STRING_LIMIT = 2_000
DEPTH_LIMIT = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HIDDEN = "(hidden)"
_BROKEN = "(not readable)"
_READ_AS_OTHERS = frozenset({"null", "true", "false", "nan", "inf", "infinity"})


def one_line(raw: bytes, element: Element | None = None, limit: int = LINE_LIMIT) -> str:
    """A document or array element, or all of ``raw``, as one line of at most about ``limit`` characters."""
    return _gathered(_parts(raw, element or _whole(raw), indent=None, text_limit=limit), limit)


def block(raw: bytes, *, hidden: Container[bytes] = (), limit: int = BLOCK_LIMIT) -> str:
    """The document over several lines, at most about ``limit`` characters of them.

    The values of elements named in ``hidden`` are not shown, at any depth.
    """
    return _gathered(_parts(raw, _whole(raw), indent=2, text_limit=STRING_LIMIT, hidden=hidden), limit)


def _whole(raw: bytes) -> Element:
    return Element(walk.DOCUMENT, b"", 0, len(raw))


def _gathered(parts: Iterator[str], limit: int) -> str:
    kept: list[str] = []
    length = 0
    for part in parts:
        kept.append(part)
        length += len(part)
        if length > limit:
            return "".join(kept)[:limit] + "…"
    return "".join(kept)


def _parts(
    raw: bytes, top: Element, *, indent: int | None, text_limit: int, hidden: Container[bytes] = ()
) -> Iterator[str]:
    """Pieces of text, depth first, with a stack of open documents in place of recursion."""
    try:
        stack = [(walk.elements(raw, top.start, top.end), top.type == walk.ARRAY)]
        yield "[" if top.type == walk.ARRAY else "{"
        first = True
        while stack:
            inner, is_array = stack[-1]
            element = next(inner, None)
            if element is None:
                stack.pop()
                yield ("" if first else _break(indent, len(stack))) + ("]" if is_array else "}")
                first = False
                continue
            yield ("" if first else "," if indent else ", ") + _break(indent, len(stack))
            if not is_array:
                yield quoted(element.name.decode("utf-8", "replace"), text_limit) + ": "
            first = False
            if element.name in hidden:
                yield HIDDEN
            elif element.type not in (walk.DOCUMENT, walk.ARRAY):
                yield scalar(raw, element, text_limit)
            elif len(stack) > DEPTH_LIMIT:
                yield f"(deeper than {DEPTH_LIMIT})"
            else:
                array = element.type == walk.ARRAY
                yield "[" if array else "{"
                stack.append((walk.elements(raw, element.start, element.end), array))
                first = True
    except Malformed:
        yield _BROKEN


def _break(indent: int | None, depth: int) -> str:
    return "" if indent is None else "\n" + " " * (indent * depth)


def quoted(value: str, limit: int = STRING_LIMIT) -> str:
    """A string in JSON quotes, controls as JSON escapes and everything else that hides as a visible one."""
    rest = len(value) - limit
    safe = clean(json.dumps(value[:limit], ensure_ascii=False), limit * 8)
    return f'{safe[:-1]}…+{rest}"' if rest > 0 else safe


def scalar(raw: bytes, element: Element, limit: int = STRING_LIMIT) -> str:
    """One value that is not a document, as relaxed extended JSON."""
    kind, start, end = element.type, element.start, element.end
    if kind == walk.STRING:
        return quoted(
            raw[start + 4 : max(start + 4, min(end - 1, start + 4 + limit * 4))].decode("utf-8", "replace"), limit
        )
    number = walk.whole_number(raw, element)
    if kind != walk.DOUBLE and number is not None:
        return str(number)
    if kind == walk.OBJECT_ID:
        return f'{{"$oid": "{raw[start:end].hex()}"}}'
    if kind == walk.BOOL:
        return "true" if raw[start] else "false"
    if kind == walk.NULL:
        return "null"
    if kind == walk.DATE:
        return f'{{"$date": {date_text(raw, start)}}}'
    if kind == walk.TIMESTAMP:
        i, t = struct.unpack_from("<II", raw, start)
        return f'{{"$timestamp": {{"t": {t}, "i": {i}}}}}'
    if kind == walk.BINARY:
        return _binary(raw, start, end, limit)
    return _rare(raw, element, limit)


def date_text(raw: bytes, start: int) -> str:
    """The date at ``start`` as an ISO string in quotes, or its milliseconds where no calendar holds it."""
    millis = int(struct.unpack_from("<q", raw, start)[0])
    moment = wall_time(millis)
    return f'"{iso(moment)}"' if moment else f'{{"$numberLong": "{millis}"}}'


def wall_time(millis: int) -> datetime | None:
    """Milliseconds since 1970 as a UTC datetime; None outside the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None


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
    digits = body.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _rare(raw: bytes, element: Element, limit: int) -> str:
    names = {0x7F: '{"$maxKey": 1}', 0xFF: '{"$minKey": 1}', 0x06: '{"$undefined": true}'}
    if element.type in names:
        return names[element.type]
    if element.end - element.start > limit * 8:
        return f"({element.end - element.start:,} bytes)"
    try:
        found = walk.value(raw, element)
    except Malformed:
        return _BROKEN
    if isinstance(found, float):
        return repr(found) if found == found and abs(found) != float("inf") else f'{{"$numberDouble": "{found}"}}'
    return quoted(str(found), limit)


def id_text(raw: bytes, element: Element, limit: int = 120) -> str:
    """An ``_id`` as a person writes it: hex for an ObjectId, digits, a bare word, a UUID; else extended JSON.

    A string that could be read as one of the others keeps its quotes, so that the text leads back to the value.
    """
    kind, start, end = element.type, element.start, element.end
    if kind == walk.OBJECT_ID:
        return raw[start:end].hex()
    if kind in (walk.DOCUMENT, walk.ARRAY):
        return one_line(raw, element, limit)
    if kind == walk.BINARY and end - start == 21 and raw[start + 4] == 4:
        return uuid_text(raw[start + 5 : end])
    if kind == walk.STRING:
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
