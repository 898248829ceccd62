"""Report once, as events, what weakens the guarantees here: a weak write concern, a standalone."""

from __future__ import annotations

from tallyglass.allocate.engine.attempts import RetryBudget, call_with_retry
from tallyglass.allocate.engine.handles import Documents, is_safe
from tallyglass.allocate.engine.meter import EventKind, Meter
from tallyglass.allocate.engine.steps import Steps
from tallyglass.text import clean


def report_weaknesses(collection: Documents, *, where: str, meter: Meter, budget: RetryBudget) -> Steps[None]:
    """Emit a WEAK event for each guarantee that the deployment or the write concern cannot give."""
    admin = collection.database.client.admin
    hello = yield from call_with_retry(lambda: admin.command("hello"), where=where, budget=budget)
    if not is_safe(collection.write_concern):
        concern = clean(str(collection.write_concern.document), 80)
        meter.emit(EventKind.WEAK, note=f"unsafe write concern {concern}")
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        meter.emit(EventKind.WEAK, note="standalone: no retries by the driver, no second copy of the counter")
