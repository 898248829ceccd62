"""UUIDs: the right bits, the right order, the right subtype."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from functools import reduce
from itertools import pairwise
from operator import and_, or_

import pytest
from bson.binary import Binary, UuidRepresentation

from tallyglass.allocate import Uuid7, Version, new_binary, new_object_id, new_uuid, read_uuid, to_binary
from tallyglass.allocate.uuids import Uuid1


def test_version_7_ascends_also_within_a_millisecond_and_when_the_clock_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Uuid7()
    ids = [made.next() for _ in range(20_000)]
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    ids += [made.next() for _ in range(20_000)]
    assert all(a < b for a, b in pairwise(ids))
    assert all(one.version == 7 and one.variant == uuid.RFC_4122 for one in ids[:100])
    tails = [one.int & (1 << 62) - 1 for one in ids]
    assert (reduce(or_, tails), reduce(and_, tails)) == ((1 << 62) - 1, 0), "each of the 62 bits is random"


def test_version_7_counts_within_a_millisecond_and_borrows_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000)
    made = Uuid7()
    ids = [made.next() for _ in range(2**12 + 2)]
    heads = [(one.int >> 80, one.int >> 64 & 0xFFF) for one in ids]
    assert heads == [*((5, n) for n in range(2**12)), (6, 0), (6, 1)]
    made.reset_after_fork()
    assert made.next().int >> 64 & 0xFFF == 0


def test_version_7_begins_with_the_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    value = new_uuid(Version.V7)
    assert before <= value.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_threads_never_share_a_uuid() -> None:
    made, seen = Uuid7(), set()

    def take() -> None:
        own = [made.next() for _ in range(5_000)]
        assert own == sorted(own)
        seen.update(own)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 20_000


def test_version_1_is_its_own_in_each_process_and_ascends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now)
    made = Uuid1()
    first, second = made.next(), made.next()
    assert (first.time - 0x01B21DD213814000, second.time - first.time) == (now // 100, 1)
    assert (first.version, first.variant) == (1, uuid.RFC_4122)
    assert (first.node, first.clock_seq) == (second.node, second.clock_seq)
    drawn = []
    for _ in range(200):
        made.reset_after_fork()
        child = made.next()
        assert (child.time, child.node >> 40 & 1) == (first.time, 1), "no network card has this bit"
        drawn.append(child.clock_seq << 48 | child.node)
    assert (reduce(or_, drawn), reduce(and_, drawn)) == ((1 << 62) - 1, 1 << 40), "all other bits are random"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_never_repeats_a_version_1() -> None:
    program = """
import os
from tallyglass.allocate import Version, new_uuid
new_uuid(Version.V1)
read, write = os.pipe()
child = os.fork()
own = b"".join(new_uuid(Version.V1).bytes for _ in range(20_000))
if not child:
    with os.fdopen(write, "wb") as pipe:
        pipe.write(own)
    os._exit(0)
os.close(write)
with os.fdopen(read, "rb") as pipe:
    own += pipe.read()
print(len({own[at : at + 16] for at in range(0, len(own), 16)}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "40000\n"


@pytest.mark.parametrize("version", list(Version))
def test_binary_is_subtype_4_and_reads_back(version: Version) -> None:
    value = new_uuid(version)
    assert value.version == version
    assert to_binary(value).subtype == new_binary(version).subtype == 4
    assert read_uuid(to_binary(value)) == value


@pytest.mark.parametrize("version", [1, 4, 7])
def test_a_version_may_be_a_plain_number(version: int) -> None:
    assert new_uuid(version).version == version  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a valid Version"):
        new_uuid(version + 1)  # type: ignore[arg-type]


def test_subtype_3_needs_the_driver_that_wrote_it() -> None:
    value = uuid.uuid4()
    for name in ("python", "java", "csharp"):
        legacy = Binary.from_uuid(value, getattr(UuidRepresentation, f"{name.upper()}_LEGACY"))
        assert legacy.subtype == 3
        assert read_uuid(legacy, written_by=name) == value
        with pytest.raises(ValueError, match="written_by"):
            read_uuid(legacy)


def test_object_ids_ascend_within_a_process() -> None:
    first, second = new_object_id(), new_object_id()
    assert first < second
    assert len(first.binary) == 12
