"""The spare that the commands start themselves: on loopback, with a key that only the operator can read."""

from __future__ import annotations

from importlib.resources import files

from tallyglass.restore.tools.files import WorkDir, chain, config_text, write
from tallyglass.text import shell_join, shell_quote

PORT = 27117
"""Where it listens, if nothing else is said."""

_SHELL = (files(__package__) / "own_spare.sh").read_text(encoding="ascii")


def uri(port: int) -> str:
    """Its URI, as the server's own user, whose password is the key file.

    That user may do anything, is kept in no collection that a restore replaces, and nobody else on a shared host can
    log in.
    """
    return f"mongodb://__system@127.0.0.1:{port}/?authSource=local&authMechanism=SCRAM-SHA-256"


def start(work: WorkDir, port: int, uri: str) -> str:
    """Shell text that makes the key and starts the spare; where it runs already, nothing changes."""
    head = f"W={shell_quote(work.path)}\nPORT={port}\nCONFIG={shell_quote(config_text(uri))}\n"
    return chain(write(_script(work), head + _SHELL.rstrip("\n")), _call(work, "start"))


def renew(work: WorkDir) -> str:
    """Shell text that replaces the spare by an empty one where a run began to write on it and was stopped."""
    return _call(work, "renew")


def mark(work: WorkDir) -> str:
    """Shell text that notes that it is written on from here."""
    return shell_join(("touch", work.at("spare.begun")))


def stop(work: WorkDir) -> str:
    """Shell text that ends the spare, if it runs, and removes its key."""
    return chain(_call(work, "stop"), shell_join(("rm", "-f", work.at("spare.key"))))


def _script(work: WorkDir) -> str:
    return work.at("spare.sh")


def _call(work: WorkDir, what: str) -> str:
    return shell_join(("bash", _script(work), what))
