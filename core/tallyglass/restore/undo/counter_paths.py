"""The counters of known libraries in a document, by its shape."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable

from tallyglass.counters.recognise.identity import id_text
from tallyglass.counters.recognise.libraries import number_fields, recognise
from tallyglass.counters.recognise.shapes import Match, dig
from tallyglass.mongo.gateway import Document
from tallyglass.restore.backup.bson_file import decode
from tallyglass.restore.model.proof import Reissue
from tallyglass.text import clean_name


def sure(ns: str, document: Document) -> list[Match]:
    """The counters in a document by the shapes of known libraries. A mere guess is not acted upon."""
    return recognise(ns.partition(".")[2], document)


def counter_paths(ns: str, raw: bytes) -> list[str]:
    """The paths of the numbers in an undecoded document that is a counter of a known library; none for any other."""
    return [match.path for match in sure(ns, decode(raw))] if may_be_counter(ns, raw) else []


def may_be_counter(ns: str, raw: bytes, start: int = 0, end: int = sys.maxsize) -> bool:
    """Whether the document at ``start`` has to be decoded to see if :func:`sure` finds a counter in it."""
    return search_for(ns)(raw, start, end) is not None


def search_for(ns: str) -> Callable[[bytes, int, int], re.Match[bytes] | None]:
    """What finds a sign of a counter in a document of this collection, between two places of a batch."""
    return number_fields(ns.partition(".")[2]).search


def is_past(handed_out: Iterable[Reissue], ns: str, raw: bytes) -> bool:
    """Whether an undecoded document is a counter of which ``handed_out`` tells, and each of its numbers is where it
    hands out no id again."""
    document = decode(raw)
    where = clean_name(ns), id_text(document.get("_id"))
    rows = [row for row in handed_out if (row.ns, row.id) == where]
    return bool(rows) and all(_is_past(row, dig(document, row.field)) for row in rows)


def _is_past(row: Reissue, value: object) -> bool:
    descends = row.restored is not None and row.live < row.restored
    return isinstance(value, (int, float)) and (value <= row.live if descends else value >= row.live)
