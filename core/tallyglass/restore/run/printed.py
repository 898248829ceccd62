"""What a step printed, as far as it proves that the step did its work or names why it did not."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

from tallyglass.restore.model.step import Proof

_APPLIED = re.compile(r"\S+\s+applied (\d+) oplog entries")
_RESTORED = re.compile(r"\S+\s(\d+) document\(s\) restored successfully\. (\d+) document\(s\) failed to restore\.")
_LAST_LINES = 5
"""Lines that are searched for a cause: the tools end with their error, after it come only totals."""


class Printed:
    """Takes the lines of a step as they come."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._applied: set[int] = set()

    def hear(self, line: str) -> None:
        """Take the next line."""
        self._last.append(line)
        found = _APPLIED.fullmatch(line)
        if found:
            self._applied.add(int(found[1]))

    def proves(self, proof: Proof, folder: Path) -> bool:
        """Whether the step gave the computed result. ``folder`` is the plan's."""
        if proof.applied is not None and proof.applied not in self._applied:
            return False
        if proof.restored is not None and not self._restored(proof.restored):
            return False
        made = folder / proof.file
        return not proof.file or (made.is_file() and made.stat().st_size > 0)

    def _restored(self, least: int) -> bool:
        # The last line alone: in those before it stand names out of the data, which may read like it.
        found = _RESTORED.fullmatch(self._last[-1]) if self._last else None
        return found is not None and int(found[1]) >= least and int(found[2]) == 0

    def likely_cause(self) -> str:
        """What the tools leave unsaid, by the last lines that they printed; empty if that is not known."""
        said = "\n".join(self._last)
        if "applyOps had one or more errors" in said:
            return (
                "Likely a validator does not take a document: Database Tools before 100.15 lose "
                "--bypassDocumentValidation in a replay. Check mongorestore --version; the log of the spare names the "
                "cause."
            )
        if re.search("not authorized.*applyOps", said, re.DOTALL):
            return "The user on the spare needs a role with anyAction on anyResource. Grant it, and run it again."
        if lacks := re.search("not authorized on local.*(listCollections|listIndexes)", said, re.DOTALL):
            return (
                f"The user on the live set may not run {lacks[1]} on local: mongodump reads the oplog only with find "
                "and listIndexes on local.oplog.rs and listCollections on local. Grant it backup or clusterMonitor, "
                "which have them, and run it again."
            )
        if re.search("applyOps: .*(KeyString format error|buffer size too small to read)", said):
            return (
                "An entry inserts a document that the backup holds already, into a clustered collection: MongoDB 6.0 "
                "fails at that where the _id is a fraction, a Decimal128, NaN, or a text with a null character. Use a "
                "backup that was taken while nothing was inserted there, or pre-images."
            )
        if "no space left on device" in said.lower():
            return "The disk is full: make room, and run it again."
        if re.search("socket was unexpectedly closed|connection reset by peer|server selection error", said):
            return (
                "The server ended, or cannot be reached: the last lines of its log say why; a full disk ends it, too. "
                "Once it answers, run it again."
            )
        return ""
