"""The dashboard notices a server that comes back with another version.

Only one server version is installed here, so a proxy rewrites the version in the server's replies. Nothing else of the
other version is tested.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from lost_screen import Open
from proxy import Proxy

from server_version import server_version
from tallyglass.demo import backup
from tallyglass.demo.server import HOST, ReplicaSet, free_port

pytestmark = [pytest.mark.live, pytest.mark.terminal]

WAS = server_version()
NOW = f"{int(WAS[0]) + 1}{WAS[1:]}"
WIRE = {"4": 9, "5": 13, "6": 17, "7": 21, "8": 25}


def version_fields(version: str) -> list[bytes]:
    """Return the fields of ``buildInfo`` and ``hello`` that depend on the version, as BSON."""
    parts = [*map(int, version.split(".")), 0]
    array = b"".join(b"\x10%d\0" % n + struct.pack("<i", part) for n, part in enumerate(parts)) + b"\0"
    return [
        b"\x02version\0" + struct.pack("<i", len(version) + 1) + version.encode() + b"\0",
        b"\x04versionArray\0" + struct.pack("<i", 4 + len(array)) + array,
        b"\x10maxWireVersion\0" + struct.pack("<i", WIRE[version[0]]),
    ]


def test_notices_a_changed_server_version(open_on: Open, tmp_path: Path) -> None:
    with ReplicaSet(1) as servers, Proxy(servers.members[0].port, free_port()) as proxy, servers.client() as client:
        assert client.server_info()["version"] == WAS
        client.shop.orders.insert_many([{"_id": n} for n in range(200)])
        kept = backup.write(client, tmp_path / "backup")
        client.shop.orders.delete_many({})

        terminal = open_on(f"mongodb://{HOST}:{proxy.port}/?directConnection=true")
        terminal.wait(f" {WAS} P* · ")
        terminal.press("4")
        terminal.wait("deleteMany on shop.orders")
        terminal.press("\r")
        terminal.wait("Backup: ")
        terminal.press(f"{kept}\r")
        terminal.wait(lambda text: " can come back" in text and f"MongoDB {WAS}." in text)

        proxy.rewritten = list(zip(version_fields(WAS), version_fields(NOW), strict=True))
        proxy.reset()
        terminal.wait(lambda text: f" {NOW} P* · " in text and f"the server is {NOW} now: r plans again" in text)
        terminal.press("r")
        terminal.wait(lambda text: "blocked by " in text and f"the source runs {NOW}." in text)

        proxy.rewritten = []
        proxy.reset()
        terminal.wait(lambda text: f" {WAS} P* · " in text and f"the server is {WAS} now: r plans again" in text)
        terminal.press("r")
        terminal.wait(lambda text: " can come back" in text and NOW not in text)
