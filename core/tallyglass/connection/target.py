"""Which deployment to read, as what user, with which driver: a URI that is safe to show, and a password that is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import parse_qsl, unquote_plus

from tallyglass.connection.secret import Secret, is_ambiguous, password_of, redact, scrub, without_password
from tallyglass.errors import InputError
from tallyglass.text import clean

SCHEMES = ("mongodb://", "mongodb+srv://")
_MECHANISMS = (
    "SCRAM-SHA-256", "SCRAM-SHA-1", "MONGODB-X509", "PLAIN", "GSSAPI", "MONGODB-AWS", "MONGODB-OIDC", "DEFAULT",
)  # fmt: skip
_NO_PASSWORD_NEEDED = frozenset({"MONGODB-X509", "GSSAPI", "MONGODB-OIDC"})
_SECRET_OPTIONS = frozenset({"tlscertificatekeyfilepassword", "proxypassword"})
_FORM = "Write it as mongodb://user@host:27017/?replicaSet=rs0 or mongodb+srv://user@name/."


class Driver(StrEnum):
    """Which driver carries the reads."""

    PYMONGO = "pymongo"
    MOTOR = "motor"


@dataclass(frozen=True, slots=True)
class Target:
    """A deployment to read. ``uri`` holds no secret; ``str()`` of a target is that URI, safe to show.

    ``secrets`` are client options with a secret value, by name: ``password`` among them.
    """

    uri: str
    secrets: tuple[tuple[str, Secret], ...] = ()
    driver: Driver = Driver.PYMONGO

    @classmethod
    def parse(cls, uri: str, driver: Driver = Driver.PYMONGO) -> Target:
        """Take the secrets out of a URI. Raises InputError where it is none."""
        uri = uri.strip()
        if not is_uri(uri):
            raise InputError(f"'{clean(scrub(uri), 60)}' is not a connection string.", _FORM)
        if " " in uri or not uri.isprintable():
            raise InputError(
                "That connection string holds a blank or a control character.",
                "Write a blank as %20; every other one as % and its two hexadecimal digits.",
            )
        if is_ambiguous(uri):
            raise InputError(
                "The user name or password in that connection string holds a character that must be percent-encoded.",
                "Write : as %3A, / as %2F, ? as %3F, @ as %40 and % as %25, or leave the password out: "
                "it is asked for, or read with --password-file.",
            )
        found = password_of(uri)
        bare, hidden = _without_secret_options(without_password(uri))
        target = cls(bare, (*hidden, *((("password", found),) if found else ())), driver)
        target._check_login()
        return target

    def _check_login(self) -> None:
        # The driver only warns of a mechanism that it does not know, and then logs in with another.
        mechanism = self.options.get("authmechanism", "")
        if mechanism and mechanism not in _MECHANISMS:
            raise InputError(
                f"'{clean(scrub(mechanism), 40)}' is not a kind of login.",
                f"authMechanism can be {', '.join(_MECHANISMS[:-1])}.",
            )
        if mechanism == "MONGODB-X509" and "tlscertificatekeyfile" not in self.options:
            raise InputError(
                "MONGODB-X509 logs in with a client certificate, and none is named.",
                "Add tls=true&tlsCertificateKeyFile=/path/client.pem to the connection string.",
            )

    def __str__(self) -> str:
        return clean(redact(self.uri))

    @property
    def user(self) -> str:
        """The user name, decoded; empty without one."""
        authority = self.uri.partition("://")[2].partition("/")[0].partition("?")[0]
        return unquote_plus(authority.rpartition("@")[0])

    @property
    def options(self) -> dict[str, str]:
        """The options of the URI, by lower-case name."""
        return {name.lower(): value for name, value in parse_qsl(self.uri.partition("?")[2], keep_blank_values=True)}

    @property
    def needs_password(self) -> bool:
        """Whether there is a user without the password that its mechanism wants."""
        mechanism = self.options.get("authmechanism", "").upper()
        return bool(self.user) and mechanism not in _NO_PASSWORD_NEEDED and "password" not in dict(self.secrets)

    def with_password(self, password: Secret) -> Target:
        """The same with this password."""
        others = tuple(pair for pair in self.secrets if pair[0] != "password")
        return replace(self, secrets=(*others, ("password", password)))


def is_uri(text: str) -> bool:
    """Whether a word is meant as a connection string."""
    return text.strip().lower().startswith(SCHEMES)


def _without_secret_options(uri: str) -> tuple[str, tuple[tuple[str, Secret], ...]]:
    start, mark, query = uri.partition("?")
    kept: list[str] = []
    hidden: list[tuple[str, Secret]] = []
    for option in query.split("&") if mark else ():
        name, _, value = option.partition("=")
        if name.lower() in _SECRET_OPTIONS or "AWS_SESSION_TOKEN" in value.upper():
            hidden.append((name, Secret(unquote_plus(value))))
        else:
            kept.append(option)
    return start + mark + "&".join(kept), tuple(hidden)
