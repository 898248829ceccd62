"""The ports of embedded servers: free, and never an ephemeral port."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tallyglass.demo import mongod_process


def test_a_port_is_not_one_for_outgoing_connections() -> None:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text().split()[0]) if setting.exists() else 49152
    assert all(mongod_process.free_port() < first for _ in range(50))


def test_a_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((mongod_process.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(mongod_process, "_PORTS", range(port, port + 1))
        assert mongod_process.free_port() != port
