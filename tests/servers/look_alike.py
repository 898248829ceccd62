"""A proxy before a real MongoDB that plays another server: it edits answers, and refuses what that server refuses.

An entry of another version is written as a document of the collection :data:`ENTRIES`. In what is read from the oplog
its insert is replaced by that entry, with time, term and version of the insert: order and position stay real. A query
on the oplog is sent so that the server applies it to the entry within.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import bson
from proxy import HOST, Proxy

ENTRIES, OPLOG = "lab.entries", "local.oplog.rs"

_OP_REPLY, _OP_QUERY, _OP_MSG = 1, 2004, 2013
_MORE_TO_COME = 1 << 1
_KEPT = ("ts", "t", "v", "wall")

Document = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """How a server refuses a command; ``name`` in ``text`` is replaced by the command's."""

    code: int
    label: str
    text: str

    def answer(self, command: str) -> Document:
        return {"ok": 0.0, "errmsg": self.text.format(name=command), "code": self.code, "codeName": self.label}


@dataclass(frozen=True)
class Server:
    """A server that is played: what its answers say, by command, and what it refuses.

    A value of None removes a field. ``refuses`` returns the refusal of a command, or None if it is allowed.
    """

    name: str
    says: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    refuses: Callable[[str, Document], Refusal | None] = lambda command, body: None


class LookAlike(Proxy):
    """Plays ``server`` on ``port``, before the one at ``target``. ``refused`` are the commands that it refused."""

    def __init__(self, server: Server, target: int, port: int) -> None:
        self.server = server
        self.refused: list[str] = []
        self._requests = itertools.count(1_000_000)
        super().__init__(target, port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                far_reader, far_writer = await asyncio.open_connection(HOST, self.target)
                self._writers.add(far_writer)
                try:
                    await self._converse(reader, writer, far_reader, far_writer)
                finally:
                    self._writers.discard(far_writer)
                    far_writer.close()
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _converse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        while True:
            request = await _message(reader)
            body = _body(request)
            command = next(iter(body))
            refusal = self.server.refuses(command, body)
            if refusal:
                self.refused.append(command)
                writer.write(self._own_answer(request, refusal.answer(command)))
                continue
            far_writer.write(_asking_within(request, command, body))
            more = True
            while more:
                answer = await _message(far_reader)
                more = _opcode(answer) == _OP_MSG and bool(_flags(answer) & _MORE_TO_COME)
                writer.write(self._edited(answer, command))
                await writer.drain()

    def _own_answer(self, request: bytes, document: Document) -> bytes:
        asked = struct.unpack_from("<i", request, 4)[0]
        content = struct.pack("<I", 0) + b"\0" + bson.encode(document)
        return struct.pack("<iiii", 16 + len(content), next(self._requests), asked, _OP_MSG) + content

    def _edited(self, answer: bytes, command: str) -> bytes:
        start = 36 if _opcode(answer) == _OP_REPLY else 21
        size = struct.unpack_from("<i", answer, start)[0]
        document = bson.decode(answer[start : start + size])
        changed = dict(document)
        for name, value in self.server.says.get("hello" if command.lower() == "ismaster" else command, {}).items():
            if value is None:
                changed.pop(name, None)
            elif document.get("ok") == 1.0:
                changed[name] = value
        cursor = changed.get("cursor")
        if isinstance(cursor, dict) and cursor.get("ns") == OPLOG:
            changed["cursor"] = {
                name: [_played_entry(one) for one in value] if name in ("firstBatch", "nextBatch") else value
                for name, value in cursor.items()
            }
        if changed == document:
            return answer
        content = answer[16:start] + bson.encode(changed) + answer[start + size :]
        return struct.pack("<i", 16 + len(content)) + answer[4:16] + content


def _asking_within(request: bytes, command: str, body: Document) -> bytes:
    """The request, with a filter on the oplog that also finds what is played."""
    if command != "find" or f"{body.get('$db')}.{body['find']}" != OPLOG or not body.get("filter"):
        return request
    either = [
        {"$and": [{"ns": {"$ne": ENTRIES}}, body["filter"]]},
        {"$and": [{"ns": ENTRIES}, _within(body["filter"])]},
    ]
    content = request[16:20] + b"\0" + bson.encode({**body, "filter": {"$or": either}})
    return struct.pack("<i", 16 + len(content)) + request[4:16] + content


def _within(query: Document) -> Document:
    """The query on an entry as one on the insert of a document that holds it."""
    found: Document = {}
    for name, value in query.items():
        if name in ("$and", "$or", "$nor"):
            found[name] = [_within(one) for one in value]
        else:
            found[name if name in _KEPT else f"o.entry.{name}"] = value
    return found


def _played_entry(entry: Document) -> Document:
    if entry.get("ns") != ENTRIES or entry.get("op") != "i" or "o" not in entry:
        return entry
    return {**entry["o"]["entry"], **{name: entry[name] for name in _KEPT if name in entry}}


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(struct.unpack("<i", head)[0] - 4)


def _opcode(message: bytes) -> int:
    return int(struct.unpack_from("<i", message, 12)[0])


def _flags(message: bytes) -> int:
    return int(struct.unpack_from("<I", message, 16)[0])


def _body(request: bytes) -> Document:
    """The command of a request: the section of kind 0, or the query of the old handshake."""
    if _opcode(request) == _OP_QUERY:
        start = request.index(b"\0", 20) + 1 + 8
        return bson.decode(request[start : start + struct.unpack_from("<i", request, start)[0]])
    return next(_sections(request))


def _sections(request: bytes) -> Iterator[Document]:
    at = 20
    while at < len(request):
        kind, size = request[at], struct.unpack_from("<i", request, at + 1)[0]
        if kind == 0:
            yield bson.decode(request[at + 1 : at + 1 + size])
        at += 1 + size
