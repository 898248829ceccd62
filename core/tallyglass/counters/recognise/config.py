"""The configuration of counters: a TOML file.

.. code-block:: toml

    include = ["shop.*"]              # search these namespaces only (patterns with * and ?)
    exclude = ["*.audit_*"]           # and never at these

    [[counter]]
    collection = "shop.serials"       # the namespace: database.collection; * and ? match any
    id = "invoices"                   # which document, by its _id; without it every document of the collection
    field = "n"                       # where the number is, if Tallyglass does not find it by itself: a dotted path,
                                      # with positions or * for the elements of an array ("items.*.next")
    name = "invoice numbers"          # what to call it on the screen
    semantics = "next"                # the stored number is the next id (or "last": the last one handed out)
    step = -1                         # what is added for each id; below 0 the counter descends
    block = 1000                      # each number stands for so many ids (the "hi" of hi/lo)
    start = 1000                      # the number before the first id
    min = 1                           # of a descending counter: the last id that may be handed out
    max = 999999                      # the last id that may be handed out; of a descending counter the first
    cycle = true                      # after max it starts again, at start or at min: that is no fault
    resets = "yearly"                 # it starts again each day, month or year: that is no fault
    digits = 6                        # or: so many digits fit
    consumer = "int32"                # what keeps the ids: int32, uint32, javascript or int64
    target = "shop.invoices.number"   # whose ids they are: database.collection.field
    hide = true                       # do not show it

    [[acknowledge]]
    counter = "shop.counters orders"  # namespace and id as `tallyglass counters` shows them; * and ? match any
    flags = ["RESET", "REWOUND"]      # which flags no longer alarm
    until = 2027-01-31                # and until when
    reason = "restored on purpose"
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.limits import DECIMAL_STALL
from tallyglass.counters.snapshot import Flag, Semantics
from tallyglass.errors import InputError
from tallyglass.mongo.gateway import Namespace
from tallyglass.text import clean, clean_name

_ACKNOWLEDGE_KEYS = ("counter", "flags", "until", "reason")
_TOP_KEYS = ("counter", "acknowledge", "include", "exclude")
SYSTEM_DATABASES = frozenset({"admin", "local", "config"})
"""Databases without application data."""

_MOST_DIGITS = 34
"""Those of a Decimal128."""


class Resets(StrEnum):
    """How often a counter is reset on purpose."""

    DAILY = "daily"
    MONTHLY = "monthly"
    YEARLY = "yearly"


@dataclass(frozen=True, slots=True)
class IdField:
    """The collection and field whose ids a counter hands out."""

    ns: Namespace
    field: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One ``[[counter]]`` entry. ``id`` is None for every document of the collection; None and "" mean: not set.

    ``ns`` may hold the wildcards ``*`` and ``?``. ``number`` is its place in the file, from 1.
    """

    ns: Namespace
    id: str | int | None = None
    field: str = ""
    name: str = ""
    semantics: Semantics | None = None
    step: int | None = None
    block: int | None = None
    start: int | None = None
    min: int | None = None
    max: int | None = None
    cycle: bool = False
    resets: Resets | None = None
    digits: int | None = None
    consumer: Consumer | None = None
    target: IdField | None = None
    hide: bool = False
    number: int = 0

    @property
    def targets(self) -> tuple[IdField, ...]:
        """All that the target may name, as both the collection and the field may have dots: the longest collection
        first."""
        if self.target is None:
            return ()
        db, parts = self.target.ns.db, f"{self.target.ns.collection}.{self.target.field}".split(".")
        divided = [(".".join(parts[:n]), ".".join(parts[n:])) for n in range(len(parts) - 1, 0, -1)]
        return tuple(IdField(Namespace(db, collection), field) for collection, field in divided)

    @property
    def is_pattern(self) -> bool:
        """Whether the namespace holds wildcards."""
        return any(char in str(self.ns) for char in "*?[")

    def covers(self, ns: Namespace) -> bool:
        """Whether the rule is about a collection."""
        return self.ns == ns or (self.is_pattern and fnmatchcase(str(ns), str(self.ns)))

    def first(self, step: int) -> int | None:
        """Where a counter with this step begins: at the start, or else at the end of its range that it leaves."""
        if self.start is not None:
            return self.start
        return self.max if step < 0 else self.min

    def wants(self, identity: object) -> bool:
        """Whether the rule is about the document with this ``_id``."""
        return self.id is None or self.id == identity


_KEYS = ("collection", *(one.name for one in fields(Rule) if one.name not in ("ns", "number")))


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Flags of some counters that do not alarm until a given time."""

    counter: str
    flags: tuple[Flag, ...]
    until: datetime
    reason: str = ""

    def covers(self, name: str, now: datetime) -> bool:
        """Whether it applies to the counter with this name (namespace, space, id) at a given time."""
        return now < self.until and fnmatchcase(name, self.counter)


@dataclass(frozen=True, slots=True)
class CountersConfig:
    """All rules, in the order of the file; the first rule that matches a number applies."""

    rules: tuple[Rule, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    acknowledgements: tuple[Acknowledgement, ...] = ()

    def rules_for(self, ns: Namespace) -> tuple[Rule, ...]:
        """The rules on one collection."""
        return tuple(rule for rule in self.rules if rule.covers(ns))

    def collections(self) -> tuple[Namespace, ...]:
        """The collections that rules name without wildcards, each once, in order."""
        return tuple(dict.fromkeys(rule.ns for rule in self.rules if not rule.is_pattern))

    def allows(self, ns: Namespace) -> bool:
        """Whether ``include`` and ``exclude`` allow counters in a collection."""
        if self.include and not any(fnmatchcase(str(ns), pattern) for pattern in self.include):
            return False
        return not self._excludes(ns)

    def may_compare(self, ns: Namespace) -> bool:
        """Whether the ids in a collection may be read: not where ``exclude`` names it, unless a rule does too."""
        return not self._excludes(ns) or any(target.ns == ns for rule in self.rules for target in rule.targets)

    def _excludes(self, ns: Namespace) -> bool:
        return any(fnmatchcase(str(ns), pattern) for pattern in self.exclude)

    def acknowledged(self, name: str, now: datetime) -> tuple[Flag, ...]:
        """The flags of a counter that are acknowledged at a given time."""
        found = [flag for one in self.acknowledgements if one.covers(name, now) for flag in one.flags]
        return tuple(dict.fromkeys(found))

    def unmatched(self, matched: Collection[int], names: Collection[str]) -> Iterator[str]:
        """A sentence for each rule whose number is not among those ``matched`` by a counter, and for each
        acknowledgement that covers none of the ``names`` of counters."""
        for rule in self.rules:
            if rule.number and rule.number not in matched:
                what = (
                    f"no document has a number at {clean_name(rule.field)}"
                    if rule.field
                    else "no counter was recognised there; name its field"
                )
                which = "" if rule.id is None else f" with the _id {clean(json.dumps(rule.id), 120)}"
                yield f"counter {rule.number} ({clean_name(str(rule.ns))}{which}): {what}."
        for one in self.acknowledgements:
            if not any(fnmatchcase(name, one.counter) for name in names):
                yield f"acknowledge {clean_name(one.counter)} matches no counter."


def load_config(path: Path) -> CountersConfig:
    """Read a TOML file of counter definitions. Raises InputError that names the invalid entry and key."""
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
    """Validate the content of a TOML file. ``source`` names it in errors. Raises InputError."""
    for key in data:
        if key not in _TOP_KEYS:
            raise InputError(
                f"{source}: {clean(key, 60)!r} is not a known setting.", _suggest(key, _TOP_KEYS) + _EXAMPLE
            )
    counters = _entries(data, "counter", source, _EXAMPLE)
    notes = _entries(data, "acknowledge", source, "Write [[acknowledge]] and below it counter, flags and until.")
    config = CountersConfig(
        tuple(_rule(entry, f"{source}, counter {n}", n) for n, entry in enumerate(counters, 1)),
        _patterns(data, "include", source),
        _patterns(data, "exclude", source),
        tuple(_acknowledgement(entry, f"{source}, acknowledge {n}") for n, entry in enumerate(notes, 1)),
    )
    for rule in config.rules:
        if not (rule.is_pattern or config.allows(rule.ns)):
            raise InputError(
                f"{source}, counter {rule.number}: {clean(str(rule.ns), 120)} is left out by include or exclude.",
                "Correct one of them.",
            )
    return config


_Choice = TypeVar("_Choice", bound=StrEnum)
_EXAMPLE = 'Write [[counter]] and below it collection = "db.collection".'


def _entries(data: Mapping[str, Any], key: str, source: str, advice: str) -> list[Mapping[str, Any]]:
    entries = data.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise InputError(f"{source}: {key}s are written as [[{key}]] entries.", advice)
    return entries


def _patterns(data: Mapping[str, Any], key: str, source: str) -> tuple[str, ...]:
    values = data.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) and "." in value for value in values):
        raise InputError(f'{source}: {key} must be a list of patterns "database.collection".', f'{key} = ["shop.*"]')
    return tuple(values)


def _acknowledgement(entry: Mapping[str, Any], where: str) -> Acknowledgement:
    _only(entry, _ACKNOWLEDGE_KEYS, where)
    counter = _text(entry, "counter", where)
    if not counter:
        raise InputError(f"{where}: counter is missing.", 'For example counter = "shop.counters orders".')
    words = entry.get("flags")
    if not isinstance(words, list) or not words:
        raise InputError(f'{where}: flags must be a list, such as ["RESET"].')
    flags: list[Flag] = []
    for word in words:
        if word not in tuple(Flag):
            shown = clean(str(word), 60)
            raise InputError(f"{where}: {shown!r} is not a flag.", f"Flags are {', '.join(Flag)}.")
        flags.append(Flag(word))
    until = entry.get("until")
    if isinstance(until, datetime):
        moment = until if until.tzinfo else until.replace(tzinfo=UTC)
    elif isinstance(until, date):
        moment = datetime.combine(until, time(), UTC)
    else:
        raise InputError(
            f"{where}: until must be a date.", "For example until = 2027-01-31; an acknowledgement has to expire."
        )
    return Acknowledgement(counter, tuple(flags), moment, _text(entry, "reason", where))


def _rule(entry: Mapping[str, Any], where: str, number: int) -> Rule:
    _only(entry, _KEYS, where)
    identity = entry.get("id")
    if identity is not None and (isinstance(identity, bool) or not isinstance(identity, (str, int))):
        raise InputError(f"{where}: id must be a text or a whole number.")
    rule = Rule(
        ns=_namespace(entry, where),
        id=identity,
        field=_text(entry, "field", where),
        name=_text(entry, "name", where),
        semantics=_choice(entry, "semantics", Semantics, where),
        step=_whole(entry, "step", where, -(2**63)),
        block=_whole(entry, "block", where, 1),
        start=_whole(entry, "start", where, -(2**63)),
        min=_whole(entry, "min", where, -(2**63)),
        max=_whole(entry, "max", where, 0),
        cycle=_flag(entry, "cycle", where),
        resets=_choice(entry, "resets", Resets, where),
        digits=_whole(entry, "digits", where, 1, _MOST_DIGITS),
        consumer=_choice(entry, "consumer", Consumer, where),
        target=_target(entry, where),
        hide=_flag(entry, "hide", where),
        number=number,
    )
    _fit_together(rule, where)
    return rule


def _fit_together(rule: Rule, where: str) -> None:
    """Raise InputError for settings that contradict each other."""
    step = rule.step or 1
    descends, first = step < 0, rule.first(step)
    low, high = (rule.min, first) if descends else (first, rule.max)
    if rule.step == 0:
        raise InputError(f"{where}: step must not be 0.")
    if rule.min is not None and not descends and not rule.cycle:
        raise InputError(f"{where}: min is the end of a descending counter.", "Add step = -1, or use start instead.")
    if low is not None and high is not None and low >= high:
        end = f"above min {low}" if descends else f"below max {high}"
        name = "start" if rule.start is not None else "max" if descends else "min"
        raise InputError(f"{where}: {name} {first} is not {end}.")
    if rule.cycle and all(end is None for end in (rule.max, rule.min, rule.digits)):
        raise InputError(f"{where}: a counter that cycles needs max (or min, or digits).")
    if rule.cycle and rule.resets:
        raise InputError(f"{where}: cycle and resets exclude each other.")
    if "[" in str(rule.ns):
        raise InputError(f"{where}: only * and ? are wildcards in collection.")


def _only(entry: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in known:
            raise InputError(
                f"{where}: {clean(key, 60)!r} is not a setting.",
                _suggest(key, known) + f"Known are {', '.join(known)}.",
            )


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
    if ns.db in SYSTEM_DATABASES:
        raise InputError(f"{where}: {ns.db} is a database of the server itself.", "Name a database of an application.")
    return ns


def _choice(entry: Mapping[str, Any], key: str, known: type[_Choice], where: str) -> _Choice | None:
    value, words = _text(entry, key, where), tuple(known)
    if value and value not in words:
        choices = " or ".join(f'"{word}"' for word in words)
        raise InputError(f"{where}: {key} must be {choices}, not {clean(value, 60)!r}.", _suggest(value, words).strip())
    return known(value) if value else None


def _whole(entry: Mapping[str, Any], key: str, where: str, least: int, most: int = DECIMAL_STALL) -> int | None:
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
        raise InputError(f'{where}: target must be "database.collection.field".', 'For example "shop.orders._id".')
    return IdField(ns, field)
