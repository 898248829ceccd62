"""One family of errors. Each carries a title (one sentence) and advice (what to do next).

The text of both is safe to show: whoever raises an error passes server text through
:func:`tallyglass.text.clean` first and never puts a password into it.
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
    """A value typed or configured by the user cannot be read."""


class ConnectError(TallyglassError):
    """The server cannot be reached, or does not let this user in."""


class PrivilegeError(TallyglassError):
    """This user may not do that. ``privilege`` names what is missing."""

    def __init__(self, title: str, advice: str = "", *, privilege: str = "") -> None:
        super().__init__(title, advice)
        self.privilege = privilege


class DeploymentError(TallyglassError):
    """This kind of deployment (standalone, mongos, arbiter) cannot do what was asked."""


class ReadError(TallyglassError):
    """A read failed in a way that may pass: a lost server, a timeout, a failover.

    ``code`` is the server's error code, or None where the link itself failed.
    """

    def __init__(self, title: str, advice: str = "", *, code: int | None = None) -> None:
        super().__init__(title, advice)
        self.code = code


class EmbeddedServerError(TallyglassError):
    """The embedded mongod was not found or did not start."""
