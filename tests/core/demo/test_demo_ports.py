"""The ports of embedded servers: free, and never an ephemeral port."""

from __future__ import annotations

import socket
from pathlib import Path
from unittest.mock import Mock

import pytest

from tallyglass.demo import mongod_process
from tallyglass.demo.mongod_process import MongodProcess
from tallyglass.errors import EmbeddedServerError


def test_a_port_is_not_one_for_outgoing_connections() -> None:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text().split()[0]) if setting.exists() else 49152
    assert all(mongod_process.free_port() < first for _ in range(50))


def test_a_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((mongod_process.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(mongod_process, "_PORTS", range(port, port + 1))
        assert mongod_process.free_port() != port


def test_the_port_of_a_server_that_is_killed_is_not_given_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongod_process, "_PORTS", range(12_000, 12_200))
    ports = [mongod_process.free_port() for _ in range(50)]
    assert len(set(ports)) == 50


def test_a_server_is_not_ready_while_another_program_answers_on_its_port(tmp_path: Path) -> None:
    with socket.create_server((mongod_process.HOST, 0)) as other, socket.socket(socket.AF_UNIX) as bound:
        process = Mock(poll=Mock(side_effect=[None, 48]), returncode=48)
        server = MongodProcess(other.getsockname()[1], tmp_path, process)
        bound.bind(str(server.socket_file))  # and does not listen: mongod does that after its port
        (tmp_path / "stderr").touch()
        with pytest.raises(EmbeddedServerError, match="exited with status 48"):
            server.await_ready()
