"""Each class has an asynchronous twin with the same methods and arguments.

Most are generated from it (test_allocate_generated.py). Not so those that wait: by threads or by tasks, and the call of
a task may be cancelled.
"""

from __future__ import annotations

import inspect

import pytest

from tallyglass import allocate
from tallyglass.allocate import format as number_format

PAIRS = {
    name: (getattr(module, name), getattr(module, f"Async{name}"))
    for module in (allocate, number_format)
    for name in module.__all__
    if f"Async{name}" in module.__all__
}


def public_methods(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - {"reset_after_fork"}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_synchronous_and_asynchronous_classes_have_the_same_methods(name: str) -> None:
    plain, asynchronous = PAIRS[name]
    assert public_methods(plain) == public_methods(asynchronous)
    for method in public_methods(plain):
        if isinstance(getattr(plain, method), property):
            continue
        one, two = (inspect.signature(getattr(kind, method)) for kind in PAIRS[name])
        assert [(p.name, p.kind, p.default) for p in one.parameters.values()] == [
            (p.name, p.kind, p.default) for p in two.parameters.values()
        ], method
