"""Make a failing scenario as small as it gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from .scenario import Scenario


async def shrink(scenario: Scenario, fails: Callable[[Scenario], Awaitable[bool]]) -> Scenario:
    """Leave out statements, undos, documents and parts of statements for as long as it still fails."""
    found = True
    while found:
        found = False
        for smaller in _smaller(scenario):
            if await fails(smaller):
                scenario, found = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    undone = {one.accident for one in scenario.undos}
    for at in range(len(scenario.undos)):
        if len(scenario.undos) > 1:
            yield replace(scenario, undos=_less(scenario.undos, at))
    for at, statement in enumerate(scenario.statements):
        if statement.name not in undone:
            yield replace(scenario, statements=_less(scenario.statements, at))
    for at in range(len(scenario.documents)):
        yield replace(scenario, documents=_less(scenario.documents, at))
    for at, statement in enumerate(scenario.statements):
        for change in _simpler(statement.writes):
            smaller = replace(statement, writes=change)
            yield replace(scenario, statements=(*scenario.statements[:at], smaller, *scenario.statements[at + 1 :]))
    for at, document in enumerate(scenario.documents):
        for name in document:
            if name != "_id":
                rest = {key: value for key, value in document.items() if key != name}
                yield replace(scenario, documents=(*scenario.documents[:at], rest, *scenario.documents[at + 1 :]))


def _simpler(writes: tuple) -> Iterator[tuple]:
    for at, write in enumerate(writes):
        if len(writes) > 1:
            yield _less(writes, at)
        if len(write.effects[0]) > 1 and len(write.effects) == 1:
            for part in range(len(write.effects[0])):
                yield (*writes[:at], replace(write, effects=(_less(write.effects[0], part),)), *writes[at + 1 :])


def _less(items: tuple, at: int) -> tuple:
    return (*items[:at], *items[at + 1 :])
