"""Memory use over a simulated day on a busy real server, with the clock of the counters running 720 times as fast."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallyglass.demo.server import ReplicaSet

pytestmark = [pytest.mark.live, pytest.mark.terminal, pytest.mark.soak]

SPEED = 720
DAY = 86_400 / SPEED
LIMIT_MB = 80.0
GROWTH_MB = 3.0
"""Allowed growth in the second half of the day: allocator noise, but not an unbounded buffer."""

FAST = f"""
import dataclasses, time, types
import tallyglass.counters.follow.watch as counters
began = time.time()
fast = types.SimpleNamespace(monotonic=time.monotonic, time=lambda: began + (time.time() - began) * {SPEED})
counters.time = fast
watch = counters.watch
counters.watch = lambda gateway, settings: watch(gateway, dataclasses.replace(settings, refresh_seconds=0.05))
"""


def resident_mb(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1000


def write(servers: ReplicaSet, stop: threading.Event) -> None:
    """Write to twenty counters and their documents, at most 100 batches a second, with occasional mass deletes."""
    with servers.client() as client:
        for turn in range(10**9):
            if stop.wait(0.01):
                return
            client.soak.counters.update_one({"_id": f"c{turn % 20}"}, {"$inc": {"seq": 1}}, upsert=True)
            client.soak.orders.insert_many([{"turn": turn, "n": n} for n in range(10)])
            if turn % 500 == 499:
                client.soak.orders.delete_many({})


def test_memory_is_bounded_over_a_day(open_terminal: Callable[..., Any]) -> None:
    stop = threading.Event()
    with ReplicaSet(1) as servers:
        writer = threading.Thread(target=write, args=(servers, stop))
        writer.start()
        try:
            terminal = open_terminal(servers.uri, setup=FAST)
            terminal.wait("c1 ")
            for key, text in (("3", "following"), ("i", "what happened"), ("4", "Incidents"), ("1", "ids left until")):
                terminal.press(key)
                terminal.wait(text)
            sizes = []
            for _ in range(20):
                time.sleep(DAY / 20)  # the simulated day
                terminal.press("3" if len(sizes) % 2 else "1")
                sizes.append(resident_mb(terminal.process.pid))
            print([round(size, 1) for size in sizes])
            terminal.press("q")
            assert terminal.wait_for_exit() == 0
        finally:
            stop.set()
            writer.join()
    assert max(sizes) < LIMIT_MB
    assert max(sizes[-3:]) - max(sizes[8:11]) < GROWTH_MB
