"""The document of a collection whose ``_id`` is null. ``$merge`` takes no such ``_id``, so mongosh writes it by itself.

It reads the document as Extended JSON, which not every document has without loss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import bson
from bson import json_util
from bson.codec_options import DatetimeConversion

from tallyglass.mongo.mongosh import has_literal, has_plain_names
from tallyglass.oplog.entry import walk
from tallyglass.restore.backup.bson_file import decode

NOT_EXACT = (
    "Its _id is null, and it holds a value that mongosh cannot write exactly: insert it manually, from the copy."
)
"""Why such a document is left out."""


def needs_own_write(key: bytes) -> bool:
    """Whether ``$merge`` does not take an ``_id``, a type byte and the value's bytes. A collection has at most one that
    is null; ``undefined`` is a type of old servers."""
    return key[0] in (walk.NULL, walk.UNDEFINED)


def own_write(ns: str, actual: bytes | None, wanted: bytes) -> str | None:
    """One line of JSON for mongosh: ``ns``, the document that is ``wanted``, and what it ``was`` where it is live. None
    where it cannot be given exactly."""
    documents = {"wanted": wanted} | ({} if actual is None else {"was": actual})
    texts = {name: _exact_json(raw) for name, raw in documents.items()}
    if None in texts.values():
        return None
    return json.dumps({"ns": ns} | {name: json.loads(text) for name, text in texts.items() if text})


def _exact_json(raw: bytes) -> str | None:
    """A document as canonical Extended JSON, if that is the same document for Python and for JavaScript."""
    document = decode(raw)
    if not (has_literal(document) and has_plain_names(document)):
        return None
    try:
        text = json_util.dumps(document, json_options=json_util.CANONICAL_JSON_OPTIONS)
        back: Mapping[str, Any] = json_util.loads(text, json_options=_READ)
        return text if bson.encode(back) == raw else None
    except (ValueError, TypeError, OverflowError, bson.errors.BSONError):
        return None


_READ = json_util.CANONICAL_JSON_OPTIONS.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
