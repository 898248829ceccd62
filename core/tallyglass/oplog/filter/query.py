"""Which entries are wanted: typed as words, evaluated by the server as far as possible, and finally here.

The server's part only leaves out what cannot match: :class:`tallyglass.oplog.filter.compile.CompiledFilter` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import bson
from bson import Regex
from bson.errors import BSONError

from tallyglass.errors import InputError
from tallyglass.moment import Ts, parse_since
from tallyglass.oplog.entry.identity import candidates
from tallyglass.text import unescape_name

OPERATIONS = "iudcn"
"""The operation letters that :meth:`OplogFilter.parse` knows: insert, update, delete, command, no-op."""

TEXT_LIMIT = 200
"""Characters of the text of a filter."""

_FEW_TIMES = 3
"""A part of an expression that is repeated so often is no more than as many parts one after the other."""

# Spaces and backslashes within double quotes belong to the word.
_WORD = re.compile(r'(?:[^\s"]|"(?:\\.|[^"\\])*")+')
_NUMBER = re.compile(r"[0-9]{1,19}")
_GLOB = re.compile(r"([*?])")
# What a filter reads in its own way, in a name: quotes, lists, globs, an inverse, a quote that would be escaped.
_SPECIAL = re.compile(r'[",*?]|^!|\\\Z')
_SHORTEST_CUT = 100
"""An _id that is shown with fewer characters holds its … itself: longer ones are cut."""
# Blanks between the parts of an _id in JSON, but not within its strings.
_BLANK = re.compile(r'("(?:\\.|[^"\\])*")|\s+')


@dataclass(frozen=True, slots=True)
class OplogFilter:
    """Which entries are wanted; all conditions must hold.

    ``since`` is inclusive, ``until`` exclusive. ``namespaces`` are globs, any of which may match; one that begins
    with ``!`` leaves out what it matches, and an escape, as names are shown, stands for its character. ``ops`` are
    letters, ``!d`` the inverse. ``id`` is the text of an ``_id``, as :attr:`OplogRow.id` gives it. ``text`` is found
    in keys and values without regard to case, is a regular expression when written ``/so/``, and means "not" when it
    begins with ``!``. ``destructive`` keeps only what removes data or definitions. ``noops`` shows no-ops.
    ``transaction`` is ``hex(lsid):txnNumber``.
    """

    since: Ts | None = None
    until: Ts | None = None
    namespaces: tuple[str, ...] = ()
    ops: frozenset[str] = field(default_factory=frozenset)
    id: str = ""
    text: str = ""
    destructive: bool = False
    noops: bool = False
    transaction: str = ""

    @classmethod
    def parse(cls, text: str, now: datetime | None = None) -> OplogFilter:
        """Parse a typed filter: ``ns:shop.* ns:!*.tmp op:du id:42 since:now-5m destructive some text``.

        Words without a key form the text. Double quotes keep spaces in a word; around an id they mean the string.
        Relative times count from ``now``, by default the present.
        Raises InputError for a word that cannot be read.
        """
        if _WORD.sub("", text).strip():
            advice = "Write the second quote, or leave both out."
            raise InputError("A quote is not closed.", advice, position=text.rindex('"'))
        wanted = cls()
        free: list[str] = []
        for word in _WORD.finditer(text):
            try:
                wanted = _read_word(wanted, word[0], free, now)
            except InputError as error:
                # Where a value is read, the position is that in the value.
                at = word.start() + word[0].index(":") + 1 + (error.position or 0)
                raise InputError(error.title, error.advice, position=at) from None
        found = replace(wanted, text=" ".join(free))
        found.check()
        return found

    def check(self) -> None:
        """Raise InputError where the text is an expression that cannot be compiled, or too long, and where the filter
        holds what no entry does."""
        if len(self.text) > TEXT_LIMIT:
            raise InputError(f"The text to look for is longer than {TEXT_LIMIT} characters.")
        compile_text(self.text)
        try:
            bson.encode({"text": self.text, "query": self.on_server()})
        except (ValueError, BSONError):
            raise InputError("The filter holds a character that is in no name and no value.") from None

    @property
    def narrow(self) -> bool:
        """Whether it leaves out anything other than no-ops and times."""
        return bool(self.namespaces or self.ops or self.id or self.text or self.destructive or self.transaction)

    def on_server(self) -> Mapping[str, Any]:
        """The part that a server can evaluate, without the times; may be empty."""
        conditions = [
            *_namespace_conditions(self.namespaces),
            *_operation_conditions(self.ops),
            *_document_conditions(self.id),
        ]
        if self.destructive:
            conditions.append({"op": {"$in": ["d", "c"]}})
        if self.transaction:
            conditions.append({"txnNumber": _transaction_number(self.transaction)})
        if not conditions:
            return {}
        return conditions[0] if len(conditions) == 1 else {"$and": conditions}


def compile_text(text: str) -> re.Pattern[str] | None:
    """The expression in ``/.../``; None for plain text. Raises InputError."""
    body = text.removeprefix("!")
    if len(body) < 3 or body[0] != "/" or body[-1] != "/":
        return None
    try:
        expression = re.compile(body[1:-1], re.IGNORECASE)
        is_endless = _is_endless(_parser.parse(body[1:-1], re.IGNORECASE))
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"The expression {body[:60]!r} cannot be read: {error}.") from None
    if is_endless:
        raise InputError(
            f"The expression {body[:60]!r} may be tried without end: what it repeats may match a text in several ways.",
            "Write it without a repeat within a repeat, such as (a+)*.",
        )
    return expression


def _is_endless(parts: Iterable[tuple[Any, Any]], *, repeated: bool = False) -> bool:
    """Whether an expression may take time that doubles with each character: something that matches in more than one
    way, a repeat or a choice, is repeated itself. Nothing can interrupt that."""
    for kind, what in parts:
        inner, again = [], repeated
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, body = what
                if repeated and least != most:
                    return True
                inner, again = [body], repeated or most > _FEW_TIMES
            case "POSSESSIVE_REPEAT":
                inner = [what[2]]
            case "ATOMIC_GROUP":
                inner, again = [what], False
            case "BRANCH":
                inner = what[1]
                begins = {_lower(one) for one in inner}
                if repeated and (None in begins or len(begins) < len(inner)):
                    return True
            case "SUBPATTERN":
                inner = [what[-1]]
            case "ASSERT" | "ASSERT_NOT":
                inner = [what[1]]
            case "GROUPREF_EXISTS":
                inner = [one for one in what[1:] if one is not None]
        if any(_is_endless(one, repeated=again) for one in inner):
            return True
    return False


def _lower(choice: Sequence[tuple[Any, Any]]) -> str | None:
    """The character with which a choice begins, in lower case; None if it is not a certain one."""
    for kind, what in choice[:1]:
        return chr(what).lower() if str(kind) == "LITERAL" else None
    return None


def words_for(ns: str, identity: str = "") -> str:
    """What to type to get the entries of a namespace, and of one ``_id`` in it, as an ``OplogRow`` shows them.

    Raises InputError for an ``_id`` that is shown cut.
    """
    if "…" in identity and len(identity) > _SHORTEST_CUT:
        raise InputError("The _id of this document is too long to look for.", "Look for a part of it as text.")
    word = _SPECIAL.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", ns)
    word = f'"{word}"' if any(char.isspace() for char in word) else word
    return f"ns:{word}" + (f" id:{_BLANK.sub(lambda found: found[1] or '', identity)}" if identity else "")


def glob_pattern(glob: str) -> str:
    """A glob over a whole namespace as a regular expression that Python and the server read alike.

    ``$`` also matches before a last line feed: on the server that lets one name too many through, here
    ``fullmatch`` is used."""
    body = "".join(
        ".*" if part == "*" else "." if part == "?" else re.escape(unescape_name(part)) for part in _GLOB.split(glob)
    )
    return f"^{body}$"


def is_glob(name: str) -> bool:
    """Whether a namespace is a pattern rather than one exact name."""
    return "*" in name or "?" in name


def _read_word(wanted: OplogFilter, word: str, free: list[str], now: datetime | None) -> OplogFilter:
    inverse = "!" if word.startswith("!") else ""
    key, colon, value = word.removeprefix("!").partition(":")
    if word == "destructive":
        return replace(wanted, destructive=True)
    if word == "noops":
        return replace(wanted, noops=True)
    if not colon or key not in _KEYS:
        free.append(word.replace('"', ""))
        return wanted
    if value.startswith("!"):
        inverse, value = "!", value[1:]
    _check_word(word, key, inverse, value)
    value = value if key == "id" else value.replace('"', "")
    match key:
        case "ns":
            globs = tuple(inverse + glob for glob in value.split(",") if glob)
            return replace(wanted, namespaces=wanted.namespaces + globs)
        case "op":
            noops = wanted.noops or ("n" in value and not inverse)
            return replace(wanted, ops=wanted.ops | _operations(inverse, value), noops=noops)
        case "id":
            return replace(wanted, id=value)
        case "txn":
            _transaction_number(value)
            return replace(wanted, transaction=value)
        case "since":
            return replace(wanted, since=parse_since(value, now))
    return replace(wanted, until=parse_since(value, now))


def _check_word(word: str, key: str, inverse: str, value: str) -> None:
    """Raise InputError for a key without a value, or one whose value cannot be left out."""
    if not value:
        raise InputError(f"{word!r} lacks a value.", "Write such as ns:shop.* or op:d.")
    if inverse and key == "id":
        raise InputError("An id cannot be left out.", "Write id:VALUE to see the history of one document.")
    if inverse and key not in ("ns", "op"):
        raise InputError(f"What {key}: names cannot be left out.", "Write it without the !.")


_KEYS = ("ns", "op", "id", "txn", "since", "until")


def _operations(inverse: str, letters: str) -> set[str]:
    unknown = set(letters) - set(OPERATIONS)
    if unknown:
        raise InputError(
            f"{''.join(sorted(unknown))!r} is not an operation.",
            "i is an insert, u an update, d a delete, c a command, n a no-op.",
            position=min(map(letters.index, unknown)),
        )
    return {inverse + letter for letter in letters}


def _namespace_conditions(namespaces: tuple[str, ...]) -> list[dict[str, Any]]:
    """Commands always pass, since theirs is the namespace ``db.$cmd``: what they act on is judged here."""
    keep = [_on_server(name) for name in namespaces if not name.startswith("!")]
    leave = [_on_server(name[1:]) for name in namespaces if name.startswith("!")]
    conditions: list[dict[str, Any]] = []
    if keep:
        conditions.append({"$or": [{"ns": {"$in": keep}}, {"op": "c"}]})
    if leave:
        conditions.append({"$or": [{"ns": {"$nin": leave}}, {"op": "c"}]})
    return conditions


def _on_server(name: str) -> Any:
    return Regex(glob_pattern(name), "s") if is_glob(name) else unescape_name(name)


def _operation_conditions(ops: frozenset[str]) -> list[dict[str, Any]]:
    """Commands pass with i, u and d, since an applyOps may hold them."""
    keep = {op for op in ops if not op.startswith("!")}
    leave = {op[1:] for op in ops if op.startswith("!")} - {"c"}
    conditions: list[dict[str, Any]] = []
    if keep:
        conditions.append({"op": {"$in": sorted(keep | {"c"})}})
    if leave:
        conditions.append({"op": {"$nin": sorted(leave)}})
    return conditions


def _document_conditions(text: str) -> list[dict[str, Any]]:
    if not text:
        return []
    values = list(candidates(text))
    return [
        {"$or": [{"o._id": {"$in": values}}, {"o2._id": {"$in": values}}, {"op": "c", "o.applyOps": {"$exists": True}}]}
    ]


def _transaction_number(text: str) -> int:
    _, _, number = text.partition(":")
    if not _NUMBER.fullmatch(number) or int(number) >= 2**63:
        raise InputError(f"{text[:60]!r} is not a transaction.", "Write it as session:number.")
    return int(number)
