"""Makes a plan, with all that is known on the way to it on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyglass.text import clean
from tallyglass_tui.cli.error_boundary import print_message
from tallyglass_tui.cli.headless import ask
from tallyglass_tui.cli.restore.plan_text import print_doubts, print_first, shown_progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tallyglass.connection.target import Target
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.proof.request import RestoreRequest


def planned(target: Target, wanted: Callable[[Gateway], Awaitable[RestoreRequest]]) -> Plan:
    """The plan of what is ``wanted``, which is asked for once the server answers."""

    async def work(gateway: Gateway) -> Plan:
        return await _make(gateway, await wanted(gateway))

    made = ask(target, work)
    print_doubts(made.checks)
    return made


async def _make(gateway: Gateway, request: RestoreRequest) -> Plan:
    """The plan, with all that is known on the way to it on stderr."""
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.plan.make import make_plan
    from tallyglass.restore.plan.precheck import QuickAnswer
    from tallyglass.restore.plan.ways import Decision

    made: Plan | None = None
    with shown_progress() as progress:
        async for found in make_plan(gateway, request, progress):
            if isinstance(found, Plan):
                made = found
            elif isinstance(found, QuickAnswer):
                print_first(found)
            elif not isinstance(found, Decision):
                print_message(f"using the backup {found}")
            elif made is None:
                for way in found.ways:
                    print_message(clean(way.line, 600))
            else:
                print_doubts(made.checks)
                print_message("pre-images cannot undo it; planning from the backup")
    assert made is not None
    return made
