"""Programs for mongosh: database commands that have to succeed, and the connection they run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson import Timestamp, json_util

from tallyglass.moment import Ts
from tallyglass.mongosh import call, keeps_order, literal

__all__ = ["call", "create_indexes", "drop_like", "keeps_order", "literal", "merge_since", "must", "program"]


def must(db: str, body: Mapping[str, Any]) -> str:
    """One database command that has to succeed: see :func:`program`."""
    return f"must(db.getSiblingDB({literal(db)}).runCommand({literal(body)}));"


def merge_since(ns: str, seen: Ts, body: Mapping[str, Any]) -> str:
    """An ``aggregate`` command that ends in a merge into ``ns``, without the documents that the oplog shows written
    after ``seen``, its last entry that was looked at: see :func:`program`."""
    stamp = literal(Timestamp(seen.t, seen.i))
    return f"mergeSince({literal(ns)}, {stamp}, {literal(ns.partition('.')[0])}, {literal(body)});"


def create_indexes(db: str, name: str, specs: Sequence[str]) -> str:
    """Build indexes from their specifications, which are Extended JSON."""
    indexes = [json_util.loads(spec, json_options=json_util.CANONICAL_JSON_OPTIONS) for spec in specs]
    return must(db, {"createIndexes": name, "indexes": indexes})


def drop_like(db: str, pattern: str) -> str:
    """Drop the collections of ``db`` whose names match a regular expression: see :func:`program`."""
    return f"dropLike({literal(db)}, {literal(pattern)});"


_HELPERS = """\
const MOST_SINCE = 50000;
function must(result) {
  if (!result.ok || (result.writeErrors && result.writeErrors.length)) {
    throw new Error(JSON.stringify(result));
  }
  return result;
}
function dropLike(name, pattern) {
  const where = db.getSiblingDB(name);
  const names = where.getCollectionNames().filter((one) => new RegExp(pattern).test(one));
  names.forEach((one) => where.getCollection(one).drop());
}
function writtenSince(ns, seen) {
  const oplog = db.getSiblingDB("local").getCollection("oplog.rs");
  if (oplog.find({ts: seen}).limit(1).toArray().length !== 1) {
    throw new Error("The oplog does not reach back to the plan any more: plan again.");
  }
  const wanted = {ts: {$gt: seen}, $or: [{ns: ns}, {"o.applyOps.ns": ns}]};
  const shape = {op: 1, ns: 1, "o._id": 1, "o2._id": 1};
  ["op", "ns", "o._id", "o2._id"].forEach((one) => { shape["o.applyOps." + one] = 1; });
  const entries = oplog.find(wanted, shape).limit(MOST_SINCE + 1).toArray();
  const ids = [];
  for (const entry of entries) {
    const inner = entry.op === "c" ? (entry.o.applyOps || []) : [entry];
    for (const one of inner) {
      if (one.ns === ns && ["i", "u", "d"].includes(one.op)) {
        ids.push(one.op === "u" ? one.o2._id : one.o._id);
      }
    }
  }
  if (entries.length > MOST_SINCE || ids.length > MOST_SINCE) {
    throw new Error("Too many documents were written since the plan: stop the writers and plan again.");
  }
  return ids;
}
function mergeSince(ns, seen, name, body) {
  const ids = writtenSince(ns, seen);
  if (ids.length > 0) {
    body.pipeline.unshift({$match: {_id: {$nin: ids}}});
  }
  return must(db.getSiblingDB(name).runCommand(body));
}"""


def program(statements: Sequence[str], uri: str, password_file: str = "") -> str:
    """A whole file for ``mongosh --nodb --file``. The password is read from ``password_file`` where that exists, else
    asked for; it is never in the text. ``uri`` is one made by :func:`tallyglass.restore.tool_uri.tool_uri`."""
    return "\n".join([*_connect(uri, password_file), _HELPERS, *statements, 'print("done");', ""])


def _connect(uri: str, password_file: str) -> list[str]:
    if not password_file:
        return [f"db = connect({literal(uri)});"]
    head, _, tail = uri.partition("@")
    return [
        'const fs = require("fs");',
        f"const held = {literal(password_file)};",
        'const password = fs.existsSync(held) ? fs.readFileSync(held, "utf8") : passwordPrompt();',
        f"db = connect({literal(head + ':')} + encodeURIComponent(password) + {literal('@' + tail)});",
    ]
