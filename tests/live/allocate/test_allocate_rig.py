"""No id is issued twice: processes, threads and tasks on three members, through every fault; and a control."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import rig_worker
from pymongo import WriteConcern
from rig import Audit, Rig

from tallyglass.allocate import ARTICLE, AllocationError, Counter, Deadlines

pytestmark = pytest.mark.live

FAULTS = ("sigkill", "sigstop", "step_down", "partition", "reset", "kill_worker")


def check(audit: Audit) -> None:
    print(audit, audit.waiting(), sep="\n")
    assert (audit.duplicates, audit.missing, audit.gaps) == (0, 0, 0), audit
    assert 0 <= audit.lost <= audit.bound, audit


def test_no_id_twice_through_every_fault(tmp_path: Path) -> None:
    with Rig(tmp_path, processes=2, inserting=1) as rig:
        for name in FAULTS:
            rig.await_ids(5_000)
            rig.fault(name)
        rig.await_ids(5_000)
        assert rig.inserted() > 0
        check(rig.finish())


@pytest.mark.soak
def test_ten_million_ids(tmp_path: Path) -> None:
    with Rig(tmp_path, processes=6, inserting=2, seed=1) as rig:
        while rig.ids() < 10_000_000 or min(rig.faults[name] for name in FAULTS) < 5:
            rig.await_ids(100_000)
            rig.fault(rig.random.choice(FAULTS))
        rig.await_ids(100_000)
        audit = rig.finish()
        check(audit)
        assert audit.ids >= 10_000_000


@pytest.mark.soak
@pytest.mark.parametrize("unsafe", [None, WriteConcern(1)], ids=["majority", "w1"])
def test_a_primary_cut_off_with_its_clients(tmp_path: Path, unsafe: WriteConcern | None) -> None:
    """The control: with w: 1, which has to be asked for by name, this rig does find ids that were handed out twice."""
    with Rig(tmp_path, processes=0) as rig:
        cut_off: list[int] = []

        def take_on_its_side(index: int) -> None:
            with rig.servers.client(index) as client:
                ids = Counter(
                    client[rig_worker.DB].counters,
                    rig_worker.KEY,
                    layout=ARTICLE,
                    deadlines=Deadlines(3, 3),
                    unsafe_write_concern=unsafe,
                )
                with contextlib.suppress(AllocationError):
                    for _ in range(20):
                        cut_off.extend(ids.take(10))

        rig.partition_with(take_on_its_side)
        with rig.servers.client(w="majority") as client:
            after = Counter(client[rig_worker.DB].counters, rig_worker.KEY, layout=ARTICLE).take(100)
        twice = set(cut_off) & set(after)
        assert bool(twice) is (unsafe is not None), (cut_off, after)
