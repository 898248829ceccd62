"""The spare that the commands start: on loopback, with a key file that only the operator can read."""

from __future__ import annotations

import socket
from contextlib import suppress
from importlib.resources import files

from tallyglass.restore.model.source import SPARE_PORT

PROGRAM = "spare.sh"
"""Starts, replaces and stops the spare. It writes the spare's configuration file and key, and removes both at the
end."""

REPLICA_SET, START_SET = "tallyglass-spare", "start-set.js"
"""The set of a spare that must be one, and the mongosh program that initiates it."""

_SHELL = (files(__package__) / "own_spare.sh").read_text(encoding="ascii")


def free_port(first: int | None = None) -> int:
    """A port of this machine that nothing listens on: ``first``, :data:`SPARE_PORT` if None, or another one where that
    is 0 or in use."""
    for wanted in (SPARE_PORT if first is None else first, 0):
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                held.bind(("127.0.0.1", wanted))
                port: int = held.getsockname()[1]
                return port
    return SPARE_PORT


def uri(port: int) -> str:
    """The URI of the spare, with the server's internal user; its password is the key file.

    That user may run any action and is stored in no collection that a restore replaces; other users of a shared host
    cannot log in.
    """
    return f"mongodb://__system@127.0.0.1:{port}/?authSource=local&authMechanism=SCRAM-SHA-256"


def program(port: int, replica_set: str = "") -> str:
    """The text of :data:`PROGRAM`. With the name of a ``replica_set`` the spare is its only member, which
    :data:`START_SET` makes it."""
    return f"PORT={port}\nURI='{uri(port)}'\nREPLICA_SET={replica_set}\n{_SHELL}"
