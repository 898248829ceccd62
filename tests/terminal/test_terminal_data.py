"""Hostile names and documents have no effect on the terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from bson import Int64

from tallyglass.demo.server import ReplicaSet

pytestmark = pytest.mark.terminal

Open = Callable[..., Any]

# All sequences that Textual and the driver send: cursor, colours, modes, queries, keyboard, erase.
ALLOWED = re.compile(
    rb"\x1b\[(?:\d+;\d+H|[\d;]*m|\?(?:1049|25|1004|2004|7|2026|2048|1000|1003|1006|1015)[hl]|\?(?:2026|2048)\$p"
    rb"|[<>]\d*u|[\d;]*[JK])"
)
PAYLOADS = (
    "\x1b]52;c;cHduZWQ=\x07",
    "\x1b[2J\x1b[Hspoof",
    "\x9d0;title\x9c",
    "\x1b]8;;http://x\x1b\\link",
    "\x1bP$q\x1b\\",
    "[@click=app.quit]x[/]",
    "[/red] [red",
    "\u202egnp.exe\u2066",
    "a\u0301\u0302\u0303\u0304\u0305",
    "\u3164\ufeff\u200b",
    "宽字符 👩‍👩‍👧 e",
    "\r\nover\b\b\x7f\x00",
    "x" * 200_000,
)


def test_shows_hostile_names_and_documents_without_effect(replica_set: ReplicaSet, open_terminal: Open) -> None:
    with replica_set.client() as client:
        db = client["evil\x1b[31m"]
        try:
            counters = db["counters"]
            counters.insert_many([{"_id": payload[:500], "seq": Int64(n)} for n, payload in enumerate(PAYLOADS)])
            others = db["x\x1b]0;p\x07[/red]"]
            others.insert_many(
                [{"_id": n, payload.replace("\0", "")[:500]: payload} for n, payload in enumerate(PAYLOADS)]
            )
            terminal = open_terminal(replica_set.uri)
            terminal.wait(r"evil\u{1")
            terminal.press("\r")
            terminal.wait("ceiling")
            terminal.press("\x1b")
            terminal.wait("ids left until")
            terminal.press("3")
            terminal.wait("following")
            others.insert_one({"_id": PAYLOADS[0], "v": PAYLOADS})
            terminal.wait(r"\u{1b}]52")
            for _ in range(6):
                terminal.press("k\r")
                terminal.wait("--oplogLimit=")
                terminal.press("y\x1b")
                terminal.wait(lambda text: "--oplogLimit=" not in text)
            terminal.press("a")
            terminal.wait("over 5 min")
            terminal.press("i")
            terminal.wait("what happened")
            terminal.press("1q")
            assert terminal.wait_for_exit() == 0
            check_bytes(bytes(terminal.raw))
        finally:
            client.drop_database("evil\x1b[31m")


def check_bytes(raw: bytes) -> None:
    """Assert that a stream holds only plain text, allowed sequences and the app's own clipboard sequences."""
    raw = re.sub(
        rb"\x1b\]52;c;[A-Za-z0-9+/=]+\x07", lambda found: b"" if b"cHduZWQ=" not in found[0] else found[0], raw
    )
    text = ALLOWED.sub(b"", raw).decode("utf-8")
    strange = {hex(ord(char)) for char in text if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0} - {"0xa", "0xd"}
    assert not strange
    assert not {char for char in text if char in "\u202e\u2066\u200b\ufeff\u3164"}


def test_check_bytes_finds_planted_sequences() -> None:
    for leak in (b"\x1b]52;c;cHduZWQ=\x07", b"\x1b[2;5t", b"\xc2\x9d0;t", b"a\x08", "\u202e".encode()):
        with pytest.raises(AssertionError):
            check_bytes(b"\x1b[1;1Hfine" + leak)
