"""When something recurs: the bitmaps of slots and the rule, against sets of numbers and the rule in plain words."""

from __future__ import annotations

import random
from itertools import accumulate, groupby

import pytest

from tallyglass.oplog.incidents.burst import Burst
from tallyglass.oplog.incidents.families import Scale
from tallyglass.oplog.incidents.recurrence import Judgment, Reason, Recurrence, Slots, Window, interval, often

SLOT = 10_000
Seen = tuple[int, int, int]


def runs_of(numbers: set[int]) -> list[tuple[int, int]]:
    groups = [
        [n for _, n in group] for _, group in groupby(enumerate(sorted(numbers)), key=lambda one: one[1] - one[0])
    ]
    return [(group[0], group[-1]) for group in groups]


def test_slots_are_a_set_of_numbers() -> None:
    rng = random.Random(1)
    for _ in range(200):
        begin = rng.choice((0, 300, 359, 700))
        numbers = {begin + n for n in rng.sample(range(rng.choice((4, 30, 800))), rng.randrange(4))}
        numbers |= {n + 1 for n in numbers if rng.random() < 0.7}
        half, slots, rest = set(rng.sample(sorted(numbers), len(numbers) // 2)), Slots(), Slots()
        for run in runs_of(half):
            slots.add(*run)
        for run in runs_of(numbers - half):
            rest.add(*run)
        slots.unite(rest)
        first, last = min(numbers, default=0), max(numbers, default=0)
        assert (len(slots), slots.ends, slots.span_millis) == (len(numbers), (first, last), (last - first) * SLOT)
        assert list(slots.stretches) == runs_of(numbers)
        low = rng.randrange(begin, begin + 40)
        high = low + rng.choice((0, 1, 5, 400))
        left = slots.without(low, high)
        assert list(left.stretches) == runs_of(numbers - set(range(low, high + 1)))
        assert len(slots) == len(numbers)


def test_what_seems_to_last_for_ages_is_seen_for_a_year() -> None:
    slots = Slots()
    slots.add(7, 10**15)
    assert list(slots.stretches) == [(7, 366 * 24 * 360 + 359)]  # to the end of an hour


def in_ten_seconds(size: int, first: int, last: int) -> int:
    return size * SLOT // (last - first) if last - first > SLOT else size


def is_similar(size: int, other: int) -> bool:
    """Whether another size is at least a quarter, by classes of which a power of two has four."""
    return (other**4).bit_length() >= (size**4).bit_length() - 8


def judged(seen: list[Seen], size: int, first: int, last: int, window: Window) -> Judgment:
    size = in_ten_seconds(size, first, last)
    slots = {
        slot
        for other, begin, end in seen
        if is_similar(size, in_ten_seconds(other, begin, end))
        for slot in range(begin // SLOT, max(begin, end) // SLOT + 1)
    }
    others = slots - set(range(first // SLOT, last // SLOT + 1))
    for low, high in runs_of(slots):
        short = (high - low) * SLOT < window.millis / 4
        over = (high + 1) * SLOT < window.end - max(SLOT, (high - low) * SLOT // 4)
        if low <= first // SLOT <= high and short and over and len(slots) - (high - low + 1) < 3:
            return Judgment(len(others), apart=len(slots - set(range(low, high + 1))))
    spread = len(others) >= 3 and (max(others) - min(others)) * SLOT >= window.millis / 4
    return Judgment(len(others), Reason.RECURS if spread or len(others) >= 15 else None, len(others))


def test_what_recurs_is_judged_by_the_others_of_similar_size() -> None:
    rng, reasons = random.Random(2), set[tuple[bool, bool]]()
    for _ in range(1_500):
        begin = rng.randrange(100) * 1_000
        window = Window(begin, begin + rng.choice((70, 120, 160, 240, 800, 2_000)) * 1_000)
        seen: list[Seen] = []
        for _ in range(rng.choice((1, 2, 4, 5, 6, 20))):
            at = rng.randrange(window.begin, window.end)
            lasts = rng.choice((0, 0, 900, 9_999, 10_000, 10_001, 25_000, 160_000))
            seen.append((rng.choice((1, 2, 5, 7, 8, 20, 80)), at, at + lasts))
        parts = Recurrence(), Recurrence()
        parts[0].add(*seen[::2])
        for size, first, last in seen[1::2]:
            parts[1].add((size, first, last))
        parts[0].unite(parts[1])
        for size, first, last in seen[:3]:
            found, wanted = parts[0].judge((size, first, last), window), judged(seen, size, first, last, window)
            assert found.reason == wanted.reason
            assert found.reason or found == wanted
            reasons.add((bool(found.reason), found.others == found.apart))
    assert len(reasons) == 3


def test_what_something_else_explains_does_not_recur_and_batches_have_their_whole_size() -> None:
    window, day = Window(0, 86_400_000), range(0, 80_000_000, 8_000_000)
    found = Recurrence()
    found.add(*((50, at, at) for at in day))
    assert found.judge((50, 8_000_000, 8_000_000), window).reason is Reason.RECURS
    found.remove([Burst(0, 0, at, at + 9, 50, 50) for at in day[2:]])
    assert found.judge((50, 8_000_000, 8_000_000), window) == Judgment(1, None, 1)
    slow = Recurrence()
    slow.add_throughout((400, 0, 39_999))
    assert slow.judge((1_600, 60_000, 60_000), window) == Judgment(4, None, 4)
    assert slow.judge((2_000, 60_000, 60_000), window) == Judgment(0, None, 0)


@pytest.mark.parametrize(
    ("gaps", "every"),
    [
        ([10, 10], 0),
        ([9, 10, 11], 10),
        ([8, 10, 11], 0),
        ([9, 9, 10, 11], 10),
        ([10] * 9 + [99], 10),
        ([10] * 8 + [99], 0),
        ([1] + [10] * 8 + [99], 10),
        ([1] * 2 + [10] * 8, 0),
        ([], 0),
    ],
)
def test_an_interval_has_gaps_that_are_alike_but_for_one_in_ten(gaps: list[int], every: int) -> None:
    assert interval(reversed([*accumulate(gaps, initial=5)])) == every


def test_how_often_something_recurs_in_words() -> None:
    told = [often(1, 0), often(2, 0), often(1, 60_000), often(1_500, 90_600)]
    assert told == ["", "2 times", "about every 60 s", "1,500 times, about every 91 s"]


def test_a_window_of_less_than_five_minutes_is_young_and_none_is_shorter_than_a_minute() -> None:
    windows = [Window(5, 10), Window(7, 60_008), Window(0, 299_999), Window(0, 300_000)]
    assert [(one.millis, one.is_young) for one in windows] == [
        (60_000, True), (60_001, True), (299_999, True), (300_000, False),
    ]  # fmt: skip


@pytest.mark.parametrize("least", [1, 5])
def test_a_family_keeps_its_largest_bursts_in_whatever_order_they_are_closed(least: int) -> None:
    rng = random.Random(3)
    bursts = [
        Burst(n << 32, n << 32, n * 20_000, n * 20_000, size, size, batch=rng.choice((0, 1, 4)))
        for n, size in enumerate(rng.choices(range(1, 40), k=700), 1)
    ]
    largest = sorted((one for one in bursts if one.documents >= least), key=lambda one: one.rank)[:256]
    for order in (bursts, bursts[::-1], rng.sample(bursts, len(bursts))):
        scale = Scale(50, last_rank=(-least, 1 << 32))
        for one in order:
            scale.close(one)
        assert scale.bursts() == sorted(largest, key=lambda one: one.first)
        assert (scale.count, scale.forgotten) == (700, largest[-1].documents)
        batches = {one.first_wall // SLOT for one in bursts if one.batch == 4}
        assert scale.all_batches().judge((16, 0, 0), Window(0, 10**9)).others == len(batches)


def test_a_family_that_keeps_all_of_them_has_forgotten_none() -> None:
    scale = Scale(50)
    for n, size in enumerate((3, 7, 9), 1):
        scale.extend([Burst(n << 32, n << 32, n * 1_000, n * 1_000, size, size)])
    assert [one.documents for one in scale.bursts()] == [3, 7, 9]
    assert (scale.count, [one.documents for one in scale.ends], scale.forgotten) == (1, [3, 9], 0)
    assert scale.batches is None
    seen = scale.all_seen().judge((12, 90_000, 90_000), Window(0, 10**9))
    assert (seen.others, seen.apart) == (1, 1)
