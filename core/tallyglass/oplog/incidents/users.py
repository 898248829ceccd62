"""Which user a session belongs to: ``lsid.uid`` is the SHA-256 of ``user@db``."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from tallyglass.text import clean_name


class UserNames:
    """The names of users by their hash."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def learn(self, names: Iterable[str]) -> None:
        """Note users, each as ``user@db`` as stored."""
        for name in names:
            self._names[sha256(name.encode()).digest()] = clean_name(name, 120)

    def name_of(self, found: bytes) -> str:
        """The user for a hash, safe to show; empty if unknown or if there is none."""
        return self._names.get(found, "")
