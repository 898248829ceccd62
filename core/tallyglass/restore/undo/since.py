"""What others wrote to a collection between the accident that replaced it and its return, and what of it comes along.

Between the two, the collection held what the accident left. Documents that others inserted there are theirs and come
along; what they changed in the accident's own documents has no counterpart in the copy, and is listed. It is carried
over twice: into the copy before the names change, and into the collection afterwards, for the writes in between.
Counters are left out here: mongosh raises them as the names change.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tallyglass.counters.numbers import as_number, numeric_type
from tallyglass.moment import ZERO, Ts, parse_ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import (
    Changes,
    Unfit,
    apply_update,
    build,
    changes_of,
    differing,
    get,
    is_replacement,
)
from tallyglass.oplog.read.past import safe_end
from tallyglass.restore.backup.bson_file import decode
from tallyglass.restore.model.undo import Return
from tallyglass.restore.undo.counter_paths import counter_paths
from tallyglass.restore.undo.counterfactual import Counterfactual
from tallyglass.restore.undo.documents import HELD_BYTES, DocumentSource, documents_by_id, groups, taken_id
from tallyglass.restore.undo.ledger import Ledger, LoggedWrite, OthersDid, Written, read_ledger
from tallyglass.text import clean_name
from tallyglass.whole_file import write_whole


class Compared(NamedTuple):
    """What others wrote, beside the document of the copy and the one that is there now; None where there is none."""

    written: Written
    copy: bytes | None
    actual: bytes | None


async def carried_over(
    source: Gateway, spare: DocumentSource, row: Return, since: Ts, seen: Path
) -> AsyncIterator[tuple[str, Compared, bytes]]:
    """What others wrote and is to be written: the namespace to write it to, what is there, and the document as it is to
    be. The file ``seen`` stores up to where it was carried over before the names changed. Raises the errors of the
    gateways."""
    target, returned = await _target(source, row)
    if not returned:
        seen.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(seen, str((await safe_end(source)).ts))
    ledger = await read_ledger(source, row, since, returned, _stored(seen))
    async for found in _compared(source, spare, row, target, ledger):
        document = _wanted(row.ns, found, returned=bool(returned))
        if document is not None:
            yield target, found, document


async def left_behind(
    source: Gateway, spare: DocumentSource, row: Return, since: Ts, seen: Path | None
) -> AsyncIterator[tuple[bytes, str]]:
    """The ``_id`` of each document that others wrote and that is not, or not surely, as they left it, and why. Raises
    the errors of the gateways."""
    target, returned = await _target(source, row)
    ledger = await read_ledger(source, row, since, returned, _stored(seen))
    async for found in _compared(source, spare, row, target, ledger):
        if why := _why_left(row, found):
            if why == COULD_NOT_WRITE and found.actual is None:
                why = await taken_id(source, target, found.written.key) or why
            yield found.written.key, why


def _stored(seen: Path | None) -> Ts:
    return parse_ts(seen.read_text()) if seen and seen.exists() else ZERO


async def _target(source: Gateway, row: Return) -> tuple[str, bytes]:
    """Where what others wrote is to go: the staging collection before the names change, with an empty UUID; afterwards
    the collection itself, with its UUID."""
    live = {str(info.ns): info.uuid for info in await source.list_collections(row.ns.partition(".")[0])}
    early = row.beside in live and not {row.ns, row.away} <= live.keys()
    return (row.beside, b"") if early else (row.ns, live.get(row.ns, b""))


async def _compared(
    source: Gateway, spare: DocumentSource, row: Return, target: str, ledger: Ledger
) -> AsyncIterator[Compared]:
    """What others wrote, document by document. Raises the errors of the gateways."""
    with closing(ledger):
        for some in groups(ledger, _size, HELD_BYTES):
            keys = [one.key for one in some]
            copies = await documents_by_id(spare, row.ns, keys)
            held = await documents_by_id(source, target, keys)
            for one in some:
                yield Compared(one, copies.get(one.key), held.get(one.key))


def _size(one: Written) -> int:
    return len(one.carried or b"") + len(one.document or b"")


def _wanted(ns: str, found: Compared, *, returned: bool) -> bytes | None:
    """The document as it is to be, where it is not so; None where nothing is to be written. Once the names have changed
    others write it too: one that is not as the oplog was read to leave it was written since, and stays."""
    one = found.written
    if one.document is None or found.copy is not None or counter_paths(ns, one.document):
        return None
    if not returned:
        return None if found.actual == one.document else one.document
    worlds = _both_worlds(one)
    right = not _is_mixed(worlds) and worlds.actual == found.actual
    return worlds.wanted if right and worlds.wanted != found.actual else None


def _both_worlds(one: Written) -> Counterfactual:
    """The document as it was carried over and as others had left it, each with what they wrote since."""
    worlds = Counterfactual(one.carried, one.document)
    for operation in one.later:
        feed = worlds.repaired if _is_repair(worlds, operation) else worlds.others
        feed(*operation)
    return worlds


def _is_repair(worlds: Counterfactual, operation: LoggedWrite) -> bool:
    """Whether an update brings what others had left, as an earlier run of the return does."""
    before, wanted = worlds.actual, worlds.wanted
    if operation.op != "u" or before is None or wanted is None:
        return False
    with suppress(Unfit):
        after = apply_update(before, operation.o)
        return all(get(after, path) == get(wanted, path) for path in differing(before, after))
    return False


def _is_mixed(worlds: Counterfactual) -> bool:
    """Whether what others wrote before and after cannot be told apart."""
    return bool(worlds.unclear or worlds.overwritten or worlds.doubts)


def _why_left(row: Return, found: Compared) -> str:
    """Why what others wrote is not in the collection that came back; empty where it is, or where it need not be."""
    one, kept = found.written, clean_name(row.away)
    paths = counter_paths(row.ns, found.copy or one.document or found.actual or b"")
    if paths:
        return next(filter(None, (_twice(path, one) for path in paths)), "")
    if found.copy is not None or (one.fate is OthersDid.THEIRS and one.document is None):
        if one.fate is OthersDid.THEIRS and one.document and one.document == found.copy:
            return ""
        return f"Others wrote it after the accident had replaced it: compare it with {kept} and the oplog."
    if one.fate is OthersDid.CHANGED:
        return "" if one.document is None and not one.carried else _MEANWHILE
    if one.fate is OthersDid.GONE:
        return _why_gone(found)
    worlds = _both_worlds(one)
    if _is_mixed(worlds):
        return _MEANWHILE
    return "" if worlds.wanted == found.actual else COULD_NOT_WRITE


def _why_gone(found: Compared) -> str:
    """Why what others deleted before the names changed is there; empty where it is gone, or where they inserted it
    again."""
    later = found.written.later
    if found.actual is None or any(write.op != "u" or is_replacement(write.o) for write in later):
        return ""
    return _MEANWHILE if later else "Others deleted it meanwhile: delete it again."


COULD_NOT_WRITE = "It could not be written: run the script again."
_MEANWHILE = "Others wrote it before and after the collection came back: compare it with the oplog."


def _twice(path: str, one: Written) -> str:
    """Whether a counter went on at or below a number that it had handed out before the names changed, in words."""
    last, first = _number(path, one.last), _number(path, one.later[0]) if one.later else None
    if numeric_type(last) is None or numeric_type(first) is None:
        return ""
    begin, end = as_number(first), as_number(last)
    again = begin < end or (begin == end and one.later[0].op == "u")  # an insert of the last number came with the copy
    return f"The numbers from {begin} to {end} may have been handed out twice." if again else ""


def _number(path: str, write: LoggedWrite) -> Any:
    """The value that a write leaves at a path; None where it leaves none there."""
    names = tuple(path.encode().split(b"."))
    changes: Changes = {(): (walk.DOCUMENT, write.o)} if write.op == "i" else {}
    if write.op == "u":
        changes = changes_of(write.o)
    for length in range(len(names) + 1):
        if found := changes.get(names[:length]):
            if length < len(names):
                found = get(found[1], names[length:]) if found[0] == walk.DOCUMENT else None
            return decode(build({b"v": found}))["v"] if found else None
    return None
