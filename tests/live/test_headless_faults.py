"""Every headless command ends within its deadline, with one sentence, on a server that is frozen, gone or cut off."""

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
SLACK_SECONDS = 30.0
"""For the interpreter to start and end on a busy machine, and for the client to close."""

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
@pytest.mark.parametrize("fault", ["frozen", "cut off", "gone"])
def test_each_command_ends_with_one_sentence(one_member: Rig, fault: str, driver: str, tmp_path: Path) -> None:
    servers, proxy = one_member.servers, one_member.proxies[0]
    lose, regain = {
        "frozen": (lambda: servers.freeze(0), lambda: servers.thaw(0)),
        "cut off": (proxy.cut, proxy.heal),
        "gone": (lambda: servers.kill(0), lambda: servers.restart(0)),
    }[fault]
    lose()
    try:
        began = time.monotonic()
        running = {
            name: subprocess.Popen(
                [sys.executable, "-m", "tallyglass_tui", *(word.format(backup=tmp_path) for word in words),
                 f"--timeout={TIMEOUT}", f"--driver={driver}", servers.uri],
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
                pytest.fail(f"{name} went on after its deadline")
            said = out if name == "check" else err
            assert len(said.splitlines()) == 1, (name, out, err)
            assert "Traceback" not in said
            assert process.returncode == 3, (name, said)
            assert name == "check" or not out, (name, out)
    finally:
        regain()
