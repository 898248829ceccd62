"""What an undo reads the documents from as they were at the point: a spare, or saved pre-images."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from tallyglass.mongo.gateway import DEFAULT_TIME_MS, Document, Namespace


class DocumentSource(Protocol):
    """The one read of a gateway that an undo needs of the documents' source."""

    def find_raw(self, ns: Namespace, query: Document, *, time_ms: int = DEFAULT_TIME_MS) -> AsyncIterator[bytes]:
        """Batches of documents: those whose ``_id`` is ``$in`` the query, or all for an empty one."""
        ...
