"""Whether the dump of the oplog that a restore made holds the entries that were proven."""

from __future__ import annotations

from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.backup.bson_file import BrokenFile, documents, entry_ts
from tallyglass.restore.model.proof import Slice
from tallyglass.text import clean, plural


def check_dumped(path: Path, proven: Slice) -> None:
    """Raise InputError unless the file holds as many entries as were ``proven``, from the first to the last.

    bsondump cannot count them: it refuses a document in which a field is called like a type of Extended JSON.
    """
    count, first, last = 0, b"", b""
    try:
        for last in documents(path):
            first = first or last
            count += 1
        held = f"{plural(count, 'entry', 'entries')} from {entry_ts(first)} to {entry_ts(last)}" if count else "nothing"
    except (BrokenFile, Malformed) as error:
        raise InputError(f"{clean(str(path))} is not what mongodump writes of an oplog: {error}") from None
    wanted = f"{plural(proven.entries, 'entry', 'entries')} from {proven.first} to {proven.last}"
    if held != wanted:
        raise InputError(f"The dump holds {held}; {wanted} should be there, as proven.", "Plan again.")
