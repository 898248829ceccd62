"""Many counters of one kind, as one row: what is kept of all of them, and which are followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson import Int64

from tallyglass.counters.follow.collection import CounterCollection
from tallyglass.counters.follow.group import Group, group_above
from tallyglass.counters.history.oplog_samples import PastValue
from tallyglass.counters.snapshot import CounterView, Flag, NumericType
from tallyglass.mongo.gateway import Namespace

T0 = 1_795_000_000.0
ABOVE = 40


class Tenants:
    """A collection with a counter for each tenant, of which more than 40 are a group."""

    def __init__(self, name: str = "counters") -> None:
        self.collection = CounterCollection(Namespace("shop", name), group_above=ABOVE)

    def look(self, at: float, values: dict[str, Any]) -> list[CounterView]:
        async def rows() -> AsyncIterator[dict[str, Any]]:
            for name, value in values.items():
                yield {"_id": name, "seq": value}

        asyncio.run(self.collection.observe(rows(), at))
        return [tracker.view() for tracker in self.collection.trackers]

    @property
    def group(self) -> Group:
        (group,) = self.collection.groups.values()
        return group

    def followed(self) -> list[str]:
        return sorted(map(str, self.group.followed))


def tenants(count: int) -> dict[str, Any]:
    return {f"t{n:03}": 100 + n for n in range(count)}


@pytest.mark.parametrize(("count", "rows"), [(ABOVE, ABOVE), (ABOVE + 1, 1)])
def test_more_than_so_many_are_one_row(count: int, rows: int) -> None:
    shop = Tenants()
    shop.collection.has_past = True
    assert len(shop.look(T0, tenants(count))) == rows
    # Of a new row the past is sought.
    assert shop.collection.has_past == (rows > 1)


def test_the_row_has_the_sum_the_largest_and_how_much_all_have_used() -> None:
    shop, values = Tenants(), tenants(50)
    values |= {"t000": Int64(2**63 - 1), "t001": Int64(2**62), "t002": Int64(2**61), "t003": -5}
    (view,) = shop.look(T0, values)
    members = view.members
    assert members is not None
    assert (view.id, view.value, view.used, view.ceiling, view.crossing) == (
        "50 counters", sum(values.values()), 1.0, None, None,
    )  # fmt: skip
    assert view.forecast.note == "Each member has its own end; see the worst ones."
    assert (members.count, {share: count for share, count in enumerate(members.used) if count}) == (
        50, {0: 47, 25: 1, 50: 1, 100: 1},
    )  # fmt: skip
    assert (len(members.used), members.above(0.5), members.above(0.9), members.above(0.0)) == (101, 2, 1, 50)
    # A tenth of the limit, and the one at its end comes first.
    assert shop.followed() == ["t000", "t001", "t002", "t049"]
    assert [one.id for one in members.worst] == ["t000", "t001", "t002", "t049"]
    assert set(view.flags) == {Flag.STALLED, Flag.FULL}


def test_members_that_change_are_followed_and_those_that_fall_have_their_flag() -> None:
    shop, values = Tenants(), tenants(50)
    shop.look(T0, values)
    shop.look(T0 + 10, values | {"t005": 110, "t006": 50})
    assert shop.followed() == ["t005", "t006", "t046", "t047", "t048", "t049"]
    (view,) = shop.look(T0 + 20, values | {"t005": 120, "t006": 50})
    assert view.members is not None
    worst = view.members.worst[0]
    assert (worst.id, worst.flags, worst.value, view.flags) == ("t006", (Flag.REWOUND,), 50, (Flag.REWOUND,))
    risen = next(one for one in view.members.worst if one.id == "t005")
    assert risen.rate == pytest.approx(0.75)
    assert risen.recent == (0.5, 1.0)
    # 120 and 50 in place of 105 and 106: the sum is lower, and each of its falls is a member's.
    assert view.value == sum(values.values()) - 41


def test_so_many_that_rise_are_followed_and_every_one_that_falls() -> None:
    shop, values = Tenants(), tenants(300)
    shop.look(T0, values)
    risen = {name: value + 1_000 for name, value in values.items() if name < "t150"}
    shop.look(T0 + 10, values | risen | {"t250": 3})
    # The 4 largest before, 96 that rose, the one that fell, and the 4 largest now.
    assert len(shop.followed()) == 105
    assert {"t095", "t149", "t250", "t299"} == {"t095", "t096", "t145", "t149", "t250", "t299"} & {*shop.followed()}


def test_a_member_that_left_and_one_that_came_make_another_sum() -> None:
    shop, values = Tenants(), tenants(50)
    shop.look(T0, values)
    before = shop.group.tracker
    del values["t007"]
    (view,) = shop.look(T0 + 10, values | {"new": 7})
    assert (view.id, view.value, view.flags) == ("50 counters", sum(values.values()) + 7, ())
    assert (shop.group.tracker is before, "t007" in shop.group, "new" in shop.group) == (False, False, True)
    assert shop.look(T0 + 20, {}) == []
    assert not shop.collection.groups


@pytest.mark.parametrize("doubles", [1, 30, 50])
def test_a_member_that_is_a_double_is_followed_and_shown(doubles: int) -> None:
    shop, values = Tenants(), tenants(50)
    values |= {f"t{n:03}": float(n) for n in range(doubles)}
    (view,) = shop.look(T0, values)
    assert view.members is not None
    named = [one.id for one in view.members.worst if Flag.DOUBLE in one.flags]
    assert (len(named), view.flags) == (min(doubles, 20), (Flag.DOUBLE,))
    # The row is one of doubles where all of them are.
    assert (view.type is NumericType.DOUBLE) == (doubles == 50)


def test_what_moved_in_the_past_is_followed_as_far_as_there_is_room() -> None:
    shop = Tenants()
    shop.look(T0, tenants(300))
    group = shop.group
    past = [PastValue(T0 - 60, 100, NumericType.INT32), PastValue(T0 - 30, 101, NumericType.INT32)]
    assert [group.moved(name, past) for name in ("t000", "t001", "t002", "none")] == [True, True, True, False]
    assert [group.moved("t000", past[:1]), group.moved("t001", past[1:])] == [False, False]
    room = 100 - len(group.followed)
    assert group.unfollowed(["t299", "none", "t000", "t001"]) == ["t000", "t001"]
    assert len(group.unfollowed(tenants(300))) == room


@pytest.mark.parametrize(("collections", "above"), [(1, 200), (100, 200), (101, 198), (1_000, 20), (9_999, 20)])
def test_the_more_collections_the_sooner_counters_are_a_group(collections: int, above: int) -> None:
    assert group_above(collections) == above
    assert group_above(0) == 200
