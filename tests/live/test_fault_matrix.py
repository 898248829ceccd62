"""After every fault of the servers, new values come to every page by themselves, on either driver.

``make soak`` runs the whole matrix, prints it (``pytest -rP``) and bounds the seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_matrix import FAULTS, NO_OPLOG, PLACES, WITHIN_SECONDS, Fault, Watched, rig

pytestmark = [pytest.mark.live, pytest.mark.terminal]

BY_NAME = {fault.name: fault for fault in FAULTS}


def check(members: int, driver: str, home: Path, faults: list[Fault], places: tuple[str, ...] = ()) -> list[str]:
    """Let each fault happen in turn under dashboards at these places, and print how soon each showed new values.

    Every place must come back. Returned is what took longer than WITHIN_SECONDS.
    """
    shown = tuple(place for place in (PLACES if members else NO_OPLOG) if not places or place.name in places)
    late = []
    with rig(members) as servers, Watched(servers, driver, home, shown) as watched:
        for fault in faults:
            took = watched.suffer(fault)
            seconds = " | ".join(f"{name} {took[name]:.1f}" for name in took)
            print(f"{driver} | {members or 'standalone'} | {fault.name} | {seconds}")
            late += [f"{fault.name}, {name}: {took[name]:.1f} s" for name in took if took[name] > WITHIN_SECONDS]
            assert len(took) == len(shown), f"a dashboard never came back: {fault.name}"
    return late


@pytest.mark.parametrize("driver", ["pymongo", "motor"])
def test_one_member(driver: str, tmp_path: Path) -> None:
    """Half of the faults on each driver: all of them are in the soak form."""
    names = {
        "pymongo": ["frozen 15 s", "killed, back after 15 s", "all gone, back after 10 s"],
        "motor": ["killed, back after 6 s", "partition 15 s"],
    }[driver]
    check(1, driver, tmp_path, [BY_NAME[name] for name in names])


def test_three_members(tmp_path: Path) -> None:
    names = ["frozen 45 s", "step-down"]
    check(3, "pymongo", tmp_path, [BY_NAME[name] for name in names], ("counters", "oplog", "restore"))


@pytest.mark.soak
@pytest.mark.parametrize("driver", ["pymongo", "motor"])
@pytest.mark.parametrize("members", [0, 1, 3])
def test_every_fault_at_every_place(driver: str, members: int, tmp_path: Path) -> None:
    faults = [fault for fault in FAULTS if members == 3 or fault.name != "step-down"]
    assert not check(members, driver, tmp_path, faults)
