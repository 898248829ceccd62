"""Each job's role is minimal: the server accepts every command of the job, and the job uses every action."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import monitoring

from access_control import GuardedSet, start_guarded
from tallyglass.counters.follow.watch import look
from tallyglass.demo import backup
from tallyglass.deployment.cluster import look_at
from tallyglass.deployment.privileges import Job, jobs, merged, where
from tallyglass.errors import TallyglassError
from tallyglass.evidence.observer import Observer
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.incidents import incident
from tallyglass.oplog.incidents.authors import Authors, attributed
from tallyglass.oplog.read import tail
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.proof.request import RestoreRequest

pytestmark = pytest.mark.live

DB = "exact"
# Every job tries these. Without them, member states come from hello, without delays, and a shard is not recognised.
ALWAYS_TRIED = {"replSetGetStatus", "replSetGetConfig", "shardingState", "getCmdLineOpts"}
ACTION_OF = {"count": "find", "getMore": "find"}
STAGES = {"$currentOp": "inprog", "$listLocalSessions": "listSessions"}
"""The actions that the first stage of an aggregation needs."""


class Refusals(monitoring.CommandListener):
    """Records the actions that the server refuses."""

    def __init__(self) -> None:
        self.actions: set[str] = set()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        pass

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        if event.failure.get("code") == 13:
            text = event.failure["errmsg"]
            if "system.profile" in text:
                return  # read where that is allowed, and not asked for: the roles of a job name no user's database
            needed = next((action for stage, action in STAGES.items() if stage in text), event.command_name)
            self.actions.add(ACTION_OF.get(needed, needed))


@pytest.fixture(scope="module")
def exact_set() -> Iterator[GuardedSet]:
    """A server for this module only, since a plan reads every database that was written to."""
    with start_guarded() as guarded:
        yield guarded


@pytest.fixture(scope="module")
def prepared(exact_set: GuardedSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A counter and its collection, a backup, and a mass delete after it. Returns the backup."""
    client = exact_set.admin
    client[DB].orders.create_index("number")
    client[DB]["mongoengine.counters"].insert_one({"_id": "orders.number", "next": 60})
    client[DB].orders.insert_many([{"number": n} for n in range(1, 61)])
    client[DB].things.insert_many([{"n": n} for n in range(50)])
    taken = backup.take(exact_set.uri("admin"), tmp_path_factory.mktemp("exact") / "backup")
    client[DB].things.delete_many({})
    for number in range(61, 81):
        client[DB].orders.insert_one({"number": number})
        client[DB]["mongoengine.counters"].update_one({"_id": "orders.number"}, {"$inc": {"next": 1}})
    return taken


async def last_scan(gateway: Gateway) -> tuple[Incident, ...]:
    found: tuple[Incident, ...] = ()
    async for progress in incident.scan(gateway):
        found = progress.incidents
    return found


async def do_counters(gateway: Gateway, _: Path) -> None:
    snapshot = await look(gateway)
    assert any(counter.ns == f"{DB}.mongoengine.counters" for counter in snapshot.counters)


async def do_oplog(gateway: Gateway, _: Path) -> None:
    rows = 0
    async for update in tail.follow(gateway):
        rows += len(update.rows)
        if update.window and rows:
            return


async def do_incidents(gateway: Gateway, _: Path) -> None:
    scans = attributed(incident.scan(gateway), Authors(gateway, Observer(gateway)))
    found = [scan async for scan in scans][-1].incidents
    assert any(one.ns == f"{DB}.things" and one.evidence for one in found)


async def do_restore(gateway: Gateway, taken: Path) -> None:
    (found,) = [found for found in await last_scan(gateway) if found.ns == f"{DB}.things"]
    plan = await plan_restore(gateway, RestoreRequest(backup=taken, source_uri="mongodb://u@h/", incident=found))
    assert plan.steps.commands, [check.title for check in plan.checks if check.level == "block"]


async def do_members(gateway: Gateway, _: Path) -> None:
    assert (await look_at(gateway)).members


WORK: dict[str, Callable[[Gateway, Path], Awaitable[None]]] = {
    "counters": do_counters,
    "oplog": do_oplog,
    "incidents": do_incidents,
    "restore": do_restore,
    "members": do_members,
}


def privileges_of(job: Job, *, without: tuple[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the privileges of the job's role, without one action on one resource."""
    granted = []
    for need in merged((*job.needs, *job.extras)):
        actions = [action for action in need.actions if (where(need.resource), action) != without]
        if actions:
            granted.append({"resource": dict(need.resource), "actions": actions})
    return granted


async def refused(guarded: GuardedSet, job: Job, privileges: list[dict[str, Any]], taken: Path) -> tuple[set[str], str]:
    """Do a job with these privileges. Return the actions that the server refused, and the job's error if it failed."""
    role = f"exact{job.id}"
    guarded.admin.admin.command("createRole", role, privileges=privileges, roles=[])
    listener = Refusals()
    gateway = open_gateway(guarded.uri(guarded.create_user([role])), event_listeners=[listener])
    failure = ""
    try:
        async with asyncio.timeout(120):
            await WORK[job.id](gateway, taken)
    except TallyglassError as error:
        failure = str(error)
    finally:
        await gateway.close()
        guarded.admin.admin.command("dropRole", role)
    return listener.actions, failure


@pytest.mark.parametrize("databases", [(), (DB,)], ids=["any", "named"])
@pytest.mark.parametrize("job_id", list(WORK))
async def test_role_is_sufficient(
    job_id: str, databases: tuple[str, ...], exact_set: GuardedSet, prepared: Path
) -> None:
    (job,) = [job for job in jobs(databases) if job.id == job_id]
    actions, failure = await refused(exact_set, job, privileges_of(job), prepared)
    assert not failure
    mine = {action for need in (*job.needs, *job.extras) for action in need.actions}
    assert actions <= ALWAYS_TRIED - mine


ACTIONS = [
    (job.id, where(need.resource), action)
    for job in jobs((DB,))
    for need in merged((*job.needs, *job.extras))
    for action in need.actions
]


@pytest.mark.parametrize(("job_id", "place", "action"), ACTIONS)
async def test_role_grants_no_unused_action(
    job_id: str, place: str, action: str, exact_set: GuardedSet, prepared: Path
) -> None:
    (job,) = [job for job in jobs((DB,)) if job.id == job_id]
    less = privileges_of(job, without=(place, action))
    if job_id == "counters" and action == "find" and DB in place:
        return  # without it nothing can be read; the doctor's own test covers it
    actions, failure = await refused(exact_set, job, less, prepared)
    assert action in actions
    needed = any(where(need.resource) == place and action in need.actions for need in job.needs)
    assert bool(failure) is (needed and job_id != "members")
