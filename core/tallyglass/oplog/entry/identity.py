"""The values that the text of an ``_id`` may stand for."""

from __future__ import annotations

import json
import re
import uuid
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from bson import Binary, Int64, ObjectId

from tallyglass.mongo.extended_json import read_extended_json
from tallyglass.text import unescape_name

_HEX_24 = re.compile(r"[0-9a-fA-F]{24}\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_WHOLE = re.compile(r"[+-]?\d{1,19}\Z")
_HEX = re.compile(r'("\$binary"\s*:\s*\{\s*)"hex"(\s*:\s*)"((?:[0-9a-f]{2})*)"')
"""A binary value as it is shown, which Extended JSON has in base64."""
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|.)")


def candidates(text: str) -> Iterator[Any]:
    """Every BSON value that a person may mean by ``text``: the bare string, and what it reads as besides.

    Text in JSON quotes is that string alone; extended JSON is its value. An escape such as ``\\u{202e}``, as it is
    shown in place of what hides, stands for its character.
    """
    word = text.strip()
    if word[:1] == '"':
        try:
            yield str(json.loads(_as_json(word)))
        except ValueError:
            yield word
        return
    yield from _typed(word)
    yield unescape_name(word)


def _as_json(shown: str) -> str:
    """JSON as it is shown as JSON that can be read: the visible escapes and hex digits, which it does not know, in its
    own form."""

    def own_form(found: re.Match[str]) -> str:
        return json.dumps(unescape_name(found[0]))[1:-1] if found[1] else found[0]

    def base64(found: re.Match[str]) -> str:
        return f'{found[1]}"base64"{found[2]}"{b64encode(bytes.fromhex(found[3])).decode()}"'

    return _ESCAPE.sub(own_form, _HEX.sub(base64, shown))


def _typed(word: str) -> Iterator[Any]:
    if _HEX_24.match(word):
        yield ObjectId(word)
    elif _UUID.match(word):
        yield Binary(uuid.UUID(word).bytes, 4)
        yield Binary(uuid.UUID(word).bytes, 3)
    elif _WHOLE.match(word):
        number = int(word)
        if -(2**63) <= number < 2**63:  # the whole numbers that BSON has
            yield Int64(number)
    elif word in ("true", "false", "null"):
        yield json.loads(word)
    else:
        yield from _typed_from_json(word)


def _typed_from_json(word: str) -> Iterator[Any]:
    if word[:1] in "{[":
        try:
            yield read_extended_json(_as_json(word))
        except ValueError:
            return
        return
    try:
        yield float(word)
    except ValueError:
        if re.match(r"\d{4}-\d\d-\d\d", word):
            try:
                yield datetime.fromisoformat(word)
            except ValueError:
                return
