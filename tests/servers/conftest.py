"""The option that writes the table of docs/servers.md."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-table", action="store_true", help="write the tables of docs/servers.md, not compare them")
