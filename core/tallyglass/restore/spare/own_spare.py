"""The spare that the commands start themselves: on loopback, with a key that only the operator can read."""

from __future__ import annotations

from importlib.resources import files

PORT = 27117
"""Where it listens by default."""

PROGRAM = "spare.sh"
"""Starts, renews and stops it. It writes the spare's configuration file, with the key, and removes both at the end."""

_SHELL = (files(__package__) / "own_spare.sh").read_text(encoding="ascii")


def uri(port: int) -> str:
    """Its URI, as the server's own user, whose password is the key file.

    That user may do anything, is kept in no collection that a restore replaces, and nobody else on a shared host can
    log in.
    """
    return f"mongodb://__system@127.0.0.1:{port}/?authSource=local&authMechanism=SCRAM-SHA-256"


def program(port: int) -> str:
    """The text of :data:`PROGRAM`."""
    return f"PORT={port}\nURI='{uri(port)}'\n{_SHELL}"
