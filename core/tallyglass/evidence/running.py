"""Deletes, updates, drops and index builds that run now, and the line that would stop each. It is never run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tallyglass.evidence.book import LineTally
from tallyglass.evidence.facts import RunningOperation, client_of
from tallyglass.evidence.statement import is_find_and_modify, shell_text, write_of
from tallyglass.mongo.gateway import Document
from tallyglass.mongo.mongosh import literal
from tallyglass.text import clean, clean_name

LEAST_SECONDS = 1.0
"""How long an operation must have run to be shown."""

_COMMANDS = (
    "drop", "dropDatabase", "dropIndexes", "createIndexes", "renameCollection", "delete", "update", "bulkWrite",
)  # fmt: skip
_WRITES = {"remove", "update"}


def running_of(rows: Iterable[Document]) -> tuple[RunningOperation, ...]:
    """The writes among rows of ``$currentOp`` that have run for more than a second, the longest first."""
    found = [one for row in rows if (one := _running(row)) is not None]
    return tuple(sorted(found, key=lambda one: -one.seconds))


def _running(row: Document) -> RunningOperation | None:
    micros, opid, body = row.get("microsecs_running"), row.get("opid"), row.get("command")
    client = client_of(row)
    if not row.get("active") or client is None or not isinstance(micros, int) or not isinstance(body, Mapping):
        return None
    if micros < LEAST_SECONDS * 1e6 or not isinstance(opid, (int, str)):
        return None
    name = next((one for one in _COMMANDS if one in body), "")
    op = str(row.get("op", ""))
    writes = op in _WRITES or is_find_and_modify(body)
    if not name and not writes:
        return None
    counted = {"nModified": 1, "ndeleted": 1, **row, "type": op}
    write = write_of(counted, client, 0, 0, 0, LineTally()) if writes else None
    progress = row.get("progress")
    done, total = (progress.get(one) if isinstance(progress, Mapping) else None for one in ("done", "total"))
    return RunningOperation(
        clean(write.text.partition("(")[0] if write else name, 40),
        clean_name(str(row.get("ns", "")), 255),
        client,
        micros / 1e6,
        write.text if write else clean(f"{name}: {shell_text(body.get(name))}", 200),
        f"db.adminCommand({{killOp: 1, op: {literal(opid)}}})",
        done if isinstance(done, int) else None,
        total if isinstance(total, int) else None,
    )
