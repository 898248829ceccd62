"""After every server fault, all views of the dashboard show new values again, with either driver.

``make soak`` runs the whole matrix, prints it (``pytest -rP``) and limits the time to recover.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_matrix import FAULTS, NO_OPLOG, PLACES, WITHIN_SECONDS, Fault, WatchedDashboards, rig

pytestmark = [pytest.mark.live, pytest.mark.terminal]

BY_NAME = {fault.name: fault for fault in FAULTS}


def check(members: int, driver: str, home: Path, faults: list[Fault], places: tuple[str, ...] = ()) -> list[str]:
    """Cause each fault under dashboards in these views, and print how soon each showed new values.

    Every view must recover. Returns those that took longer than WITHIN_SECONDS.
    """
    shown = tuple(place for place in (PLACES if members else NO_OPLOG) if not places or place.name in places)
    late = []
    with rig(members) as servers, WatchedDashboards(servers, driver, home, shown) as watched:
        for fault in faults:
            took = watched.seconds_to_recover(fault)
            seconds = " | ".join(f"{name} {took[name]:.1f}" for name in took)
            print(f"{driver} | {members or 'standalone'} | {fault.name} | {seconds}")
            late += [f"{fault.name}, {name}: {took[name]:.1f} s" for name in took if took[name] > WITHIN_SECONDS]
            assert len(took) == len(shown), f"a dashboard did not recover: {fault.name}"
    return late


@pytest.mark.parametrize(
    ("driver", "faults", "places"),
    [
        (
            "pymongo",
            ("frozen 15 s", "killed, back after 15 s", "all killed, back after 10 s"),
            ("a counter's detail", "oplog", "restore", "palette"),
        ),
        (
            "motor",
            ("killed, back after 6 s", "partition 15 s"),
            ("counters", "objectids", "an entry's detail", "help"),
        ),
    ],
    ids=["pymongo", "motor"],
)
def test_recovers_on_one_member(driver: str, faults: tuple[str, ...], places: tuple[str, ...], tmp_path: Path) -> None:
    """Cover every fault, view and driver, but not every combination. The soak test runs the whole matrix."""
    check(1, driver, tmp_path, [BY_NAME[name] for name in faults], places)


def test_recovers_on_three_members(tmp_path: Path) -> None:
    names = ["frozen 45 s", "step-down"]
    check(3, "pymongo", tmp_path, [BY_NAME[name] for name in names], ("counters", "oplog"))


@pytest.mark.soak
@pytest.mark.parametrize("driver", ["pymongo", "motor"])
@pytest.mark.parametrize("members", [0, 1, 3])
def test_recovers_from_every_fault_in_every_view(driver: str, members: int, tmp_path: Path) -> None:
    faults = [fault for fault in FAULTS if members == 3 or fault.name != "step-down"]
    assert not check(members, driver, tmp_path, faults)
