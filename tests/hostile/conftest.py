"""The hostile server, once for all tests of this folder that read from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostile.populate import Hostile, hostile_server


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    """A server full of hostile names and values: read it, change nothing."""
    with hostile_server(tmp_path_factory.mktemp("hostile")) as found:
        yield found
