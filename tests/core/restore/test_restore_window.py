"""The walk through the oplog begins only where what it builds on is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import bson
from bson import Timestamp

from tallyglass.moment import Ts
from tallyglass.restore.checks.all_checks import run_checks
from tallyglass.restore.proof.prove import prove
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.timeline.coverage import Start


class Source:
    """A set of one member whose oplog is three no-ops."""

    async def command(self, name: str, *_: Any, **__: Any) -> dict[str, Any]:
        if name == "hello":
            return {"setName": "rs", "me": "h:1", "lastWrite": {"majorityOpTime": {"ts": Timestamp(30, 1)}}}
        return {"version": "6.0.5"}

    async def find_raw(self, *_: Any, sort: Any = (("", 1),), **__: Any) -> AsyncIterator[bytes]:
        row = {"ts": Timestamp(10 if sort[-1][-1] > 0 else 20, 1), "t": 1, "op": "n", "ns": "", "o": {}}
        yield bson.encode(row)


async def test_data_files_that_no_spare_runs_on_are_only_asked_for(tmp_path: Path) -> None:
    for name in ("WiredTiger", "_mdb_catalog.wt"):
        (tmp_path / name).touch()
    request = RestoreRequest(tmp_path, "mongodb://h:1/", before=Ts(30, 1), backup_start=Ts(20, 1))
    found = await prove(Source(), request)  # type: ignore[arg-type]
    assert found.located is not None
    assert isinstance(found.located.start, Start)
    assert "data-files-not-running" in {check.id for check in run_checks(found)}
