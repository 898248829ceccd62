"""One counter that is moved forward: the statements for the spare and for the live set, and when each must find it."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.restore.model.plan import Reissue
from tallyglass.restore.tools import mongosh


@dataclass(frozen=True, slots=True)
class Fix:
    """One counter that is moved forward, for the commands: ``row`` as it is shown, ``ns`` as it is stored.

    ``restored`` tells whether it is known to be on the spare after the replay, ``live`` whether it was there when the
    plan was made; where it is neither, the update makes it.
    """

    ns: str
    row: Reissue
    restored: bool
    live: bool

    @property
    def makes(self) -> bool:
        """Whether the update makes the counter on the spare."""
        return not (self.restored or self.live)

    def on_spare(self) -> str:
        """The statement for the spare."""
        said = f"The counter {self._shown} is not on the spare, though backup and oplog have it: plan again."
        return mongosh.moved(self.row.fix, said if self.restored else "")

    def on_source(self, *, comes_back: bool) -> str:
        """The statement for the live set; empty where the counter was gone and its collection does not come back."""
        if not (comes_back or self.live):
            return ""
        said = (
            f"The counter {self._shown} is not on the live set. Insert it with {self.row.field} at {self.row.live} or "
            "more and run the script again; if it was deleted on purpose, plan again."
        )
        return mongosh.moved(self.row.fix, said)

    @property
    def _shown(self) -> str:
        return f"{self.row.ns} {self.row.id}"
