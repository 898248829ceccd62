"""Hide passwords: a masked holder, redacted URIs, and scrubbed texts.

The process remembers every :class:`Secret`, so that :func:`scrub` can remove its value from any text that is about
to be printed: an error of the driver, a traceback, a crash report.
"""

from __future__ import annotations

import re
from urllib.parse import quote, quote_plus, unquote_plus

MASK = "***"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_URI = re.compile(_SCHEME.pattern + r"[^\s'\"<>]*", re.IGNORECASE)
SECRET_OPTIONS = re.compile(
    r"((tlsCertificateKeyFilePassword|sslPEMKeyPassword|proxyPassword|AWS_SESSION_TOKEN)(?:=|:|%3A))([^&,\s]*)",
    re.IGNORECASE,
)
"""An option of a URI with a secret value: its beginning, within that its name, and the value."""
# Removing shorter passwords would garble every text; inside a URI they are still masked.
_SHORTEST_SCRUBBED = 4

_known: set[str] = set()


class Secret:
    """A password. Only :meth:`reveal` returns its text."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        if len(value) >= _SHORTEST_SCRUBBED:
            _known.update({value, quote_plus(value), quote(value, safe=""), repr(value)[1:-1]})

    def reveal(self) -> str:
        """The password itself, for the driver only."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret is not pickled")


def redact(uri: str) -> str:
    """The URI with ``***`` in place of its password, and of secrets among its options.

    If the password is not percent-encoded and its end is ambiguous, everything that may belong to it is masked.
    """
    scheme, rest = _split(uri)
    end = _end_of_user_info(rest) if scheme else None
    if end is not None:
        user, colon, _ = rest[:end].partition(":")
        rest = user + (colon and f":{MASK}") + rest[end:]
    return scheme + SECRET_OPTIONS.sub(rf"\1{MASK}", rest)


def scrub(text: str) -> str:
    """``text`` with every known secret removed and every URI redacted."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, MASK)
    return SECRET_OPTIONS.sub(rf"\1{MASK}", _URI.sub(lambda found: redact(found[0]), text))


def password_of(uri: str) -> Secret | None:
    """The password in a well-formed URI, decoded; None without one."""
    user_info, at, _ = _authority(_split(uri)[1]).rpartition("@")
    _, colon, password = user_info.partition(":")
    return Secret(unquote_plus(password)) if at and colon else None


def without_password(uri: str) -> str:
    """A well-formed URI with the user name but not the password."""
    start, rest = _split(uri)
    user_info, at, hosts = _authority(rest).rpartition("@")
    return start + user_info.partition(":")[0] + at + hosts + rest[len(_authority(rest)) :]


def is_ambiguous(uri: str) -> bool:
    """Whether a character of the user name or password that should be percent-encoded is not."""
    _, rest = _split(uri)
    authority = _authority(rest)
    user_info, at, _ = authority.rpartition("@")
    if at and (user_info.count(":") > 1 or "@" in user_info or re.search(r"%(?![0-9a-fA-F]{2})", user_info)):
        return True
    return _end_of_user_info(rest) != (len(user_info) if at else None)


def _split(uri: str) -> tuple[str, str]:
    """The scheme with its slashes, empty without one, and the rest."""
    scheme = _SCHEME.match(uri)
    return (scheme[0], uri[scheme.end() :]) if scheme else ("", uri)


def _authority(rest: str) -> str:
    return re.split(r"[/?]", rest, maxsplit=1)[0]


def _end_of_user_info(rest: str) -> int | None:
    """The last position at which the user name and password can end; None if there are none."""
    last = rest.rfind("@")
    if last < 0:
        return None
    authority = _authority(rest)
    path = rest[: rest.find("?")] if "?" in rest else rest
    if "@" in path[len(authority) :]:
        return last
    if "@" in authority:
        return authority.rfind("@")
    # An @ only among the options is part of a value, unless the text before it cannot be hosts and options.
    options = rest.partition("?")[2]
    hosts_are_plain = all(re.fullmatch(r"(\[[^]]*\]|[^:]*)(:\d+)?", host) for host in authority.split(","))
    return None if hosts_are_plain and all("=" in option for option in options.split("&") if option) else last
