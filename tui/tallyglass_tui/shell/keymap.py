"""The user's own keys: ``keys.toml`` in the configuration folder.

::

    [keys]
    "counters.sort" = "f5"          # the id of a key, as the help lists it, and its keys
    "list.down" = "down,j,ctrl+n"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import platformdirs
from textual.binding import Binding
from textual.dom import DOMNode

from tallyglass.errors import InputError
from tallyglass.text import clean
from tallyglass_tui.shell.page_spec import PageSpec


def default_path() -> Path:
    """The keymap file in the user's configuration folder."""
    return platformdirs.user_config_path("tallyglass") / "keys.toml"


def load_keymap(pages: Sequence[PageSpec], path: Path | None = None) -> Mapping[str, str]:
    """Binding ids and their keys; empty without a file. Raises InputError for a wrong file or an unknown id."""
    path = path or default_path()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{clean(str(path))} is not TOML: {clean(str(error), 100)}.") from None
    keys = content.get("keys", {})
    if set(content) - {"keys"} or not isinstance(keys, dict):
        raise InputError(f"{clean(str(path))} has more than a section [keys].", 'Write "counters.sort" = "f5" in it.')
    known = {binding.id for binding in _bindings(pages) if binding.id}
    for name, value in keys.items():
        if name not in known:
            raise InputError(
                f"{clean(str(path))}: there is no key '{clean(name, 60)}'.", f"Known: {', '.join(sorted(known))}."
            )
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{clean(str(path))}: '{name}' needs the name of a key.", 'For example "f5" or "j,down".')
    return keys


def _bindings(pages: Sequence[PageSpec]) -> Iterator[Binding]:
    for module in (*(spec.module for spec in pages), "tallyglass_tui.shell.help", "tallyglass_tui.shell.replay"):
        import_module(module)
    classes = [DOMNode]
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if one.__module__.startswith("tallyglass_tui."):
            yield from (item for item in one.BINDINGS if isinstance(item, Binding))
