"""Names that a package exports and imports only when they are asked for, as the driver comes with some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package: ``homes`` has the ``module`` of each exported name, or
    ``module:name`` where it has another name there (PEP 562)."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, own_name = homes[name].partition(":")
        return getattr(import_module(module), own_name or name)

    return find
