"""The counters of known libraries in a document, by its shape."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from tallyglass.counters.recognise.libraries import number_fields, recognise
from tallyglass.counters.recognise.shapes import Match
from tallyglass.mongo.gateway import Document
from tallyglass.restore.backup.bson_file import decode


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
