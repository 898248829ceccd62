"""Which deployment to read, as which user, with which driver: a URI that is safe to show, and a secret password."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import parse_qsl, quote, unquote_plus

from tallyglass.connection.secret import Secret, is_ambiguous, password_of, redact, scrub, without_password
from tallyglass.connection.uri_options import SECRET_OPTIONS, check_options
from tallyglass.errors import InputError
from tallyglass.text import clean

SCHEMES = ("mongodb://", "mongodb+srv://")
_NO_PASSWORD_NEEDED = frozenset({"MONGODB-X509", "GSSAPI", "MONGODB-OIDC"})
_OF_ONE_SERVER = frozenset(
    {"replicaset", "directconnection", "loadbalanced", "srvmaxhosts", "srvservicename", "srvallowedhostssuffix"}
)
"""Options of a URI that do not apply to another set of the same cluster, which is not found by a seed list."""

# A port or a second host distinguishes a list of hosts from any other word.
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_HOST_PORT = rf"{_HOST}(?::\d{{1,5}})?"
_BARE_HOSTS = re.compile(rf"(?:localhost|{_HOST}:\d{{1,5}}|{_HOST_PORT}(?:,{_HOST_PORT})+)(?:/\S*)?\Z")
_ADDRESS = re.compile(rf"{_HOST}:\d{{1,5}}\Z")
_FORM = "Write it as mongodb://user@host:27017/?replicaSet=rs0 or mongodb+srv://user@name/."


class Driver(StrEnum):
    """Which driver carries the reads."""

    PYMONGO = "pymongo"
    MOTOR = "motor"


@dataclass(frozen=True, slots=True)
class Target:
    """A deployment to read. ``uri`` contains no secret; ``str()`` returns it, safe to show.

    ``secrets`` are client options with a secret value, by name: ``password`` among them. ``shards`` are the replica
    sets of a sharded cluster that is read without a router; ``uri`` is then that of the first.
    """

    uri: str
    secrets: tuple[tuple[str, Secret], ...] = ()
    driver: Driver = Driver.PYMONGO
    shards: tuple[Target, ...] = ()

    @classmethod
    def parse(cls, uri: str, driver: Driver = Driver.PYMONGO) -> Target:
        """Separate the secrets from a URI. Raises InputError if it is invalid."""
        uri = with_scheme(uri.strip())
        if not is_uri(uri):
            raise InputError(f"'{clean(scrub(uri), 60)}' is not a connection string.", _FORM)
        if " " in uri or not uri.isprintable():
            raise InputError(
                "The connection string contains a space or a control character.",
                "Write a space as %20, any other character as % and two hexadecimal digits.",
            )
        if is_ambiguous(uri):
            raise InputError(
                "The user name or password in the connection string contains a character that must be percent-encoded.",
                "Write : as %3A, / as %2F, ? as %3F, @ as %40 and % as %25, or leave the password out: "
                "it is prompted for, or read with --password-file.",
            )
        check_options(uri)
        found = password_of(uri)
        bare, hidden = _without_secret_options(without_password(uri))
        target = cls(bare, (*hidden, *((("password", found),) if found else ())), driver)
        target._check_login()
        return target

    @classmethod
    def of_shards(cls, shards: Sequence[Target]) -> Target:
        """Several shards as one target; a single shard is returned unchanged."""
        first = shards[0]
        return first if len(shards) == 1 else replace(first, shards=tuple(shards))

    def at(self, hosts: str, set_name: str) -> Target:
        """Another replica set of the same cluster, with the same user and options."""
        return self._elsewhere(hosts, f"replicaSet={quote(set_name, safe='')}")

    def alone(self, address: str) -> Target:
        """One server and no other, with the same user and options."""
        return self._elsewhere(address, "directConnection=true")

    def _elsewhere(self, hosts: str, way: str) -> Target:
        user_info, at, _ = self._authority.rpartition("@")
        options = [
            option
            for option in self.uri.partition("?")[2].split("&")
            if option and option.partition("=")[0].lower() not in _OF_ONE_SERVER
        ]
        if self.uri.lower().startswith("mongodb+srv://") and not {"tls", "ssl"} & self.options.keys():
            options.append("tls=true")  # what a seed list implies
        database = self.uri.partition("://")[2].partition("/")[2].partition("?")[0]
        # The database of the path names where the user is defined, unless authSource does.
        query = "&".join([*options, way])
        return replace(self, uri=f"mongodb://{user_info}{at}{hosts}/{database}?{query}", shards=())

    @property
    def seeds(self) -> tuple[str, ...]:
        """``host:port`` of the servers through which a driver finds the others; none if it looks for no others."""
        if self.uri.lower().startswith("mongodb+srv://") or "true" in (
            self.options.get("directconnection"), self.options.get("loadbalanced")
        ):  # fmt: skip
            return ()
        hosts = self._authority.rpartition("@")[2].lower().split(",")
        return tuple(host if re.search(r":\d+\Z", host) else f"{host}:27017" for host in hosts if "%2f" not in host)

    @property
    def _authority(self) -> str:
        """User name and hosts, as they stand in the URI."""
        return self.uri.partition("://")[2].partition("/")[0].partition("?")[0]

    def _check_login(self) -> None:
        if self.options.get("authmechanism") == "MONGODB-X509" and "tlscertificatekeyfile" not in self.options:
            raise InputError(
                "MONGODB-X509 needs a client certificate, and none is specified.",
                "Add tls=true&tlsCertificateKeyFile=/path/client.pem to the connection string.",
            )

    def __str__(self) -> str:
        return " ".join(clean(redact(one.uri)) for one in self.shards or (self,))

    @property
    def label(self) -> str:
        """A short name: the replica set's name, else its hosts. Safe to show."""
        return clean(self.options.get("replicaset") or self._authority.rpartition("@")[2], 120)

    @property
    def user(self) -> str:
        """The user name, decoded; empty without one."""
        return unquote_plus(self._authority.rpartition("@")[0])

    @property
    def options(self) -> dict[str, str]:
        """The options of the URI, by lower-case name."""
        return {name.lower(): value for name, value in parse_qsl(self.uri.partition("?")[2], keep_blank_values=True)}

    @property
    def needs_password(self) -> bool:
        """Whether the user's mechanism needs a password and none is specified."""
        mechanism = self.options.get("authmechanism", "").upper()
        return bool(self.user) and mechanism not in _NO_PASSWORD_NEEDED and "password" not in dict(self.secrets)

    def with_password(self, password: Secret) -> Target:
        """A copy with this password."""
        others = tuple(pair for pair in self.secrets if pair[0] != "password")
        return replace(self, secrets=(*others, ("password", password)))


def with_scheme(text: str) -> str:
    """``localhost:27017`` and the like with ``mongodb://`` in front; any other text unchanged."""
    return f"mongodb://{text}" if _BARE_HOSTS.match(text) else text


def is_uri(text: str) -> bool:
    """Whether ``text`` is a connection string."""
    return text.strip().lower().startswith(SCHEMES)


def is_address(text: str) -> bool:
    """Whether ``text`` is HOST:PORT."""
    return _ADDRESS.match(text) is not None


def _without_secret_options(uri: str) -> tuple[str, tuple[tuple[str, Secret], ...]]:
    start, mark, query = uri.partition("?")
    kept: list[str] = []
    hidden: list[tuple[str, Secret]] = []
    for option in query.split("&") if mark else ():
        name, _, value = option.partition("=")
        if name.lower() in SECRET_OPTIONS or "AWS_SESSION_TOKEN" in value.upper():
            hidden.append((name, Secret(unquote_plus(value))))
        else:
            kept.append(option)
    return start + mark + "&".join(kept), tuple(hidden)
