"""A replica set with access control and its users, and a parser for the mongosh commands that the doctor prints."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tallyglass.demo.server import ReplicaSet

ADMIN = "admin"
PASSWORD = "kAnArY/7:@ü password"
"""The password of every user. Tests search all output for it."""

LEAKS = ("kAnArY", quote_plus(PASSWORD))


class GuardedSet:
    """A replica set with access control, and an administrator."""

    def __init__(self, servers: ReplicaSet) -> None:
        self.servers = servers
        client: MongoClient[dict[str, Any]] = servers.client()
        client.admin.command("createUser", ADMIN, pwd=PASSWORD, roles=["root"])
        client.close()
        self.admin: MongoClient[dict[str, Any]] = MongoClient(self.uri(ADMIN))
        self._users = 0

    def uri(self, user: str, password: str = PASSWORD) -> str:
        """Return the URI of ``user`` with its password, or a URI without credentials if ``user`` is empty."""
        who = f"{quote_plus(user)}:{quote_plus(password)}@" if user else ""
        return self.servers.uri.replace("mongodb://", f"mongodb://{who}") + "&authSource=admin"

    def create_user(self, roles: Sequence[Any] = ()) -> str:
        """Create a user with these roles in the admin database and return its name."""
        self._users += 1
        name = f"user{self._users}"
        self.admin.admin.command("createUser", name, pwd=PASSWORD, roles=list(roles))
        return name

    def drop_role(self, name: str) -> None:
        """Drop a role of the admin database if it exists."""
        with contextlib.suppress(OperationFailure):
            self.admin.admin.command("dropRole", name)

    def run(self, text: str) -> None:
        """Run one mongosh command in the form that the doctor prints."""
        for name in re.findall(r'createRole\(\{role: "(\w+)"', text):
            self.drop_role(name)
        db, name, arguments = parse_mongosh(text)
        self.admin[db].command(_command(name, arguments))

    def close(self) -> None:
        """Close the administrator's client."""
        self.admin.close()


def parse_mongosh(text: str) -> tuple[str, str, list[Any]]:
    """Return the database, the method and the arguments of ``db.getSiblingDB("x").method(...)``."""
    found = re.fullmatch(r'db\.getSiblingDB\(("(?:[^"\\]|\\.)*")\)\.(\w+)\((.*)\)', text)
    assert found, text
    # Unquoted keys are the only difference from JSON outside of strings.
    parts = re.split(r'("(?:[^"\\]|\\.)*")', found[3])
    quoted = "".join(part if part.startswith('"') else re.sub(r"(\w+):", r'"\1":', part) for part in parts)
    return json.loads(found[1]), found[2], json.loads(f"[{quoted}]")


def _command(name: str, arguments: list[Any]) -> dict[str, Any]:
    match name:
        case "createRole":
            return {"createRole": arguments[0].pop("role"), **arguments[0]}
        case "grantRolesToUser":
            return {"grantRolesToUser": arguments[0], "roles": arguments[1]}
        case "grantPrivilegesToRole":
            return {"grantPrivilegesToRole": arguments[0], "privileges": arguments[1]}
    raise AssertionError(name)


@contextlib.contextmanager
def start_guarded(*options: str, members: int = 1) -> Iterator[GuardedSet]:
    """Start a replica set with access control. ``options`` are passed to each mongod."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.touch(0o600)
        key.write_text("c2VjcmV0Zm9ydGhlbWVtYmVycw" + os.urandom(20).hex())
        with ReplicaSet(members, options=[f"--keyFile={key}", *options]) as servers:
            guarded = GuardedSet(servers)
            try:
                yield guarded
            finally:
                guarded.close()
