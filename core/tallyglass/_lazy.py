"""Names that a package exports and imports only when they are asked for, as the driver comes with some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package (PEP 562): ``homes`` has the exported names of each module within it, with a
    space between them, each as ``name`` or as ``name:other`` where the module has it under another name."""
    named = {name.partition(":")[0]: (module, name) for module, names in homes.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in named:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, whole = named[name]
        return getattr(import_module(f"{package}.{module}"), whole.rpartition(":")[2])

    return find
