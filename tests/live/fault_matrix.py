"""Measure how soon after a server fault the dashboard shows new values again, in each of its views."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lost_screen import SINCE
from proxy import Proxy
from pymongo.errors import AutoReconnect

from pseudo_terminal import Terminal, dashboard, environment
from tallyglass.demo.server import ReplicaSet, Servers, Standalone, free_port

COLLECTIONS = 11
"""Enough for several concurrent reads; one collection of counters would never cause more than one."""

WITHIN_SECONDS = 10.0
"""The limit from the end of a fault, when new values are written, until they are on the screen."""

_UP_SECONDS = 90.0
_ELECTIONS = 3
"""A write is tried so often: the primary may change between the question which it is and the write."""


@dataclass(frozen=True, slots=True)
class Place:
    """A view of the dashboard: the keys that lead to it, a text that it shows, and the keys back to live data."""

    name: str
    keys: str
    shows: str
    back: str = ""
    live: str = "counters"
    """What must appear after a fault: ``counters`` a new value, ``oplog`` a new entry, ``banner`` no error."""


PLACES = (
    Place("counters", "1", "faults0"),
    Place("a counter's detail", "1\r", "faults", live="counters"),
    Place("objectids", "2", "Paste any text", live="banner"),
    Place("oplog", "3", "faults0", live="oplog"),
    Place("an entry's detail", "3\r", "faults0", back="\x1b", live="oplog"),
    Place("restore", "4", "", live="banner"),
    Place("help", "1?", "", back="\x1b"),
    Place("palette", "1:", "", back="\x1b"),
)
NO_OPLOG = tuple(place for place in PLACES if place.live == "counters" or place.name == "objectids")


@dataclass(slots=True)
class Rig:
    """Servers, each member behind its own proxy, and the value last written to them."""

    servers: Servers
    proxies: list[Proxy]
    value: int = 741_000

    @property
    def primary(self) -> int:
        return self.servers.await_primary() if isinstance(self.servers, ReplicaSet) else 0

    def write(self) -> None:
        """Set the counter in every collection to a new value, and insert into a new collection, with durable writes."""
        self.value += 1
        for attempt in range(_ELECTIONS):
            try:
                self._write()
                return
            except AutoReconnect:
                if attempt == _ELECTIONS - 1:
                    raise

    def _write(self) -> None:
        with self.servers.client(self.primary, wtimeoutMS=60_000) as client:
            for number in range(COLLECTIONS):
                client[f"faults{number}"].counters.update_one(
                    {"_id": "orders"}, {"$set": {"seq": self.value}}, upsert=True
                )
            client.faults0[f"marker_{self.value}"].insert_one({})

    def each(self, act: Callable[[int], None]) -> None:
        """Call ``act`` for every member concurrently."""
        threads = [threading.Thread(target=act, args=(index,)) for index in range(len(self.servers.members))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@contextmanager
def rig(members: int) -> Iterator[Rig]:
    """Start a replica set of ``members``, or a standalone for 0, each member behind a proxy."""
    count = max(members, 1)
    fronts, backs = [free_port() for _ in range(count)], [free_port() for _ in range(count)]
    proxies = [Proxy(back, front) for back, front in zip(backs, fronts, strict=True)]
    try:
        how = {"ports": backs, "advertised": fronts}
        with ReplicaSet(members, **how) if members else Standalone(**how) as servers:
            yield Rig(servers, proxies)
    finally:
        for proxy in proxies:
            proxy.close()


@contextmanager
def frozen(rig: Rig, seconds: float) -> Iterator[None]:
    index = rig.primary
    rig.servers.freeze(index)
    time.sleep(seconds)
    rig.servers.thaw(index)
    yield


@contextmanager
def killed(rig: Rig, seconds: float) -> Iterator[None]:
    index = rig.primary
    rig.servers.kill(index)
    time.sleep(seconds)
    rig.servers.restart(index)
    yield


@contextmanager
def partitioned(rig: Rig, seconds: float) -> Iterator[None]:
    for proxy in rig.proxies:
        proxy.cut()
    time.sleep(seconds)
    for proxy in rig.proxies:
        proxy.heal()
    yield


@contextmanager
def all_killed(rig: Rig, seconds: float) -> Iterator[None]:
    rig.each(rig.servers.kill)
    time.sleep(seconds)
    rig.each(rig.servers.restart)
    yield


@contextmanager
def stepped_down(rig: Rig, seconds: float) -> Iterator[None]:
    assert isinstance(rig.servers, ReplicaSet)
    rig.servers.step_down(int(seconds))
    yield


@dataclass(frozen=True, slots=True)
class Fault:
    """A server fault. Entering ``happen`` causes it and returns after it has ended."""

    name: str
    happen: Callable[[Rig, float], object]
    seconds: float


FAULTS = (
    Fault("frozen 15 s", frozen, 15),
    Fault("frozen 45 s", frozen, 45),
    Fault("killed, back after 6 s", killed, 6),
    Fault("killed, back after 15 s", killed, 15),
    Fault("partition 15 s", partitioned, 15),
    Fault("all killed, back after 10 s", all_killed, 10),
    Fault("step-down", stepped_down, 30),
)


@dataclass(slots=True)
class WatchedDashboards:
    """Dashboards with one driver on one rig, one per view."""

    rig: Rig
    driver: str
    home: Path
    places: tuple[Place, ...]
    terminals: dict[str, Terminal] = field(default_factory=dict)

    def __enter__(self) -> WatchedDashboards:
        self.rig.write()
        for place in self.places:
            env = environment(self.home, TALLYGLASS_URI=self.rig.servers.uri, TALLYGLASS_DRIVER=self.driver)
            self.terminals[place.name] = Terminal(dashboard(), env, size=(120, 40), frames=True)
        for place in self.places:
            terminal = self.terminals[place.name]
            terminal.wait("faults0", _UP_SECONDS)
        self.rig.write()
        for place in self.places:
            self._await_live(self.terminals[place.name], Place("counters", "", ""), _UP_SECONDS)
            self._go(place)
        return self

    def __exit__(self, *_: object) -> None:
        for terminal in self.terminals.values():
            terminal.close()

    def _go(self, place: Place) -> None:
        terminal = self.terminals[place.name]
        for key in place.keys:
            terminal.press(key)
            if key == "3":
                terminal.wait("marker_", _UP_SECONDS)
        terminal.wait(lambda text: place.shows in text, _UP_SECONDS)

    def seconds_to_recover(self, fault: Fault) -> dict[str, float]:
        """Cause a fault and return, per view, the seconds from the first write after it until the screen shows it."""
        with fault.happen(self.rig, fault.seconds):  # type: ignore[attr-defined]
            self.rig.write()
        began = time.monotonic()
        for place in self.places:
            if place.back:
                self.terminals[place.name].press(place.back)
        took: dict[str, float] = {}

        def watch(place: Place) -> None:
            self._await_live(self.terminals[place.name], place, _UP_SECONDS)
            took[place.name] = time.monotonic() - began

        threads = [threading.Thread(target=watch, args=(place,)) for place in self.places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for place in self.places:
            if place.back:
                self._go(place)
        return took

    def _await_live(self, terminal: Terminal, place: Place, seconds: float) -> None:
        value = self.rig.value
        holds: Callable[[str], object] = {
            "counters": lambda text: f"{value:,}" in text and not SINCE.search(text),
            "oplog": lambda text: f"marker_{value} " in text and not SINCE.search(text),
            "banner": lambda text: not SINCE.search(text),
        }[place.live]
        terminal.wait(holds, seconds)
