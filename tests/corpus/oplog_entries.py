"""Write oplog entries as servers do, fast: encoded once for each form, then stamped. See oplog_corpus.md."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import bson
from bson import Binary, Int64, Timestamp

from tallyglass.moment import Ts

UI = Binary(b"\x11" * 16, 4)
MARK = Int64(0x0BAD_CAFE_0BAD_CAFE)
_MARK = struct.pack("<q", MARK)


def user_hash(user: str) -> bytes:
    """``lsid.uid`` of a user, ``name@db``; the one for no user, if there is no access control."""
    return hashlib.sha256(user.encode()).digest()


@dataclass(slots=True)
class Session:
    """A client's session: its id, its user, the last transaction number that it used."""

    id: bytes
    user: str = ""
    number: int = 0

    @property
    def lsid(self) -> dict[str, Any]:
        """As entries carry it."""
        return {"id": Binary(self.id, 4), "uid": Binary(user_hash(self.user))}


@dataclass(slots=True)
class _Template:
    raw: bytes
    ts: int
    wall: int
    ids: list[int]
    number: int


@dataclass
class OplogWriter:
    """Collects entries in any order of time; :meth:`stream` sorts and stamps them.

    ``form`` is the server version whose order of fields and whose batches are written: "4.4", "6.0", "7.0", "8.0".
    Times are milliseconds from the beginning of the stream.
    """

    begin_millis: int
    form: str = "6.0"
    _pending: list[tuple[float, int, Any, tuple[Any, ...]]] = field(default_factory=list)
    _templates: dict[tuple[Any, ...], _Template] = field(default_factory=dict)

    def write(
        self,
        at: float,
        op: str,
        ns: str,
        identity: int,
        session: Session | None = None,
        *,
        migrated: bool = False,
        image: bool = False,
        whole: bool = False,
        field: str = "state",
        new_number: int = 1,
        label: Any = None,
    ) -> None:
        """An insert, update (of one ``field``) or delete of one document. ``new_number`` says how far the session's
        number went on: 0 within one bulkWrite, more than 1 after writes elsewhere."""
        of = (session.id, session.user) if session else (b"", "")
        key = (op, ns, *of, migrated, image, whole, field)
        self._pending.append((at, len(self._pending), label, ("write", key, identity, session, new_number)))

    def command(self, at: float, db: str, o: dict[str, Any], label: Any = None, **around: Any) -> None:
        """A command; ``around`` are fields before ``ts`` (``o2``, ``fromMigrate``) and ``lsid``, ``txnNumber``."""
        self._pending.append((at, len(self._pending), label, ("command", f"{db}.$cmd", o, around)))

    def entry(self, at: float, op: str, ns: str, o: dict[str, Any], label: Any = None, **around: Any) -> None:
        """Any other entry, whole."""
        self._pending.append((at, len(self._pending), label, ("entry", op, ns, o, around)))

    def delay(self, begin: float, millis: float) -> None:
        """Let the server stand still for a time: what came meanwhile is written right after it."""
        until = begin + millis
        for n, (at, *rest) in enumerate(self._pending):
            if begin < at < until:
                self._pending[n] = (until + (at - begin) * 0.01, *rest)  # type: ignore[assignment]

    def stream(self) -> tuple[list[bytes], dict[Any, list[Ts]], dict[tuple[str, str], list[Ts]]]:
        """The entries in order, the timestamps of each label, and those of each namespace and operation."""
        self._pending.sort(key=lambda one: one[:2])
        entries: list[bytes] = []
        labels: dict[Any, list[Ts]] = {}
        places: dict[tuple[str, str], list[Ts]] = {}
        second, ordinal = 0, 0
        for at, _, label, what in self._pending:
            wall = self.begin_millis + int(at)
            if wall // 1_000 > second:
                second, ordinal = wall // 1_000, 0
            ordinal += 1
            ts = Ts(second, ordinal)
            entries.append(self._encoded(what, ts, wall))
            if label is not None:
                labels.setdefault(label, []).append(ts)
            if what[0] == "write":
                places.setdefault((what[1][1], what[1][0]), []).append(ts)
        return entries, labels, places

    def _encoded(self, what: tuple[Any, ...], ts: Ts, wall: int) -> bytes:
        if what[0] == "write":
            _, key, identity, session, new_number = what
            template = self._templates.get(key)
            if template is None:
                template = self._templates[key] = self._template(key)
            raw = bytearray(template.raw)
            struct.pack_into("<II", raw, template.ts, ts.i, ts.t)
            struct.pack_into("<q", raw, template.wall, wall)
            for place in template.ids:
                struct.pack_into("<q", raw, place, identity)
            if session is not None:
                session.number += new_number
                struct.pack_into("<q", raw, template.number, session.number)
            return bytes(raw)
        if what[0] == "command":
            _, ns, o, around = what
            return bson.encode(self._fields("c", ns, o, around, ts, wall))
        _, op, ns, o, around = what
        return bson.encode(self._fields(op, ns, o, around, ts, wall))

    def _fields(self, op: str, ns: str, o: dict[str, Any], around: dict[str, Any], ts: Ts, wall: int) -> dict[str, Any]:
        around = dict(around)
        session = {name: around.pop(name) for name in ("lsid", "txnNumber") if name in around}
        after = {"prevOpTime": around.pop("prevOpTime")} if "prevOpTime" in around else {}
        stamp = {"ts": Timestamp(*ts), "t": Int64(1)}
        moment = {"wall": datetime.fromtimestamp(wall / 1_000, UTC)}
        if self.form == "4.4":
            return stamp | session | {"op": op, "ns": ns, "ui": UI, "v": 2} | moment | around | {"o": o} | after
        version = {"v": Int64(2)}
        return session | {"op": op, "ns": ns, "ui": UI, "o": o} | around | stamp | version | moment | after

    def _template(self, key: tuple[Any, ...]) -> _Template:
        op, ns, session_id, user, migrated, image, whole, field = key
        around: dict[str, Any] = {}
        o: dict[str, Any] = {"_id": MARK}
        if op == "u":
            around["o2"] = {"_id": MARK}
            old = {"$v": 1, "$set": {field: "x"}}
            o = {"_id": MARK, field: "x", "n": 1} if whole else old if self.form == "4.4" else {
                "$v": 2, "diff": {"u": {field: "x"}}
            }  # fmt: skip
        elif op == "i":
            o = {"_id": MARK, "name": "x" * 24}
        if migrated:
            around["fromMigrate"] = True
        if session_id:
            around["lsid"] = Session(session_id, user).lsid
            around["txnNumber"] = Int64(-7)
            if image:
                around["needsRetryImage"] = "preImage"
            around["stmtId"] = 0
            around["prevOpTime"] = {"ts": Timestamp(0, 0), "t": Int64(-1)}
        raw = bson.encode(self._fields(op, ns, o, around, Ts(0, 0), 0))
        ids = [place for place in range(len(raw) - 8) if raw.startswith(_MARK, place)]
        number = raw.find(b"\x12txnNumber\0") + 11 if session_id else 0
        return _Template(raw, raw.index(b"\x11ts\0") + 4, raw.index(b"\x09wall\0") + 6, ids, number)
