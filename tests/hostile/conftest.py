"""The hostile server, shared by all tests of this folder that read from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostile.populate import Hostile, hostile_server
from shared_servers import shared


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    """A server full of hostile names and values. Tests must not change its data."""
    with hostile_server(tmp_path_factory.mktemp("hostile")) as found, shared("hostile", found.servers):
        yield found
