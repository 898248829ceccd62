"""The members of a replica set: their states, configured delays, lags, and how old the data are that one serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tallyglass.errors import PrivilegeError, RefusedError
from tallyglass.mongo.codec import whole_number
from tallyglass.mongo.gateway import Document, Gateway
from tallyglass.text import clean, clean_name

LEAST_LAG = 11.0
"""Seconds. An idle primary writes every ten: a smaller difference is not lag."""

OLD_SECONDS = 21.0
"""A primary that has just become idle first writes after up to twenty: younger data are not called old."""


@dataclass(frozen=True, slots=True)
class SetMember:
    """One member of the set: ``state`` as the server names it, empty if not reported.

    ``lag_seconds`` is how far it is behind the primary, or behind the newest member if there is no primary, beyond its
    configured ``delay_seconds``; None for a member without data, or if the server does not report it. On an idle set up
    to ten seconds are normal. ``delay_seconds`` is 0 and ``hidden`` false if this user may not read the configuration.
    """

    address: str
    state: str
    me: bool = False
    lag_seconds: float | None = None
    delay_seconds: int = 0
    hidden: bool = False


async def read_members(gateway: Gateway, hello: Document) -> tuple[SetMember, ...]:
    """The members by replSetGetStatus, or by ``hello`` if this user may not run that."""
    try:
        status = await gateway.command("replSetGetStatus")
    except (PrivilegeError, RefusedError):
        primary = hello.get("primary")
        return tuple(
            SetMember(clean_name(str(host)), "PRIMARY" if host == primary else "", host == hello.get("me"))
            for host in [*hello.get("hosts", ()), *hello.get("passives", ()), *hello.get("arbiters", ())]
        )
    configured = await _configured(gateway)
    rows = [row for row in status.get("members", ()) if isinstance(row, Mapping)]
    newest = _applied_by(rows, "PRIMARY") or _applied_by(rows)
    return tuple(_member(row, configured.get(row.get("_id"), {}), newest) for row in rows)


def data_age(hello: Document) -> float | None:
    """Seconds since the newest write that the answering member has; None for a primary, for a member that has none yet,
    and if it does not say."""
    last, now = hello.get("lastWrite"), _reported(hello.get("localTime"))
    written = _reported(last.get("lastWriteDate")) if isinstance(last, Mapping) else None
    if hello.get("isWritablePrimary") or written is None or now is None:
        return None
    return max(0.0, (now - written).total_seconds())


def old_data(hello: Document) -> str:
    """One sentence if the answering member serves data that are older than usual; empty otherwise."""
    age = data_age(hello)
    if age is None or age < OLD_SECONDS or not hello.get("setName"):
        return ""
    delay = _delay(hello)
    what = f", which is delayed by {delay:,} s" if delay else "" if hello.get("secondary") else ", which is recovering"
    name = clean_name(str(hello.get("me") or "a member"))
    return f"The data are {age:,.0f} s old: they come from {name}{what}."


async def _configured(gateway: Gateway) -> dict[object, Document]:
    """The configuration of each member by its ``_id``; empty if this user may not read it."""
    try:
        config = (await gateway.command("replSetGetConfig")).get("config", {})
    except (PrivilegeError, RefusedError):
        return {}
    return {row.get("_id"): row for row in config.get("members", ()) if isinstance(row, Mapping)}


def _member(row: Document, config: Document, newest: datetime | None) -> SetMember:
    delay, own = _delay(config), _applied(row)
    behind = (newest - own).total_seconds() if newest and own else None
    return SetMember(
        clean_name(str(row.get("name", ""))),
        clean(str(row.get("stateStr", ""))),
        bool(row.get("self")),
        None if behind is None else max(0.0, behind - delay),
        delay,
        bool(config.get("hidden")),
    )


def _delay(config: Document) -> int:
    """The configured delay in seconds; before MongoDB 5.0 it is called ``slaveDelay``."""
    return whole_number(config.get("secondaryDelaySecs", config.get("slaveDelay"))) or 0


def _applied(row: Document) -> datetime | None:
    """The time of the newest entry that a member has."""
    return _reported(row.get("optimeDate"))


def _reported(at: object) -> datetime | None:
    """A time that a server reports; it is the epoch for a member that is down, or is copying its first data."""
    if not isinstance(at, datetime) or at.year <= 1970:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _applied_by(rows: Sequence[Document], state: str = "") -> datetime | None:
    return max((at for row in rows if not state or row.get("stateStr") == state if (at := _applied(row))), default=None)
