"""Checks of a saved oplog: do its slices join, and does the live oplog continue them?"""

from __future__ import annotations

from tallyglass.restore.model.check import Checks, block, ok, warn
from tallyglass.restore.proof.findings import Findings
from tallyglass.restore.proof.inputs import is_broken
from tallyglass.restore.saved_oplog.joined import Saved


def saved_oplog(found: Findings) -> Checks:
    """Whether nothing is missing within the slices, and between them and the live oplog."""
    saved = found.inputs.saved
    if saved is None:
        return
    for problem in saved.oplog.problems:
        yield warn("oplog-slice-broken", f"A saved slice is not whole: {problem}.", "What is whole of it is used.")
    differs = saved.oplog.differs or saved.join.differs
    if differs:
        yield block("oplog-differs", f"The saved entries are not of one oplog: {differs}.", "Name slices of this set.")
    elif saved.hole is not None and is_broken(found.inputs):
        yield block("oplog-hole", f"Entries are missing {saved.hole}.", _advice(saved, found))
    elif saved.hole is not None:
        yield warn(
            "oplog-hole",
            f"Entries are missing {saved.hole}: what was written then is not known.",
            "The point lies before that, and nothing live is touched.",
        )
    else:
        count = len(saved.oplog.parts)
        what = f"{count} saved slices join" if count > 1 else "One saved slice holds all"
        yield ok("oplog-saved", f"{what} from {saved.oplog.first} to {saved.oplog.last}; the live oplog continues it.")


def _advice(saved: Saved, found: Findings) -> str:
    assert saved.hole is not None
    if saved.hole.after < found.inputs.limit:
        return "Name a slice that holds them: --oplog takes a folder."
    return "What others wrote since the point is not known: name a slice that holds them, or take --only NS --as NS2."
