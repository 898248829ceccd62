"""Rehearse a restore: plan it, run the emitted script unchanged on a temporary spare, verify, and remove it.

The live set is only read: the script stops after the phase ``verify``, before anything is written to it. The script
starts the spare itself, on loopback; a drill never accepts the address of a server to restore onto.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from tallyglass.deployment.cluster import Deployment, look_at
from tallyglass.deployment.identity import identify
from tallyglass.errors import DeploymentError, InputError, TallyglassError
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.drill import load, past_drills
from tallyglass.restore.drill.components import check_components, environment
from tallyglass.restore.drill.plan import plan_drill
from tallyglass.restore.drill.report import PHASES, UNKNOWN, Report, sealed
from tallyglass.restore.drill.request import DrillRequest, DrillRun
from tallyglass.restore.drill.result import begun, comparable, ended, measured, succeeded
from tallyglass.restore.drill.run_folder import DrillRunning, sole_run
from tallyglass.restore.drill.script_run import run_script
from tallyglass.restore.drill.state import state_folder
from tallyglass.restore.drill.stopped import Failed
from tallyglass.text import clean


async def drill(gateway: Gateway, request: DrillRequest, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Run one drill; ``tell`` gets a line for each phase that begins.

    Always returns a report and stores it as the last one of the deployment. Raises InputError if it cannot be stored.
    """
    run = DrillRun(gateway, request, tell, begun(request))
    try:
        async with asyncio.timeout(request.deadline):
            report = await _rehearse(run)
    except TimeoutError:
        late = Failed(
            "deadline", f"The drill was not done after {request.deadline:g} s.", "Allow more time (--deadline)."
        )
        report = ended(run, late)
    except Failed as error:
        report = ended(run, error)
    except DrillRunning as error:
        report = ended(run, Failed("locked", error.title, error.advice, level=UNKNOWN))
        return sealed(report)  # the running drill will store its own report
    except InputError as error:
        report = ended(run, Failed("backup-unreadable", error.title, error.advice))
    except TallyglassError as error:
        report = ended(run, Failed("unreadable", error.title, error.advice, level=UNKNOWN))
    except OSError as error:  # of the drill's own files: a backup that cannot be read is an InputError
        title = f"{clean(str(error.filename or request.work_root))} cannot be used: {error.strerror or error}."
        report = ended(run, Failed("disk", title, "Give another folder (--work-dir).", level=UNKNOWN))
    report = sealed(past_drills.with_random(report))
    past_drills.store(report)
    return report


async def _rehearse(run: DrillRun) -> Report:
    request = run.request
    deployment = await _identified(run)
    run.seconds[PHASES[0]] = time.monotonic() - request.started
    mongod = request.mongod
    tools = await asyncio.to_thread(check_components, deployment.version, mongod)
    assert mongod is not None
    run.known = replace(run.known, tools=tools)
    cache = load.cache_for(load.available_memory())
    if cache is None:
        title = "There is too little free memory for a spare and the tools."
        raise Failed("memory", title, "Run it elsewhere.", level=UNKNOWN)
    with sole_run(state_folder(), request.work_root) as folder:
        run.tell(PHASES[0])
        plan = await plan_drill(run, folder)
        before = None
        if request.seed is None:
            before = comparable(past_drills.last(run.known.deployment, proved=True), plan.facts.limit)
        programs = environment(folder / "bin", mongod, cache, request.tallyglass)
        await run_script(run, folder, programs, plan)
        run.known = measured(run.known, plan)
        run.tell("clean")
        since = time.monotonic()
    run.seconds["clean"] = time.monotonic() - since
    return succeeded(run, before)


async def _identified(run: DrillRun) -> Deployment:
    deployment = await look_at(run.gateway)
    if deployment.sharded or not deployment.has_oplog:
        raise DeploymentError("A drill needs a replica set with an oplog.", deployment.no_restore_because())
    hello = await run.gateway.command("hello")
    run.known = replace(
        run.known,
        set_name=deployment.set_name,
        deployment=await identify(run.gateway, hello),
        server_version=deployment.version,
    )
    return deployment
