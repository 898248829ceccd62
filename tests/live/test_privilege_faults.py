"""A panel without one of its privileges names the privilege, and the other panels show data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from access_control import GuardedSet, start_guarded
from idle import shown
from tallyglass.connection.target import Target
from tallyglass.demo import backup
from tallyglass.deployment.privileges import jobs, merged, where
from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feeds, open_target

pytestmark = pytest.mark.live

DB = "panels"
DATA = {"db": DB, "collection": ""}
OPLOG = {"db": "local", "collection": "oplog.rs"}
CLUSTER = {"cluster": True}

HAS_DATA: Mapping[str, tuple[tuple[str, ...], str]] = {
    "counters": (("1",), "orders.number"),
    "oplog": (("3",), f"{DB}.orders"),
    "incidents": (("i",), f"deleteMany on {DB}.things"),
    "restore": (("4",), f"deleteMany on {DB}.things"),
}
"""The keys that lead to each panel, in this order, and a text of its data."""

MISSING: dict[str, tuple[Mapping[str, Any], dict[str, str]]] = {
    "find": (DATA, {"counters": f"This user may not run find on {DB}.mongoengine.counters."}),
    "listIndexes": (
        DATA,
        {
            "counters": "Its counter cannot be compared with the largest id. This user may not run listIndexes",
            "incidents": f"Not known without listIndexes on {DB}.things",
        },
    ),
    "listCollections": (DATA, {"incidents": f"Not known without listCollections on {DB}"}),
    "find on the oplog": (
        OPLOG,
        {
            "counters": "The history of counters cannot be read. This user may not run find on local.oplog.rs.",
            "oplog": "This user may not run find on local.oplog.rs.",
            "incidents": "This user may not run find on local.oplog.rs.",
            "restore": "This user may not run find on local.oplog.rs.",
        },
    ),
    "collStats": (OPLOG, {"oplog": "size: needs collStats on local.oplog.rs"}),
    "shardingState": (CLUSTER, {"plan": "may not ask whether this is one shard of a cluster (shardingState)."}),
}  # fmt: skip
"""The privilege that is missing, and the message of each panel that needs it."""

EMPTY = {"find": {"counters"}, "find on the oplog": {"oplog", "incidents", "restore"}}
"""The panels that have no data without a privilege. All others show data."""


@pytest.fixture(scope="module")
def panels() -> Iterator[GuardedSet]:
    """A server with a counter and two collections."""
    with start_guarded() as guarded:
        client = guarded.admin
        client[DB].orders.create_index("number")
        client[DB]["mongoengine.counters"].insert_one({"_id": "orders.number", "next": 60})
        client[DB].orders.insert_many([{"number": n} for n in range(1, 61)])
        client[DB].things.insert_many([{"n": n} for n in range(50)])
        yield guarded


@pytest.fixture(scope="module")
def taken(panels: GuardedSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup from before a mass delete."""
    path = backup.take(panels.uri("admin"), tmp_path_factory.mktemp("panels") / "backup")
    panels.admin[DB].things.delete_many({})
    panels.admin[DB].orders.insert_one({"number": 61})
    return path


def user_without(guarded: GuardedSet, resource: Mapping[str, Any], action: str) -> str:
    """Create a user with every privilege that the jobs need, except one action on one resource."""
    privileges = []
    for need in merged(need for job in jobs([DB]) for need in (*job.needs, *job.extras)):
        actions = [one for one in need.actions if (need.resource, one) != (resource, action)]
        if actions:
            privileges.append({"resource": dict(need.resource), "actions": actions})
    role = f"without {action} on {where(resource)}"
    guarded.admin.admin.command("createRole", role, privileges=privileges, roles=[])
    return guarded.create_user([role])


@asynccontextmanager
async def dashboard(uri: str, taken: Path) -> Any:
    """Run the dashboard on a real server."""
    target = Target.parse(uri)
    feeds = Feeds(lambda: open_target(target))
    try:
        app = Dashboard(Context(target, taken), feeds, PAGES, environ={"COLORTERM": "truecolor"})
        async with app.run_test(size=(200, 50)) as pilot:
            yield pilot
    finally:
        feeds.close()


async def until(pilot: Pilot[None], text: str) -> None:
    """Wait until the screen contains a text."""
    try:
        async with asyncio.timeout(60):
            while text not in shown(pilot.app):
                await pilot.pause(0.05)
    except TimeoutError:
        raise AssertionError(f"{text!r} never appeared on the screen:\n{shown(pilot.app)}") from None


@pytest.mark.parametrize("missing", list(MISSING))
async def test_panel_names_its_missing_privilege_and_others_show_data(
    panels: GuardedSet, taken: Path, missing: str
) -> None:
    resource, messages = MISSING[missing]
    uri = panels.uri(user_without(panels, resource, missing.split()[0]))
    async with dashboard(uri, taken) as pilot:
        for panel, (keys, data) in HAS_DATA.items():
            await pilot.press(*keys)
            if panel in messages:
                await until(pilot, messages[panel])
            if panel not in EMPTY.get(missing, ()):
                await until(pilot, data)
        if "plan" in messages:
            await pilot.press("enter")
            await until(pilot, messages["plan"])
