"""One family of errors. Each carries a title (one sentence) and advice (what to do next).

Both are safe to show: code that raises an error passes server text through :func:`tallyglass.text.clean` first
and never includes a password.
"""

from __future__ import annotations


class TallyglassError(Exception):
    """Base of all errors of this package.

    ``title`` says in one sentence what is wrong; ``advice`` says what to do about it, or is empty.
    """

    def __init__(self, title: str, advice: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.title} {self.advice}".rstrip()


class InputError(TallyglassError):
    """A value typed or configured by the user is invalid.

    ``position`` is the index of the first wrong character, or None if unknown.
    """

    def __init__(self, title: str, advice: str = "", *, position: int | None = None) -> None:
        super().__init__(title, advice)
        self.position = position


class ConnectError(TallyglassError):
    """The server cannot be reached, or rejects the login."""


class ServerError(TallyglassError):
    """The server answers that it does not do what was asked. It may do other things."""


class PrivilegeError(ServerError):
    """The user lacks a privilege; ``privilege`` names it."""

    def __init__(self, title: str, advice: str = "", *, privilege: str = "") -> None:
        super().__init__(title, advice)
        self.privilege = privilege


class DeploymentError(TallyglassError):
    """This kind of deployment (standalone, mongos, arbiter) cannot do what was asked."""


class ReadError(TallyglassError):
    """A read failed for a reason that may be temporary: a lost server, a timeout, a failover."""


class RefusedError(ReadError, ServerError):
    """The server refused a read, or ended it. ``code`` is its error code."""

    def __init__(self, title: str, advice: str = "", *, code: int) -> None:
        super().__init__(title, advice)
        self.code = code


class EmbeddedServerError(TallyglassError):
    """The embedded mongod was not found or did not start."""
