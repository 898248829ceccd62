"""The keys that sentences name: those of the user's ``keys.toml``, and the default ones of all other bindings."""

from __future__ import annotations

from collections.abc import Mapping

_chosen: dict[str, str] = {}


def key(binding: str, default: str) -> str:
    """The key of a binding, by its id, as the line of keys shows it; ``default`` where the user chose none."""
    return _chosen.get(binding, default)


def choose(keys: Mapping[str, str]) -> None:
    """Name these keys from here on, by the ids of their bindings, and of all others the default ones."""
    _chosen.clear()
    _chosen.update(keys)
