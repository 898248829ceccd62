"""What a person types for a plan: the spare, what was run, and how many documents that reported."""

from __future__ import annotations

from tallyglass.connection.target import is_address
from tallyglass.errors import InputError
from tallyglass.restore.model.source import SPARE_PORT
from tallyglass.restore.undo.evidence import logged_statement, read_evidence
from tallyglass.text import clean
from tallyglass_tui.restore.draft import Draft

_DIGITS = 18
"""Digits of a number of documents at most: one of a server has 19. Python reads no number of thousands of them."""


def suggested_statement(draft: Draft) -> str:
    """The statement that was given before, or the one in the server's log; empty where neither is known."""
    return draft.statement or logged_statement(draft.incident)[0]


def suggested_count(draft: Draft, statement: str) -> str:
    """The number that was given or logged with just this statement, as text; empty if there is none.

    Raises InputError for what is no statement.
    """
    read_evidence(statement, None)
    logged, count = logged_statement(draft.incident)
    known = draft.reported if statement == draft.statement else count if statement == logged else None
    return "" if known is None else str(known)


def count_of(text: str) -> int | None:
    """The number of documents as typed, None for nothing. Raises InputError."""
    plain = text.replace(",", "").replace("_", "")
    if plain and (not plain.isdecimal() or len(plain) > _DIGITS or int(plain) == 0):
        raise InputError(f"'{clean(text, 40)}' is not a number of documents.", "For example 368.")
    return int(plain) if plain else None


def address_of(text: str) -> str:
    """The address of the spare as typed, empty for none. Raises InputError."""
    if text and not is_address(text):
        raise InputError(f"'{clean(text, 60)}' is not HOST:PORT.", f"For example 127.0.0.1:{SPARE_PORT}.")
    return text
