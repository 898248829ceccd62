"""One entry in a few words: ``insert``, ``drop (951 documents)``, ``transaction of 40``. Safe to show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from tallyglass.oplog.decode import diff, render, walk
from tallyglass.oplog.decode.head import LINKED_WRITES, VECTORED_INSERT, Head, command_of, inner_heads, target_of
from tallyglass.oplog.decode.walk import Element
from tallyglass.text import clean, clean_name

_FIELDS_SHOWN = 6
INNER_LIMIT = 5_000
"""Operations of one applyOps that are looked at one by one; more are only counted."""

_DESTRUCTIVE = frozenset({b"drop", b"dropDatabase", b"dropIndexes", b"deleteIndex", b"deleteIndexes", b"emptycapped",
                          b"convertToCapped", b"dropGlobalIndex", b"dropDatabaseMetadata"})  # fmt: skip


@dataclass(slots=True)
class AppliedOperations:
    """The operations inside an applyOps, counted by kind and by namespace."""

    count: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)

    @property
    def where(self) -> str:
        """The namespace touched most, and how many others: ``shop.orders +2``."""
        if not self.namespaces:
            return ""
        rest = len(self.namespaces) - 1
        most = clean_name(self.namespaces.most_common(1)[0][0], 255)
        return f"{most} +{rest}" if rest else most


@dataclass(slots=True)
class Description:
    """An entry in words: what it does, where, to how many documents, and whether data or definitions go away."""

    what: str
    ns: str
    documents: int = 1
    destructive: bool = False


def describe(head: Head) -> Description:
    """Say what an entry does. Raises Malformed where its documents are broken."""
    match head.op:
        case "i":
            return Description(_insert(head), clean_name(head.ns, 255))
        case "u":
            return Description(diff.summary(head), clean_name(head.ns, 255))
        case "d":
            return Description("delete", clean_name(head.ns, 255), destructive=True)
        case "n":
            return Description(_noop(head), clean_name(head.ns, 255), documents=0)
        case "c":
            return _command(head)
    return Description(f"{clean_name(head.op, 20) or 'no operation'} {_whole(head)}".rstrip(), clean_name(head.ns, 255))


def summarize_operations(head: Head) -> AppliedOperations:
    """Count the operations of an applyOps by kind and namespace. Raises Malformed."""
    inner = AppliedOperations()
    for element in head.fields(head.within(head.o, b"applyOps")):
        inner.count += 1
        if inner.count > INNER_LIMIT or element.type != walk.DOCUMENT:
            continue
        for part in walk.elements(head.raw, element.start, element.end):
            if part.name == b"op":
                inner.ops[walk.text(head.raw, part)] += 1
            elif part.name == b"ns":
                inner.namespaces[walk.text(head.raw, part)] += 1
                break
    return inner


def is_transaction(head: Head) -> bool:
    """Whether an applyOps entry is a transaction, or a part of one."""
    return head.txn is not None and head.multi not in (VECTORED_INSERT, LINKED_WRITES)


def _insert(head: Head) -> str:
    collection = head.ns.partition(".")[2]
    if collection == "system.views":
        return "define view"
    if collection.startswith("system.buckets."):
        return "insert time-series bucket"
    return _first_fields(head) or "insert"


def _first_fields(head: Head) -> str:
    """A short description of an inserted document: its first fields after the _id."""
    fields = (field for field in head.fields(head.o) if field.name != b"_id" and field.name not in head.secrets)
    return ", ".join(
        f"{clean_name(field.name.decode('utf-8', 'replace'), 40)}: {diff.short_value(head.raw, field)}"
        for field in islice(fields, _FIELDS_SHOWN)
    )


def _noop(head: Head) -> str:
    message = head.within(head.o, b"msg")
    word = clean(walk.text(head.raw, message), 120) if message else ""
    return f"no-op: {word}" if word else f"no-op {_whole(head)}"


def _whole(head: Head) -> str:
    return render.one_line(head.raw, head.o, 160) if head.o else ""


def _command(head: Head) -> Description:
    first = command_of(head)
    if first is None:
        return Description("empty command", clean_name(head.ns, 255), documents=0)
    if first.name == b"applyOps":
        return _apply_ops(head)
    ns = clean_name(target_of(head), 255)
    records = head.within(head.o2, b"numRecords")
    documents = (walk.whole_number(head.raw, records) or 0) if records else 0
    destructive = first.name in _DESTRUCTIVE or (first.name == b"renameCollection" and drops_target(head))
    return Description(_command_words(head, first, documents), ns, documents, destructive)


def _command_words(head: Head, first: Element, documents: int) -> str:
    name = clean_name(first.name.decode("utf-8", "replace"), 60)
    count = f" ({documents:,} documents)" if head.within(head.o2, b"numRecords") else ""
    match name:
        case "drop" | "dropDatabase" | "commitTransaction" | "abortTransaction":
            return name + count
        case "renameCollection":
            to = clean_name(_string(head, b"to"), 255)
            return f"rename to {to}" + (f", dropping it{count}" if drops_target(head) else "")
        case "create":
            return _create(head)
        case "createIndexes" | "startIndexBuild" | "commitIndexBuild" | "abortIndexBuild":
            return f"{name} {', '.join(index_names(head))}".rstrip()
        case "dropIndexes" | "deleteIndexes" | "deleteIndex" | "dropIndex":
            index = head.within(head.o, b"index")
            return f"{name} {clean_name(walk.text(head.raw, index), 80) if index else ''}".rstrip()
    return f"{name} {_rest(head)}".rstrip()


def _create(head: Head) -> str:
    view = _string(head, b"viewOn")
    if view:
        return f"create view on {clean_name(view, 120)}"
    for option, word in ((b"capped", "capped"), (b"timeseries", "time-series"), (b"clusteredIndex", "clustered")):
        if head.within(head.o, option) is not None:
            return f"create ({word})"
    return "create"


def index_names(head: Head) -> list[str]:
    """The names of the indexes that an index command builds, safe to show, at most 20."""
    own = _string(head, b"name")
    names = [own] if own else []
    for spec in head.fields(head.within(head.o, b"indexes")):
        found = head.within(spec, b"name")
        if found:
            names.append(walk.text(head.raw, found))
    return [clean_name(name, 80) for name in names[:20]]


def drops_target(head: Head) -> bool:
    """Whether a renameCollection drops what bore the new name: dropTarget is a UUID, or true."""
    found = head.within(head.o, b"dropTarget")
    return found is not None and (found.type != walk.BOOL or bool(head.raw[found.start]))


def _string(head: Head, name: bytes) -> str:
    found = head.within(head.o, name)
    return walk.text(head.raw, found) if found else ""


def _rest(head: Head) -> str:
    """A command's first arguments after its name."""
    return ", ".join(f"{clean_name(field.name.decode('utf-8', 'replace'), 40)}: {diff.short_value(head.raw, field)}"
                     for field in islice(head.fields(head.o), 1, 6))  # fmt: skip


def _apply_ops(head: Head) -> Description:
    inner = summarize_operations(head)
    destructive = inner.ops["d"] > 0
    if inner.ops["c"]:
        commands = (item for item in inner_heads(head, INNER_LIMIT) if item.op == "c")
        destructive = destructive or any(describe(item).destructive for item in commands if not _is_apply_ops(item))
    if head.multi == VECTORED_INSERT:
        what = f"insert of {inner.count:,}"
    elif is_transaction(head):
        what = _transaction(head, inner)
    elif inner.ops["d"] and set(inner.ops) == {"d"}:
        what = f"delete of {inner.count:,}"
    else:
        what = f"applyOps of {inner.count:,}"
    return Description(what, inner.where or clean_name(head.ns, 255), inner.count, destructive)


def _is_apply_ops(head: Head) -> bool:
    first = command_of(head)
    return first is not None and first.name == b"applyOps"


def _transaction(head: Head, inner: AppliedOperations) -> str:
    total = head.within(head.o, b"count")
    if head.flag(b"partialTxn"):
        return f"part of a transaction: {inner.count:,}"
    size = (walk.whole_number(head.raw, total) if total else None) or inner.count
    prepared = "prepared " if head.flag(b"prepare") else ""
    return f"{prepared}transaction of {size:,}"
