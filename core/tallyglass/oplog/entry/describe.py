"""What an entry does, in a few words that are safe to show: ``update total: 8, -note``, ``drop (951 documents)``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from tallyglass.oplog.entry import json, layout, walk
from tallyglass.oplog.entry.changes import Change, ChangeKind
from tallyglass.oplog.entry.entry import VECTORED_INSERT, Entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.entry.walk import Element
from tallyglass.text import clean, clean_name

_FIELDS_SHOWN = 6
"""Fields of an inserted document in its description: what a wide line has room for."""

LINE_LIMIT = 160
"""Characters of the changes of an update, and of the document of an operation that is not known: a wide line."""

INNER_LIMIT = 5_000
"""Operations of one applyOps whose namespaces a description looks at; of more it counts the kinds."""

_DESTRUCTIVE = frozenset({"drop", "dropDatabase", "dropIndexes", "deleteIndex", "deleteIndexes", "emptycapped",
                          "convertToCapped", "dropGlobalIndex", "dropDatabaseMetadata", "truncateRange"})  # fmt: skip

_COUNTED = {"truncateRange": b"docsDeleted", "importCollection": b"numRecords"}
"""Commands that say themselves how many documents they remove or bring."""

_CONTAINERS = {"ci": "container insert", "cu": "container update", "cd": "container delete"}
"""Writes to tables of the storage engine (8.2), such as those of an index: no documents of users."""


@dataclass(slots=True)
class AppliedOperations:
    """The operations inside an applyOps, counted by kind and by namespace."""

    count: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)

    @property
    def most(self) -> str:
        """The namespace touched most, of several the first by name; as stored, empty without any."""
        return min(self.namespaces, key=lambda ns: (-self.namespaces[ns], ns), default="")

    @property
    def where(self) -> str:
        """The namespace touched most, and how many others: ``shop.orders +2``."""
        rest = len(self.namespaces) - 1
        return clean_name(self.most, 255) + (f" +{rest}" if rest > 0 else "")


@dataclass(slots=True)
class Description:
    """An entry in words: what it does, where, to how many documents, and whether data or definitions go away."""

    what: str
    ns: str
    documents: int = 1
    destructive: bool = False


def describe(entry: Entry) -> Description:
    """What an entry does. Raises Malformed where its documents are broken."""
    match entry.op:
        case "i":
            return Description(_insert(entry), clean_name(entry.ns, 255))
        case "u":
            return Description(update_text(entry), clean_name(entry.ns, 255))
        case "d":
            return Description("delete", clean_name(entry.ns, 255), destructive=True)
        case "n":
            return Description(_noop(entry), clean_name(entry.ns, 255), documents=0)
        case "c":
            return _command(entry)
    word = _CONTAINERS.get(entry.op) or clean_name(entry.op, 20) or "no operation"
    return Description(f"{word} {_whole(entry)}".rstrip(), clean_name(entry.ns, 255))


def summarize_operations(entry: Entry, limit: int = INNER_LIMIT) -> AppliedOperations:
    """Count the operations of an applyOps by kind, and so many of them by namespace. Raises Malformed."""
    inner = AppliedOperations()
    for element in entry.fields(entry.within(entry.o_at, b"applyOps")):
        inner.count += 1
        if element.type != walk.DOCUMENT:
            continue
        letter = layout.op_letter(entry.raw, element.start + 4) if inner.count > limit else ""
        if letter:
            inner.ops[letter] += 1
            continue
        for part in walk.elements(entry.raw, element.start, element.end):
            if part.name == b"op":
                inner.ops[walk.text(entry.raw, part)] += 1
            elif part.name == b"ns":
                inner.namespaces[walk.text(entry.raw, part)] += 1
                break
    return inner


def update_text(entry: Entry) -> str:
    """``update`` and the changes, on one line of about :data:`LINE_LIMIT` characters; ``replace`` for a replacement."""
    changes = entry.changes()
    if changes is None:
        return "replace"
    words: list[str] = []
    length = 0
    for change in changes:
        if length >= LINE_LIMIT:
            words.append("…")
            break
        words.append(change_text(entry, change))
        length += len(words[-1]) + 2
    return "update " + clean(", ".join(words) or "nothing", LINE_LIMIT + 2)


def change_text(entry: Entry, change: Change) -> str:
    """One change as text, safe to show: ``total: 8``, ``+note: "x"``, ``-note``, ``lines cut to 2``."""
    path = ".".join(clean_name(name.decode("utf-8", "replace"), 80) for name in change.path)
    if change.kind is ChangeKind.REMOVE:
        return f"-{path}"
    if change.value is None or any(name.partition(b".")[0] in entry.secrets for name in change.path):
        return f"{path} changed"
    if change.kind is ChangeKind.LENGTH:
        return f"{path} cut to {walk.whole_number(entry.raw, change.value)}"
    if change.kind is ChangeKind.PATCH:
        return f"{path} patched"
    sign = "+" if change.kind is ChangeKind.ADD else ""
    return f"{sign}{path}: {short_value(entry.raw, change.value)}"


def short_value(raw: bytes, element: Element) -> str:
    """One value in at most about 60 characters, safe to show."""
    if element.type in (walk.DOCUMENT, walk.ARRAY):
        return json.one_line(raw, element, 60)
    if element.type in (walk.OBJECT_ID, walk.BINARY):
        return json.id_text(raw, element, 60)
    if element.type == walk.DATE:
        return json.date_text(raw, element.start).strip('"')
    if element.type == walk.DECIMAL:
        return str(walk.value(raw, element))
    return json.scalar(raw, element, 60)


def _insert(entry: Entry) -> str:
    collection = entry.ns.partition(".")[2]
    if collection == "system.views":
        return "define view"
    if collection.startswith("system.buckets."):
        return "insert time-series bucket"
    return _first_fields(entry) or "insert"


def _first_fields(entry: Entry) -> str:
    """A short description of an inserted document: its first fields after the _id."""
    fields = (field for field in entry.fields(entry.o_at) if field.name != b"_id" and field.name not in entry.secrets)
    return ", ".join(
        f"{clean_name(field.name.decode('utf-8', 'replace'), 40)}: {short_value(entry.raw, field)}"
        for field in islice(fields, _FIELDS_SHOWN)
    )


def _noop(entry: Entry) -> str:
    word = clean(entry.text_in(entry.o_at, b"msg"), 120) or _noop_command(entry)
    return f"no-op: {word}" if word else f"no-op {_whole(entry)}"


def _noop_command(entry: Entry) -> str:
    """The sharding command of a no-op whose message is a document: ``moveChunk shop.orders``."""
    first = next(entry.fields(entry.within(entry.o_at, b"msg")), None)
    if first is None or first.type != walk.STRING:
        return ""
    return f"{clean_name(first.name.decode('utf-8', 'replace'), 60)} {clean_name(walk.text(entry.raw, first), 255)}"


def _whole(entry: Entry) -> str:
    return json.one_line(entry.raw, entry.o_at, LINE_LIMIT) if entry.o_at else ""


def _command(entry: Entry) -> Description:
    name = entry.command
    if not name:
        return Description("empty command", clean_name(entry.ns, 255), documents=0)
    if name == "applyOps":
        return _apply_ops(entry)
    destructive = name in _DESTRUCTIVE or (name == "renameCollection" and entry.drops_target)
    counted = _COUNTED.get(name)
    documents = entry.records if counted is None else entry.number_in(entry.o_at, counted)
    words = _command_words(entry, clean_name(name, 60), documents or 0)
    return Description(words, clean_name(entry.target, 255), documents or 0, destructive)


def _command_words(entry: Entry, name: str, documents: int) -> str:
    count = f" ({documents:,} documents)" if entry.within(entry.o2_at, b"numRecords") else ""
    match name:
        case "drop" | "dropDatabase" | "commitTransaction" | "abortTransaction":
            return name + count
        case "dropIdent":
            return f"dropIdent {clean_name(entry.text_in(entry.o_at, b'dropIdent'), 120)}".rstrip()
        case "truncateRange" | "importCollection":
            return f"{name} ({documents:,} documents)" + (", a dry run" if entry.flag(b"dryRun") else "")
        case "renameCollection":
            to = clean_name(entry.text_in(entry.o_at, b"to"), 255)
            return f"rename to {to}" + (f", dropping it{count}" if entry.drops_target else "")
        case "create":
            return _create(entry)
        case "createIndexes" | "startIndexBuild" | "commitIndexBuild" | "abortIndexBuild":
            return f"{name} {', '.join(index_names(entry))}".rstrip()
        case "dropIndexes" | "deleteIndexes" | "deleteIndex" | "dropIndex":
            return f"{name} {clean_name(entry.text_in(entry.o_at, b'index'), 80)}".rstrip()
    return f"{name} {_rest(entry)}".rstrip()


def _create(entry: Entry) -> str:
    view = entry.text_in(entry.o_at, b"viewOn")
    if view:
        return f"create view on {clean_name(view, 120)}"
    for option, word in ((b"capped", "capped"), (b"timeseries", "time-series"), (b"clusteredIndex", "clustered")):
        if entry.within(entry.o_at, option) is not None:
            return f"create ({word})"
    return "create"


def index_names(entry: Entry) -> list[str]:
    """The names of the indexes that an index command builds, safe to show, at most 20."""
    found = (entry.text_in(spec, b"name") for spec in entry.index_specs() if entry.within(spec, b"name"))
    return [clean_name(name, 80) for name in islice(filter(None, found), 20)]


def _rest(entry: Entry) -> str:
    """A command's first arguments after its name."""
    return ", ".join(f"{clean_name(field.name.decode('utf-8', 'replace'), 40)}: {short_value(entry.raw, field)}"
                     for field in islice(entry.fields(entry.o_at), 1, 6))  # fmt: skip


def _apply_ops(entry: Entry) -> Description:
    inner = summarize_operations(entry)
    destructive = inner.ops["d"] > 0
    if inner.ops["c"]:
        within = islice(operations_of(entry), INNER_LIMIT)
        others = (item for item in within if item.op == "d" or (item.op == "c" and item.command != "applyOps"))
        destructive = destructive or any(describe(item).destructive for item in others)
    if entry.multi == VECTORED_INSERT:
        what = f"insert of {inner.count:,}"
    elif entry.in_transaction:
        what = _transaction(entry, inner)
    elif entry.chained:
        what = _batch_part(entry, inner)
    elif inner.ops["d"] and set(inner.ops) == {"d"}:
        what = f"delete of {inner.count:,}"
    else:
        what = f"applyOps of {inner.count:,}"
    return Description(what, inner.where or clean_name(entry.ns, 255), inner.count, destructive)


def _transaction(entry: Entry, inner: AppliedOperations) -> str:
    if entry.flag(b"partialTxn"):
        return f"part of a transaction: {inner.count:,}"
    size = entry.number_in(entry.o_at, b"count") or inner.count
    prepared = "prepared " if entry.flag(b"prepare") else ""
    return f"{prepared}transaction of {size:,}"


def _batch_part(entry: Entry, inner: AppliedOperations) -> str:
    """One entry of a batched write that fills several; the last has the number of all."""
    kind = "batched delete" if set(inner.ops) == {"d"} else "batched write"
    if entry.flag(b"partialTxn"):
        return f"part of a {kind}: {inner.count:,}"
    size = entry.number_in(entry.o_at, b"count") or inner.count
    return f"{kind} of {size:,}, the last {inner.count:,}"
