"""The undo against worlds in which everything meets everything: identical, refused by name, or listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from adversary.attack import described, run
from adversary.scenario import Scenario, dense, from_json, realistic
from adversary.world import World

_KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))
_CASES, _PART = 2_000, 250


async def undo_all(scenarios: list[Scenario]) -> tuple[int, list[str]]:
    """How many undos left every document as it would be, and those that broke the rule."""
    found = [one for scenario in scenarios for one in await run(scenario)]
    return sum(one.verdict == "identical" for one in found), [described(one) for one in found if one.verdict == "wrong"]


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, _CASES, _PART))
async def test_no_undo_is_wrong_in_silence(first: int) -> None:
    identical, wrong = await undo_all([dense(seed) for seed in range(first, first + _PART)])
    assert wrong == []
    assert identical > _PART // 5, "safety is not bought by refusing"


@pytest.mark.parametrize("text", [path.read_text() for path in _KEPT], ids=[path.stem for path in _KEPT])
async def test_what_was_wrong_once(text: str) -> None:
    _, wrong = await undo_all([from_json(text)])
    assert wrong == []


@pytest.mark.parametrize("make", [dense, realistic])
def test_the_oracle_repeats_what_happened(make: type[Scenario]) -> None:
    """Without an accident to leave out, it comes to the live documents."""
    for seed in range(50 if make is dense else 1):
        scenario = make(seed)
        world = World({row["_id"]: row for row in scenario.documents})
        world.add(scenario.statements)
        world.run()
        assert world.without(lambda _: False) == world.live, seed
