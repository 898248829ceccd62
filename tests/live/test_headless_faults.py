"""Every headless command exits within its deadline with one sentence if its server is frozen, killed or unreachable."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_matrix import Rig, rig

pytestmark = pytest.mark.live

TIMEOUT = 12.0
SLACK_SECONDS = 300.0
"""Time for the interpreters to start and exit on a busy machine, and for the clients to close."""

HANGS = "&socketTimeoutMS=3600000"
"""What waits for a socket hangs for longer than that, so that it is noticed however slow the machine is."""

COMMANDS = {
    "counters": ["counters"],
    "check": ["check"],
    "doctor": ["doctor"],
    "incidents": ["incidents"],
    "oplog": ["oplog", "--since=now-1h"],
    "follow": ["oplog", "--follow"],
    "prepare": ["restore", "prepare"],
    "plan": ["restore", "plan", "--backup={backup}", "--incident=1"],
}


@pytest.fixture(scope="module")
def one_member() -> Iterator[Rig]:
    with rig(1) as servers:
        servers.write()
        yield servers


@pytest.mark.parametrize("driver", ["pymongo", pytest.param("motor", marks=pytest.mark.soak)])
@pytest.mark.parametrize("fault", ["frozen", "cut off", "killed"])
def test_each_command_exits_with_one_sentence(one_member: Rig, fault: str, driver: str, tmp_path: Path) -> None:
    servers, proxy = one_member.servers, one_member.proxies[0]
    lose, regain = {
        "frozen": (lambda: servers.freeze(0), lambda: servers.thaw(0)),
        "cut off": (proxy.cut, proxy.heal),
        "killed": (lambda: servers.kill(0), lambda: servers.restart(0)),
    }[fault]
    lose()
    try:
        began = time.monotonic()
        running = {
            name: subprocess.Popen(
                [sys.executable, "-m", "tallyglass_tui", *(word.format(backup=tmp_path) for word in words),
                 f"--timeout={TIMEOUT}", f"--driver={driver}", servers.uri + HANGS],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for name, words in COMMANDS.items()
        }  # fmt: skip
        for name, process in running.items():
            try:
                out, err = process.communicate(timeout=max(TIMEOUT + SLACK_SECONDS - (time.monotonic() - began), 1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                pytest.fail(f"{name} did not exit by its deadline")
            output = out if name == "check" else err
            lines = [line for line in output.splitlines() if " local, " not in line]  # which echoes a typed time
            assert len(lines) == 1, (name, out, err)
            assert "Traceback" not in output
            assert process.returncode == 3, (name, output)
            assert name == "check" or not out, (name, out)
    finally:
        regain()
