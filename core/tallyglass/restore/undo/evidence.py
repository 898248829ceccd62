"""What a person knows of an accident: the statement as it was run, and how many documents it reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bson
from bson import json_util
from bson.errors import BSONError

from tallyglass.errors import InputError
from tallyglass.oplog.entry.changes import UNKNOWN, Path, Value, build, parse
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.bson_file import decode
from tallyglass.restore.undo.accident import UpdateEffect
from tallyglass.restore.undo.mongosh_text import read_call
from tallyglass.restore.undo.statement import TypedStatement, assigned, is_equal
from tallyglass.text import clean, shell_quote

_FORMS = (
    'For example deleteMany({status: "new"}) or updateMany({status: "new"}, {$set: {status: "old"}}), with operators '
    "or a pipeline of $set and $unset."
)


@dataclass(frozen=True, slots=True)
class KnownStatement:
    """``constants`` are the values that the statement sets by path, None for a field that it removes; ``computed`` are
    the paths that it changes in another way, ``always`` those of them that it leaves as they were in no document. All
    are empty for a delete, and where its ``text`` is not known. ``count`` is how many documents it reported as modified
    or deleted, None where that is not known. ``collection`` is the one that the text names, empty for none."""

    constants: Mapping[Path, Value | None]
    computed: frozenset[Path] = frozenset()
    always: frozenset[Path] = frozenset()
    count: int | None = None
    text: str = ""
    collection: str = ""

    @property
    def deletes(self) -> bool:
        """Whether it is known to be a delete."""
        return bool(self.text) and not (self.constants or self.computed)

    def effect(self, written: Mapping[Path, Iterable[Value | None]]) -> UpdateEffect:
        """The effect of the statement, with the values as they were ``written``: a text does not tell 1 from 1.0."""
        found = {
            path: next((one for one in written.get(path, ()) if is_same(one, value)), value)
            for path, value in self.constants.items()
        }
        return UpdateEffect(found, self.computed, self.always)


def read_evidence(statement: str, count: int | None) -> KnownStatement | None:
    """The evidence as typed; None for none. ``statement`` is an ``updateMany`` or ``deleteMany`` as mongosh takes it:
    see :func:`~tallyglass.restore.undo.mongosh_text.read_call`. Raises InputError for anything else."""
    if not statement:
        return None if count is None else KnownStatement({}, count=count)
    typed = read_statement(statement)
    update, collection = typed.update, typed.collection
    try:
        if update is None:
            return KnownStatement({}, count=count, text=statement, collection=collection)
        constants, computed, always = _effect_of(update) if isinstance(update, Mapping) else _effect_of_stages(update)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise InputError(f"--statement '{clean(statement, 80)}' cannot be read.", _FORMS) from None
    if not constants and not computed:
        raise InputError(f"--statement '{clean(statement, 80)}' changes nothing.", _FORMS)
    return KnownStatement(constants, computed, always, count, statement, collection)


def read_statement(text: str) -> TypedStatement:
    """A statement as typed. Raises InputError for anything but an ``updateMany`` or ``deleteMany``."""
    try:
        collection, name, arguments = read_call(text)
    except ValueError as error:
        where = f"cannot be read from '{clean(str(error), 40)}' on" if str(error) else "ends too soon"
        raise InputError(f"--statement '{clean(text, 80)}' {where}.", _FORMS) from None
    kind = _kind(name, arguments)
    if kind is None:
        raise InputError(f"--statement '{clean(text, 80)}' is not an updateMany or deleteMany.", _FORMS)
    query, *rest = arguments or [None]
    update = rest.pop(0) if kind == "updateMany" and rest else None
    right = isinstance(update, (Mapping, list)) if kind == "updateMany" else update is None
    if not isinstance(query, Mapping) or not right:
        needs = "a filter and an update" if kind == "updateMany" else "a filter"
        raise InputError(f"--statement '{clean(text, 80)}' needs {needs}.", _FORMS)
    collation = any(isinstance(one, Mapping) and "collation" in one for one in rest)
    return TypedStatement(query, update, collation, collection)


def _kind(name: str, arguments: Sequence[Any]) -> str | None:
    """Which of the two a call is; ``remove`` and ``update`` are older names of them. None for a call of one document,
    or of another kind."""
    options = arguments[-1] if arguments and isinstance(arguments[-1], Mapping) else {}
    one = len(arguments) > 1 and (arguments[1] is True or bool(options.get("justOne")))
    older = {"remove": None if one else "deleteMany", "update": "updateMany" if options.get("multi") is True else None}
    return name if name in ("updateMany", "deleteMany") else older.get(name)


_Effect = tuple[dict[Path, Value | None], frozenset[Path], frozenset[Path]]


def _effect_of(update: Mapping[str, Mapping[str, Any]]) -> _Effect:
    constants: dict[Path, Value | None] = {}
    computed, always = set[Path](), set[Path]()
    for operator, fields in update.items():
        if not operator.startswith("$"):
            raise ValueError(operator)
        for name, value in fields.items() if operator != "$setOnInsert" else ():
            path = tuple(name.encode().split(b"."))
            arrays = _arrays(path)
            computed |= arrays
            if arrays and not path[len(min(arrays, key=len))].isdigit():
                continue
            if operator == "$set":
                constants[path] = _value(value)
            elif operator == "$unset":
                constants[path] = None
            else:
                computed |= {path, *([tuple(value.encode().split(b"."))] if operator == "$rename" else [])}
                always |= {path} if operator == "$inc" and _is_a_step(value) and not arrays else set()
    return constants, frozenset(computed), frozenset(always)


def _effect_of_stages(stages: Iterable[Mapping[str, Any]]) -> _Effect:
    constants: dict[Path, Value | None] = {}
    computed = set[Path]()
    for stage in stages:
        for name, fields in stage.items():
            if name not in ("$set", "$addFields", "$unset"):
                raise ValueError(name)
            removed = [fields] if isinstance(fields, str) else fields
            for field, how in ((one, None) for one in removed) if name == "$unset" else assigned(fields):
                path = tuple(field.encode().split(b"."))
                what = how["$literal"] if isinstance(how, Mapping) and set(how) == {"$literal"} else how
                again = path in constants or path in computed
                if again or isinstance(what, (Mapping, list)) or (isinstance(what, str) and what.startswith("$")):
                    constants.pop(path, None)
                    computed.add(path)
                else:
                    constants[path] = None if name == "$unset" else _value(what)
    return constants, frozenset(computed), frozenset()


def _arrays(path: Path) -> set[Path]:
    """The arrays through which a path may lead: an entry shows a change inside one as one of the whole array."""
    return {path[:at] for at, name in enumerate(path) if at and (name.isdigit() or name.startswith(b"$"))}


def _is_a_step(value: Any) -> bool:
    """Whether ``$inc`` by this changes every number: a small fraction leaves a large one as it is."""
    return isinstance(value, int) and value != 0


def _value(value: Any) -> Value:
    return next(iter(parse(bson.encode({"v": value})).values()))


def is_same(one: Value | None, other: Value | None) -> bool:
    """Whether a value that was written may be another as it is typed: numbers count by value, also those within."""
    if one is None or other is None or one == UNKNOWN:
        return one == other
    held, typed = (decode(build({b"v": value}))["v"] for value in (one, other))
    return is_equal(held, typed)


def statement_of(constants: Mapping[Path, Value | None]) -> str:
    """A statement that sets these values, as :func:`read_evidence` reads it, whatever its filter; empty where it cannot
    be written so."""
    update: dict[str, dict[str, Any]] = {}
    for path, value in sorted(constants.items()):
        try:
            name = b".".join(path).decode()
            held = "" if value is None else bson.decode(build({b"v": value}))["v"]
        except (ValueError, BSONError):
            return ""
        update.setdefault("$unset" if value is None else "$set", {})[name] = held
    try:
        text = f"updateMany({{}}, {json_util.dumps(update, json_options=json_util.RELAXED_JSON_OPTIONS)})"
        known = read_evidence(text, None)
    except (ValueError, TypeError, OverflowError, InputError):
        return ""
    same = known is not None and known.effect({path: [value] for path, value in constants.items()}).constants
    return text if constants and same == constants and len(text) <= _LONGEST else ""


_LONGEST = 1_000
"""The characters of a statement that a person can still review."""


def compare_counts(found: int, evidence: KnownStatement) -> Iterator[str]:
    """Why entries are not proven to be those of the statement: those that it explains hold all of its own, so they
    are proven if they are as many as it reported. Where more are found, its text may tell them apart when the documents
    before them are read."""
    around = "from a minute before to a minute after"
    if evidence.count is None:
        if not found:
            yield f"No entry {around} does what was run."
    elif found < evidence.count:
        what = "entries do what was run" if evidence.text else "entries of this kind were written"
        yield f"{found:,} {what} {around}, and {evidence.count:,} were reported: the rest is not there."
    elif found > evidence.count and not evidence.text:
        yield (
            f"{found:,} entries of this kind were written {around}, and {evidence.count:,} were reported: which of "
            "them are its own is not known."
        )


def logged_statement(incident: Incident | None) -> tuple[str, int | None]:
    """What the server's own records say of the statement behind an incident, for a person to confirm: the text of the
    one that wrote it, and how many documents it wrote; empty and None where that is not known, or was several
    statements. A text that cannot be read as evidence is left out."""
    who = incident.evidence.who if incident is not None and incident.evidence is not None else None
    if who is None or who.server or who.statements != 1:
        return "", None
    try:
        read_evidence(who.statement, who.documents)
    except InputError:
        return "", who.documents
    return who.statement, who.documents


def as_options(statement: str, count: int | None) -> str:
    """Evidence as options of ``restore plan``; empty for none."""
    words = [f"--statement={shell_quote(statement)}"] if statement else []
    return " ".join([*words, *([f"--count={count}"] if count is not None else [])])
