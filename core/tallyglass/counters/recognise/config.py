"""What the user says about counters, in a TOML file.

.. code-block:: toml

    [[counter]]
    collection = "shop.serials"       # the namespace: database.collection
    id = "invoices"                   # which document, by its _id; without it every document of the collection
    field = "n"                       # where the number is, if Tallyglass does not find it by itself
    name = "invoice numbers"          # what to call it on the screen
    semantics = "next"                # the stored number is the next id (or "last": the last one handed out)
    start = 1000                      # the number below the first id
    max = 999999                      # the last id that may be handed out
    digits = 6                        # or: so many digits fit
    consumer = "int32"                # what keeps the ids: int32, uint32, javascript or int64
    target = "shop.invoices.number"   # whose ids they are: database.collection.field
    hide = true                       # do not show it
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.snapshot import Semantics
from tallyglass.errors import InputError
from tallyglass.mongo.gateway import Namespace
from tallyglass.text import clean

_KEYS = ("collection", "id", "field", "name", "semantics", "start", "max", "digits", "consumer", "target", "hide")
_MOST_DIGITS = 34


@dataclass(frozen=True, slots=True)
class IdField:
    """The collection and field whose ids a counter hands out."""

    ns: Namespace
    field: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One ``[[counter]]`` entry. ``id`` is None for every document of the collection; None and "" mean: not said."""

    ns: Namespace
    id: str | int | None = None
    field: str = ""
    name: str = ""
    semantics: Semantics | None = None
    start: int | None = None
    max: int | None = None
    digits: int | None = None
    consumer: Consumer | None = None
    target: IdField | None = None
    hide: bool = False


@dataclass(frozen=True, slots=True)
class CountersConfig:
    """All rules, in the order of the file: the first one that fits a document counts."""

    rules: tuple[Rule, ...] = ()

    def rules_for(self, ns: Namespace) -> tuple[Rule, ...]:
        """The rules on one collection."""
        return tuple(rule for rule in self.rules if rule.ns == ns)

    def collections(self) -> tuple[Namespace, ...]:
        """The collections that rules name, each once, in order."""
        return tuple(dict.fromkeys(rule.ns for rule in self.rules))


def load_config(path: Path) -> CountersConfig:
    """Read a TOML file of ``[[counter]]`` entries. Raises InputError that names the entry and the key at fault."""
    shown = clean(str(path))
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no file {shown}.", "Name the TOML file that describes your counters.") from None
    except OSError as error:
        raise InputError(f"{shown} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{shown} is not UTF-8 text.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{shown} is not valid TOML: {clean(str(error))}.") from error
    return parse_config(data, shown)


def parse_config(data: Mapping[str, Any], source: str = "the configuration") -> CountersConfig:
    """Read what a TOML file holds. ``source`` names it in errors. Raises InputError."""
    for key in data:
        if key != "counter":
            raise InputError(f"{source}: {clean(key, 60)!r} is not known.", _suggest(key, ("counter",)) + _EXAMPLE)
    entries = data.get("counter", [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise InputError(f"{source}: counters are written as [[counter]] entries.", _EXAMPLE)
    return CountersConfig(tuple(_rule(entry, f"{source}, counter {n}") for n, entry in enumerate(entries, 1)))


_EXAMPLE = 'Write [[counter]] and below it collection = "db.collection".'


def _rule(entry: Mapping[str, Any], where: str) -> Rule:
    for key in entry:
        if key not in _KEYS:
            raise InputError(
                f"{where}: {clean(key, 60)!r} is not a setting.",
                _suggest(key, _KEYS) + f"Known are {', '.join(_KEYS)}.",
            )
    identity = entry.get("id")
    if identity is not None and (isinstance(identity, bool) or not isinstance(identity, (str, int))):
        raise InputError(f"{where}: id must be a text or a whole number.")
    rule = Rule(
        ns=_namespace(entry, where),
        id=identity,
        field=_text(entry, "field", where),
        name=_text(entry, "name", where),
        semantics=Semantics(word) if (word := _choice(entry, "semantics", tuple(Semantics), where)) else None,
        start=_whole(entry, "start", where, -(2**63)),
        max=_whole(entry, "max", where, 0),
        digits=_whole(entry, "digits", where, 1, _MOST_DIGITS),
        consumer=Consumer(word) if (word := _choice(entry, "consumer", tuple(Consumer), where)) else None,
        target=_target(entry, where),
        hide=_flag(entry, "hide", where),
    )
    if rule.max is not None and rule.start is not None and rule.start >= rule.max:
        raise InputError(f"{where}: start {rule.start} is not below max {rule.max}.")
    return rule


def _suggest(word: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word[:60], known, 1)
    return f"Did you mean {near[0]}? " if near else ""


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str) or (key in entry and not value):
        raise InputError(f"{where}: {key} must be a text that is not empty.")
    return value


def _namespace(entry: Mapping[str, Any], where: str) -> Namespace:
    if "collection" not in entry:
        raise InputError(f"{where}: collection is missing.", _EXAMPLE)
    ns = Namespace.parse(_text(entry, "collection", where))
    if not ns.db or not ns.collection:
        raise InputError(f'{where}: collection must be "database.collection".', _EXAMPLE)
    return ns


def _choice(entry: Mapping[str, Any], key: str, known: tuple[str, ...], where: str) -> str:
    value = _text(entry, key, where)
    if value and value not in known:
        choices = " or ".join(f'"{word}"' for word in known)
        raise InputError(f"{where}: {key} must be {choices}, not {clean(value, 60)!r}.", _suggest(value, known).strip())
    return value


def _whole(entry: Mapping[str, Any], key: str, where: str, least: int, most: int = 10**34) -> int | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        span = f"from {least} to {most}" if key == "digits" else f"of at least {least}"
        raise InputError(f"{where}: {key} must be a whole number {span}.")
    return value


def _flag(entry: Mapping[str, Any], key: str, where: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise InputError(f"{where}: {key} must be true or false.")
    return value


def _target(entry: Mapping[str, Any], where: str) -> IdField | None:
    text = _text(entry, "target", where)
    if not text:
        return None
    path, _, field = text.rpartition(".")
    ns = Namespace.parse(path)
    if not ns.db or not ns.collection or not field:
        raise InputError(f'{where}: target must be "database.collection.field".', 'Such as "shop.orders._id".')
    return IdField(ns, field)
