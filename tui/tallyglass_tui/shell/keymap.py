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
from itertools import product
from pathlib import Path

import platformdirs
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys, _character_to_key, _normalize_key_list, format_key

from tallyglass.errors import InputError
from tallyglass.text import clean
from tallyglass_tui.shell.page_spec import PageSpec

_KEYS = {str(one.value) for one in Keys} | {_character_to_key(chr(code)) for code in range(32, 127)}
"""Keys by name, and the names of the characters of ASCII."""
_ALONE = {"tallyglass_tui.shell.help", "tallyglass_tui.widgets.input_line"}
"""What covers the page while it is there: keys of the page have no effect then."""


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
    bindings = [(place, binding) for place, binding in _bindings(pages) if binding.id]
    known = {binding.id or "" for _, binding in bindings}
    for name, value in keys.items():
        if name not in known:
            raise InputError(
                f"{clean(str(path))}: there is no key '{clean(name, 60)}'.", f"Known: {', '.join(sorted(known))}."
            )
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{clean(str(path))}: '{name}' needs the name of a key.", 'For example "f5" or "j,down".')
        for key in _split(value):
            if not _is_key(key):
                raise InputError(
                    f"{clean(str(path))}: no key is called '{clean(key, 60)}'.", 'For example "f5", "ctrl+n" or "?".'
                )
    if clash := _clash(bindings, keys, {spec.key for spec in pages}):
        raise InputError(
            f"{clean(str(path))}: {clash[0]} and {clash[1]} would both have the key {clean(clash[2], 60)}.",
            "Give one of them another key.",
        )
    return keys


def _split(keys: str) -> list[str]:
    return _normalize_key_list(keys).split(",")


def _is_key(key: str) -> bool:
    """Whether a terminal may send a key of this name."""
    *modifiers, last = key.split("+")
    if not set(modifiers) <= {"ctrl", "shift", "alt", "super", "hyper", "meta"}:
        return False
    return key in _KEYS or last in _KEYS or (len(last) == 1 and last.isprintable())


def _clash(
    bindings: Sequence[tuple[str, Binding]], chosen: Mapping[str, str], numbers: set[str]
) -> tuple[str, str, str] | None:
    """Two actions of one place, and the key that the file gives to one of them and leaves or gives to the other.

    Actions that share a key by default may: one of them is nearer to the cursor.
    """
    places = {f"page {number}": ("", {number}, {number}) for number in numbers}
    for place, binding in bindings:
        id = binding.id or ""
        default = set(_split(binding.key)) | places.get(id, ("", set(), set()))[2]
        places[id] = (place, set(_split(chosen[id])) if id in chosen else default, default)
    for id, other in product(sorted(chosen), sorted(places)):
        (place, keys, was), (elsewhere, taken, theirs) = places[id], places[other]
        together = place == elsewhere or (not {place, elsewhere} & _ALONE and not (place and elsewhere))
        both = sorted(keys & taken - (was & theirs))
        if id != other and together and both:
            return id, other, format_key(both[0])
    return None


def _place(module: str) -> str:
    """Where the keys of a module's class can be pressed: the name of its folder, empty for everywhere."""
    if module in _ALONE:
        return module
    folder = module.split(".")[1]
    return {"shell": "", "widgets": "", "incidents": "oplog"}.get(folder, folder)


def _bindings(pages: Sequence[PageSpec]) -> Iterator[tuple[str, Binding]]:
    """Each binding and where it can be pressed, as ``_place`` says."""
    for module in (*(spec.module for spec in pages), "tallyglass_tui.shell.help", "tallyglass_tui.shell.replay"):
        import_module(module)
    classes = [DOMNode]
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if one.__module__.startswith("tallyglass_tui."):
            # Not those of the classes above, which Textual adds by itself.
            own = one.__dict__.get("BINDINGS", ())
            yield from ((_place(one.__module__), item) for item in own if isinstance(item, Binding))
