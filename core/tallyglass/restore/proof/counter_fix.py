"""One counter that is moved forward: the statements for the spare and for the live set, and when each must find it."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.restore.model.proof import Reissue
from tallyglass.restore.tools import mongosh


@dataclass(frozen=True, slots=True)
class Fix:
    """One counter that is moved forward, for the commands: ``row`` as it is shown, ``ns`` as it is stored.

    ``restored`` tells whether it is known to be on the spare after the replay, ``live`` whether it was there when the
    plan was made; where it is neither, the update makes it. ``needed`` is False for a counter that is right once it is
    back: it is still moved, since the application may start it again at 1 before the return. ``lowered`` tells that
    the live counter was before an id that it had handed out.
    """

    ns: str
    row: Reissue
    restored: bool
    live: bool
    needed: bool = True
    lowered: bool = False

    @property
    def makes(self) -> bool:
        """Whether the update makes the counter on the spare."""
        return not (self.restored or self.live)

    def on_spare(self) -> str:
        """The statement for the spare."""
        missing = f"{self._shown} is no number on the spare, but backup and oplog have one: plan again."
        return mongosh.must_match(self.row.fix, missing if self.restored else "")

    def on_source(self, *, comes_back: bool) -> str:
        """The statement for the live set; empty where no step touches the collection and the counter is right."""
        if not (comes_back or self.lowered):
            return ""
        missing = (
            f"{self._shown}: {self.row.field} is no number on the live set. Set it to {self.row.live} or past it, "
            "and run this again."
        )
        return mongosh.must_match(self.row.fix, missing)

    @property
    def _shown(self) -> str:
        return f"{self.row.ns} {self.row.id}"
