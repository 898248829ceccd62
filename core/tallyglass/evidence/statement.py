"""A delete or update as a log line or a document of ``system.profile`` describes it."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Mapping
from typing import Any, TypeGuard

from tallyglass.evidence.book import LineTally
from tallyglass.evidence.facts import STATEMENT_CELLS, Client, Source, Statement
from tallyglass.text import clean, clean_name

REDACTED = "###"
"""What the server puts in place of values with ``redactClientLogData``."""

_NESTING = 6  # levels of a filter that are written: people nest $and, $or and $elemMatch to four
_WIDTH = 40  # members of one level that are written: more than a person types or reads
_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_PLAIN_ID = (str, int, float)
_CUT = " (cut by the server)"
_TOKEN = re.compile(
    r"""(?P<key>(?:[A-Za-z_$][\w$]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?=:))|(?P<mark>[\s{}\[\](),:…])|"""
    r"""'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)|[^\s{}\[\](),:…'"]+"""
)
"""A key, what lies between values, or a value; text that was cut ends in a value."""

_WRAPPED = {"$oid": "ObjectId", "$date": "ISODate", "$uuid": "UUID"}
_VALUES = frozenset({*_WRAPPED, "$numberLong", "$numberDecimal", "$numberDouble", "$binary", "$timestamp",
                     "$regularExpression", "$minKey", "$maxKey", "$undefined"})  # fmt: skip
"""The forms of extended JSON for one value."""

_DIGITS = re.compile(r"\d+")

_LONGEST_MILLIS = 366 * 86_400_000
"""No statement runs for a year: a line that says so is damaged."""


def write_of(
    attr: dict[str, Any],
    client: Client,
    began: int,
    ended: int,
    floor: int,
    tally: LineTally,
    source: Source = Source.LOG,
) -> Statement | None:
    """The delete or update of a line; None if the line does not say how much it changed."""
    body = attr["command"] if isinstance(attr.get("command"), dict) else {}
    removes = attr.get("type", attr.get("op")) == "remove" or bool(body.get("remove"))
    op = "d" if removes else "u"
    counts = _counts_of(attr, tally, removes=removes)
    if counts is None:
        return None
    query, update = body.get("q", body.get("query")), body.get("u", body.get("update"))
    # Of a long command the line is cut before these, but one that changed several documents may change many.
    many = (body.get("limit") == 0 if op == "d" else bool(body.get("multi"))) or (counts[0] or 0) > 1
    shape = hash((many, _shape(query), _shape(update, replaces=True))) if isinstance(query, dict) else 0
    if not body or any(map(is_redacted, (query, body.get("limit"), body.get("multi")))):
        tally.redacted += counts[0] != 0
        query = update = None
    whole = "truncated" not in attr
    return Statement(
        op,
        clean_name(str(attr.get("ns", "")), 255),
        client,
        began,
        ended,
        *counts,
        floor,
        text=_text(op, body, query, update, many=many, whole=whole) if query is not None else "",
        plan=clean(str(attr.get("planSummary", "")), 120),
        ids=ids_of(query) if whole and "collation" not in body else None,
        fields=_fields(update) if whole else None,
        source=source,
        many=many,
        shape=shape,
    )


def is_duration(millis: object) -> TypeGuard[int]:
    """Whether a statement may have run for so many milliseconds."""
    return isinstance(millis, int) and 0 <= millis <= _LONGEST_MILLIS


def _counts_of(attr: dict[str, Any], tally: LineTally, *, removes: bool) -> tuple[int | None, int | None] | None:
    """How many documents were changed, None where a statement was stopped before they were counted, and how many index
    keys such a one removed; None where the line does not say."""
    count = attr.get("ndeleted" if removes else "nModified")
    stopped = "errCode" in attr or "errName" in attr
    given = attr.get("keysDeleted") if removes and stopped else None
    keys = given if isinstance(given, int) else None
    if isinstance(count, int):
        return count, keys
    if not stopped or "truncated" in attr:
        tally.cut += attr.get("type") != "command"
        return None
    return (None, keys) if given else None


def is_find_and_modify(body: Mapping[str, Any]) -> bool:
    """Whether a command finds and changes one document: older drivers and shells write its name in small letters."""
    return "findAndModify" in body or "findandmodify" in body


def is_redacted(value: object) -> bool:
    """Whether a value, or one inside a document or an array, was replaced by the server."""
    if isinstance(value, dict):
        return any(map(is_redacted, value.values()))
    return any(map(is_redacted, value)) if isinstance(value, list) else value == REDACTED


def id_key(value: object) -> object:
    """An ``_id`` of extended JSON or BSON in one form for both; None for a type that is not compared."""
    if isinstance(value, dict):
        found = value.get("$oid")
        return ("oid", found) if isinstance(found, str) else None
    if isinstance(value, bool) or not isinstance(value, _PLAIN_ID):
        name = type(value).__name__
        return ("oid", str(value)) if name == "ObjectId" else None
    return value


def shell_text(value: object, nesting: int = 0) -> str:
    """Extended JSON as a person would type it in mongosh, bounded. Not safe to show before ``text.clean``."""
    if isinstance(value, dict):
        (only, held), *more = value.items() if value else [("", None)]
        if not more and only in _WRAPPED:
            return f"{_WRAPPED[only]}({held!r})"
        if nesting >= _NESTING:
            return "{…}"
        parts = [
            f"{key if _PLAIN_KEY.match(key) else repr(key)}: {shell_text(one, nesting + 1)}"
            for key, one in list(value.items())[:_WIDTH]
        ]
        return "{" + ", ".join(parts) + ("" if len(value) <= _WIDTH else ", …") + "}"
    if isinstance(value, list):
        parts = [shell_text(one, nesting + 1) for one in value[:_WIDTH]] if nesting < _NESTING else ["…"]
        return "[" + ", ".join(parts) + ("" if len(value) <= _WIDTH else f", …+{len(value) - _WIDTH}") + "]"
    if isinstance(value, str):
        return repr(value[:STATEMENT_CELLS])
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false"}.get(value, "null")  # type: ignore[arg-type]
    return str(value)


def without_values(text: str) -> str:
    """A statement of this module with ``?`` in place of each constant: field names and operators stay."""
    start = min((at for at in map(text.find, "({") if at >= 0), default=-1)
    if start < 0:
        return text
    found, depth = [text[:start]], 0
    for token in _TOKEN.finditer(text, start):
        found.append(token[0] if token["key"] or token["mark"] else "?")
        depth += sum((char in "({[") - (char in ")}]") for char in token["mark"] or "")
        if depth == 0:  # a namespace before the statement may have had parentheses, too
            cut = _CUT if text.startswith(_CUT, token.end()) else ""
            return "".join(found) + cut + without_values(text[token.end() + len(cut) :])
    return "".join(found)


def _shape(value: object, nesting: int = 0, *, replaces: bool = False) -> Hashable:
    """A part of a statement without its values. Names may hold a number; of a document that replaces another one they
    are values too."""
    if nesting >= _NESTING:
        return None
    if isinstance(value, list):
        return frozenset(_shape(one, nesting + 1) for one in value[:_WIDTH] or [None])  # no value is any value
    if not isinstance(value, dict) or (len(value) == 1 and _VALUES.issuperset(value)):
        return None
    if replaces and not all(key.startswith("$") for key in value):
        return "document"
    return tuple((_DIGITS.sub("#", key), _shape(one, nesting + 1)) for key, one in value.items())


def _text(op: str, body: dict[str, Any], query: object, update: object, *, many: bool, whole: bool) -> str:
    name = "delete" if op == "d" else "update"
    name = f"findOneAnd{name.capitalize()}" if "query" in body else f"{name}{'Many' if many else 'One'}"
    words = [shell_text(query)] + ([shell_text(update)] if update is not None else [])
    return clean(f"{name}({', '.join(words)})" + ("" if whole else _CUT), STATEMENT_CELLS)


def ids_of(query: object) -> frozenset[object] | None:
    """The ``_id`` that a filter names: by equality, ``$eq`` or ``$in``."""
    wanted = query.get("_id") if isinstance(query, dict) else None
    if isinstance(wanted, dict) and "$oid" not in wanted:
        wanted = wanted.get("$in", [wanted["$eq"]] if "$eq" in wanted else None)
    if wanted is None:
        return None
    keys = {id_key(one) for one in (wanted if isinstance(wanted, list) else [wanted])}
    return None if None in keys else frozenset(keys)


def _fields(update: object) -> frozenset[str] | None:
    """The top-level fields that an update with operators names; None for a pipeline or a replacement."""
    if not isinstance(update, dict) or not update or not all(key.startswith("$") for key in update):
        return None
    found: set[str] = set()
    for operator, body in update.items():
        if not isinstance(body, dict):
            return None
        found |= {key.partition(".")[0] for key in body}
        if operator == "$rename":
            found |= {str(one).partition(".")[0] for one in body.values()}
    return _kept_once(frozenset(found))


@functools.lru_cache(maxsize=1_000)
def _kept_once(fields: frozenset[str]) -> frozenset[str]:
    """One object for equal fields: thousands of statements name the same few."""
    return fields
