"""A separate server for tests that rewrite its history."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallyglass.demo.server import ReplicaSet


@pytest.fixture
def one_member() -> Iterator[ReplicaSet]:
    """A fresh replica set of one."""
    with ReplicaSet(1) as servers:
        yield servers
