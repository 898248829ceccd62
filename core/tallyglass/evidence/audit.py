"""Lines of an audit log as facts: MongoDB Enterprise and Atlas, Percona Server, and Amazon DocumentDB.

An audit line is written when a command is authorised or has changed a definition. It names the account and the command,
but neither how many documents a delete changed nor when it ended: without its session it makes an account possible,
never certain. Deletes and updates are there only with ``auditAuthorizationSuccess``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tallyglass.evidence.book import Book, Recent
from tallyglass.evidence.facts import (
    NAME_CELLS,
    STATEMENT_CELLS,
    Client,
    Definition,
    Source,
    Statement,
    application_of,
    session_of,
    user_of,
    users_definition,
)
from tallyglass.evidence.statement import ids_of, is_redacted, shell_text
from tallyglass.moment import from_millis
from tallyglass.text import clean, clean_name

RUN_MILLIS = 60_000
"""How long after its line a delete or update is thought to be possibly running: the line does not say."""

_REMOTES_LIMIT = 20_000  # addresses with a name of an application: some 4 MB; the oldest goes first
_DEFINITIONS = {
    "dropCollection": "drop", "dropDatabase": "dropDatabase", "dropIndex": "dropIndexes",
    "createIndex": "createIndexes", "renameCollection": "rename",
}  # fmt: skip
_WRITES = {"delete": "d", "update": "u", "findAndModify": "", "findandmodify": ""}


def is_audit_line(text: str) -> bool:
    """Whether a line is of an audit log, not of the server's log."""
    return text.startswith("{") and '"atype"' in text[:400]


class AuditReader:
    """Reads the lines of one audit log in order, and adds what they say to a book."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._applications = Recent[str, tuple[str, str]](_REMOTES_LIMIT)

    def feed(self, lines: Iterable[str]) -> None:
        """Read more lines, each a JSON text. One that is cut or of another form is counted."""
        for text in lines:
            if text.strip():
                self._book.tally.lines += 1
                try:
                    row = json.loads(text)
                    self._read(row)
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
                    self._book.tally.cut += 1

    def _read(self, row: dict[str, Any]) -> None:
        name, param, at = str(row["atype"]), row.get("param") or {}, _millis(row["ts"])
        address = _address(row)
        if name == "clientMetadata":
            self._applications[address] = application_of(param.get("clientMetadata"))
            return
        if (row.get("result") or 0) != 0 or (row.get("local") or {}).get("isSystemUser"):
            return
        client = self._client(row, address)
        if name in _DEFINITIONS:
            self._define(_DEFINITIONS[name], param, client, at)
        elif users := users_definition({name: param.get("user", param.get("role", ""))}, client, at):
            self._book.add_definition(users)
        elif name == "authCheck":
            self._command(param, client, at)

    def _client(self, row: dict[str, Any], address: str) -> Client:
        users = []
        for one in row.get("users") or ():
            user, hashed = user_of(one["user"], one["db"])
            self._book.users[hashed] = user
            users.append(user)
        application, driver = self._applications.get(address, ("", ""))
        return Client(" or ".join(users), application, address, driver)

    def _define(self, kind: str, param: dict[str, Any], client: Client, at: int) -> None:
        ns = clean_name(str(param.get("old", param.get("ns", ""))), 255)
        more = clean(str(param.get("new") or param.get("indexName") or ""), 255)
        text = " ".join(filter(None, (kind, ns, more)))
        self._book.add_definition(Definition(kind, ns, client, at, text=text))

    def _command(self, param: dict[str, Any], client: Client, at: int) -> None:
        command, args = str(param.get("command", "")), param.get("args")
        if command not in _WRITES or not isinstance(args, dict):
            return
        session, txn, after = session_of(args)
        self._book.add_command(session, txn, client)
        ns = clean_name(str(param.get("ns", "")), 255)
        for op, query, text, is_collated in _writes(command, args):
            hidden = is_redacted(query)
            self._book.tally.redacted += hidden
            self._book.add_statement(
                Statement(
                    op, ns, client, at, at + RUN_MILLIS, None, after=after, session=session, txn=txn,
                    in_session=None if txn is None else True, text="" if hidden else text,
                    ids=None if hidden or is_collated else ids_of(query), source=Source.AUDIT,
                )
            )  # fmt: skip


def _writes(command: str, args: dict[str, Any]) -> Iterable[tuple[str, object, str, bool]]:
    """The kind, filter and text of each delete or update of a command, and whether its collation may make one ``_id``
    find another; a filter that is unknown is None."""
    if command in ("delete", "update"):
        rows, key, op, name = args.get(f"{command}s"), "q", _WRITES[command], command
    else:
        removes = bool(args.get("remove"))
        rows, key = [args], "query"
        op, name = ("d", "findOneAndDelete") if removes else ("u", "findOneAndUpdate")
    for row in rows if isinstance(rows, list) else [{}]:
        one = row if isinstance(row, Mapping) else {}
        query = one.get(key)
        text = "" if query is None else clean(f"{name}({shell_text(query)})", STATEMENT_CELLS)
        yield op, query, text, "collation" in one


def _millis(value: object) -> int:
    """A time in milliseconds: ``{$date: text or number}`` or, in DocumentDB, the number itself. Raises ValueError."""
    if isinstance(value, dict):
        value = value["$date"]
    if isinstance(value, dict):
        value = int(value["$numberLong"])
    if isinstance(value, str):
        at = datetime.fromisoformat(value)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, bool) or not isinstance(value, int) or from_millis(value) is None:
        raise ValueError(value)
    return value


def _address(row: dict[str, Any]) -> str:
    remote = row.get("remote_ip")
    if not isinstance(remote, str):
        found = row.get("remote") or {}
        remote = f"{found.get('ip', '')}:{found.get('port', '')}" if "ip" in found else ""
    return clean(remote, NAME_CELLS)
