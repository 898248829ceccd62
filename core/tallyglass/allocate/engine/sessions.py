"""Ids are never taken inside a transaction: its abort would roll back the increment after the ids were used."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final

from pymongo.asynchronous import client_session as asynchronous
from pymongo.synchronous import client_session as synchronous

from tallyglass.allocate.engine.handles import Documents
from tallyglass.allocate.errors import TransactionRefused

_MODULES: Final = (synchronous, asynchronous)
_SESSIONS: Final = (synchronous.ClientSession, asynchronous.AsyncClientSession)


def session_sync(collection: Documents) -> synchronous.ClientSession:
    """A session of the client of a collection, to be ended by leaving it."""
    return collection.database.client.start_session()


@asynccontextmanager
async def session_async(collection: Documents) -> AsyncIterator[Any]:
    """A session of the asynchronous client of a collection: Motor's is awaited for, PyMongo's is not."""
    session: Any = collection.database.client.start_session()
    if inspect.isawaitable(session):
        session = await session
    async with session:
        yield session


def refuse_transaction(session: Any) -> None:
    """Raise TransactionRefused for a session that is in a transaction."""
    if session is not None and session.in_transaction:
        raise TransactionRefused(
            "This session is in a transaction, and ids are never taken inside one.",
            "An abort would roll back the increment after its ids were used. Take the ids before the transaction.",
        )


def refuse_bound_transaction() -> None:
    """Refuse a transaction of a session that ``with session.bind():`` makes PyMongo use implicitly."""
    for session in _bound_sessions():
        refuse_transaction(session)


def _bound_sessions() -> Iterator[Any]:
    variables = [getattr(module, "_SESSION", None) for module in _MODULES]
    if all(isinstance(variable, ContextVar) for variable in variables):
        for variable in variables:
            assert isinstance(variable, ContextVar)
            yield variable.get(None)
    elif hasattr(_SESSIONS[0], "bind"):
        # The variable is not public, and has another name in this version of the driver: any of the driver's
        # sessions that a context variable holds may be the bound one.
        yield from (value for value in contextvars.copy_context().values() if isinstance(value, _SESSIONS))
