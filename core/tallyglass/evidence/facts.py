"""What a source says: who was connected, which statement ran, what was defined. Every text is safe to show."""

from __future__ import annotations

import functools
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any
from uuid import UUID

from tallyglass.moment import ZERO, Ts
from tallyglass.text import clean, clean_name

NAME_CELLS = 120
"""The most characters of a user, an application or a driver that are kept."""

STATEMENT_CELLS = 400
"""The most characters of a statement that are kept."""

INTERNAL_USER = "__system@local"
"""The user of connections between members, and from a router to a shard: never the user of a client."""


_USER_COMMANDS = (
    "createUser", "updateUser", "dropUser", "dropAllUsersFromDatabase", "grantRolesToUser", "revokeRolesFromUser",
    "createRole", "updateRole", "dropRole", "dropAllRolesFromDatabase", "grantRolesToRole", "revokeRolesFromRole",
    "grantPrivilegesToRole", "revokePrivilegesFromRole",
)  # fmt: skip


class Source(StrEnum):
    """Where a fact is from."""

    LOG = "log"
    PROFILE = "profile"
    SESSIONS = "sessions"
    OPERATIONS = "operations"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Client:
    """Who was at the other end of a connection; empty where unknown.

    ``user`` is ``name@db``. ``connection`` is the thread's name in the log: ``conn9`` for a client's connection,
    anything else (``TTLMonitor``) for the server itself. ``application`` is what the client says of itself.
    """

    user: str = ""
    application: str = ""
    address: str = ""
    driver: str = ""
    connection: str = ""

    @property
    def is_server(self) -> bool:
        """Whether the server itself wrote, for no client."""
        return bool(self.connection) and not self.connection.startswith("conn")


@dataclass(frozen=True, slots=True)
class Statement:
    """One delete or update that a source names.

    ``op`` is ``d`` or ``u``. ``documents`` is how many it changed, None for one that was stopped: then ``keys`` is how
    many index keys it removed. ``began`` and ``ended`` are milliseconds since 1970 by the server's clock: the entries
    were written between them, a few of them up to seconds before ``began`` where the line was written late, but none
    before ``floor``. They are newer than ``after`` and, if that is known, not newer than ``before``: the cluster times
    that the client had when it sent this command and its next one. ``in_session`` is whether they carry a session, None
    if unknown.
    ``ids`` are the ``_id`` that the filter names, ``fields`` the top-level fields that the update names; None if any.
    ``many`` is whether it may change more than one document. ``shape`` is alike for statements that differ in their
    values only, 0 where the source does not show it.
    """

    op: str
    ns: str
    client: Client
    began: int
    ended: int
    documents: int | None
    keys: int | None = None
    floor: int = 0
    after: Ts = ZERO
    before: Ts | None = None
    in_session: bool | None = None
    session: bytes = b""
    txn: int | None = None
    text: str = ""
    plan: str = ""
    ids: frozenset[object] | None = None
    fields: frozenset[str] | None = None
    source: Source = Source.LOG
    many: bool = False
    shape: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """A drop, rename or other change of definitions. ``commit`` is the ``ts`` of its entry, ZERO if not named.

    ``name`` is the command (drop, rename, collMod, dropDatabase, users). ``ns`` is empty where the line has none.
    """

    name: str
    ns: str
    client: Client
    at: int
    commit: Ts = ZERO
    text: str = ""


def users_definition(body: Mapping[str, Any], client: Client, at: int) -> Definition | None:
    """The change of users or roles that a command makes, ``body`` of which names its target; None if it makes none."""
    name = next((one for one in _USER_COMMANDS if one in body), "")
    text = f"{name}({clean_name(str(body.get(name)), NAME_CELLS)})"
    return Definition("users", "", client, at, text=text) if name else None


@dataclass(frozen=True, slots=True)
class RunningOperation:
    """One operation in progress; every text is safe to show.

    ``seconds`` is how long it has run so far. ``done`` and ``total`` are the server's own progress, None where it names
    none. ``kill`` is mongosh text that stops it.
    """

    what: str
    ns: str
    client: Client
    seconds: float
    statement: str
    kill: str
    done: int | None = None
    total: int | None = None


def user_of(name: object, db: object) -> tuple[str, bytes]:
    """A user as ``name@db``, safe to show, and the hash that its sessions carry in the oplog."""
    whole = f"{name}@{db}"
    return clean_name(whole, NAME_CELLS), sha256(whole.encode("utf-8", "surrogatepass")).digest()


_BUILDS = frozenset({"c", "async"})
"""What PyMongo adds to its name: that it has its C extension, and that its asynchronous client is used."""


def application_of(metadata: object) -> tuple[str, str]:
    """The application's name and the driver with its version, from the metadata that a client sends."""
    parts = [str(within(metadata, "driver", part) or "") for part in ("name", "version")]
    # Wrapping libraries append their own name and version, each after a bar: "PyMongo|Motor", "4.9|3.6".
    pairs = zip(*(part.split("|") for part in parts), strict=False)
    names = [" ".join(filter(None, (name, version))) for name, version in pairs if name not in _BUILDS]
    application = str(within(metadata, "application", "name") or "")
    return clean(application, NAME_CELLS), clean(", ".join(filter(None, names)), NAME_CELLS)


def client_of(row: Mapping[str, Any]) -> Client | None:
    """Who uses the connection in a row of ``$currentOp``; None for the server's own threads."""
    connection, address = row.get("desc"), row.get("client", row.get("client_s"))
    if not isinstance(connection, str) or not connection.startswith("conn") or not isinstance(address, str):
        return None
    users = [one for one in row.get("effectiveUsers", ()) if isinstance(one, Mapping)]
    names = " or ".join(user_of(one.get("user"), one.get("db"))[0] for one in users)
    application, driver = application_of(row.get("clientMetadata"))
    application = clean(str(row.get("appName", "")), NAME_CELLS) or application
    return Client(names, application, clean(address, 80), driver, clean(connection, 80))


def session_of(body: Mapping[str, Any]) -> tuple[bytes, int | None, Ts]:
    """Of a command, as BSON or extended JSON: the 16 bytes of its session, its transaction number, and the cluster time
    that its client knew; empty, None and ZERO where it has none."""
    txn = body.get("txnNumber")
    session, known = session_id(within(body, "lsid", "id")), timestamp(within(body, "$clusterTime", "clusterTime"))
    return session, txn if isinstance(txn, int) else None, known


def timestamp(value: object) -> Ts:
    """A timestamp of BSON or extended JSON; ZERO for anything else."""
    found = within(value, "$timestamp")
    t, i = getattr(value, "time", within(found, "t")), getattr(value, "inc", within(found, "i"))
    return Ts(t, i) if isinstance(t, int) and isinstance(i, int) else ZERO


def session_id(value: object) -> bytes:
    """The 16 bytes of an ``lsid.id`` of BSON or extended JSON; empty for anything else."""
    try:
        if isinstance(value, bytes):
            return bytes(value)
        uuid = within(value, "$uuid")
        if isinstance(uuid, str):
            return _bytes_of(uuid)
        text = within(value, "$binary", "base64") or within(value, "$binary")
        return b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        return b""


@functools.lru_cache(maxsize=1_000)
def _bytes_of(uuid: str) -> bytes:
    """The 16 bytes of a UUID, one object for the many commands of a session."""
    return UUID(uuid).bytes


def within(document: object, *path: str) -> Any:
    """The value at a path of names; None where there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document
