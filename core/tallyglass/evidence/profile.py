"""Documents of ``system.profile`` as facts: statements with their filter, count, account and application.

A delete or update in the profile names neither its connection nor its session. One that may change many documents has
no transaction number, and a transaction's lacks a lock that all others acquire (measured on 6.0.5): only such a
statement is known to have entries without a session. Of all others that is unknown, and they name nobody alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import NAME_CELLS, Client, Definition, Source, session_of
from tallyglass.evidence.statement import is_duration, is_find_and_modify, shell_text, write_of
from tallyglass.mongo.gateway import Document
from tallyglass.text import clean, clean_name

PROFILE = "system.profile"
"""The collection of a database in which the profiler keeps statements."""

DATABASES_LIMIT = 60
"""The most databases whose profile is read: each costs a command or two."""

OPERATIONS = ("remove", "update", "command")
"""The kinds of document that are read."""

_OUTSIDE_TRANSACTIONS = "ParallelBatchWriterMode"
_DEFINITIONS = ("drop", "dropDatabase", "dropIndexes", "createIndexes", "collMod")


def read_profile(book: Book, rows: Iterable[Document]) -> None:
    """Add what documents of ``system.profile`` say to a book."""
    for row in rows:
        _read(book, row)


def _read(book: Book, row: Document) -> None:
    at, millis, body = row.get("ts"), row.get("millis"), row.get("command")
    if not isinstance(at, datetime) or not is_duration(millis) or not isinstance(body, Mapping):
        return
    ended = round(at.timestamp() * 1000)
    client = Client(*(clean_name(str(row.get(name, "")), NAME_CELLS) for name in ("user", "appName", "client")))
    if row.get("op") in ("remove", "update") or is_find_and_modify(body):
        _add_write(book, dict(row), body, client, ended - millis, ended)
        return
    name = next((one for one in _DEFINITIONS if one in body), "")
    if name and "errCode" not in row:
        db = str(body.get("$db", row.get("ns", ""))).partition(".")[0]
        ns = {"dropDatabase": db, "collMod": str(body[name])}.get(name, f"{db}.{body[name]}")
        text = clean(f"{name}: {shell_text(body[name])}", 200)
        book.add_definition(Definition(name, clean_name(ns, 255), client, ended, text=text))


def _add_write(book: Book, row: dict[str, Any], body: Document, client: Client, began: int, ended: int) -> None:
    if "$truncated" in body:
        row["truncated"] = True
    write = write_of(row, client, began, ended, 0, book.tally, Source.PROFILE)
    session, txn, after = session_of(body)
    book.add_command(session, txn, client)
    if write is not None and write.documents != 0:
        in_session = txn is not None if session else _in_session(row, body)
        book.add_statement(replace(write, session=session, txn=txn, in_session=in_session, after=after))


def _in_session(row: Document, body: Document) -> bool | None:
    changes_many = body.get("limit") == 0 if row.get("op") == "remove" else body.get("multi") is True
    locks = row.get("locks")
    return False if changes_many and isinstance(locks, Mapping) and _OUTSIDE_TRANSACTIONS in locks else None
