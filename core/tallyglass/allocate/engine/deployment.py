"""What this deployment cannot promise, told once as an event: a weak write concern, a standalone."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from tallyglass.allocate.engine.attempts import Patience, asked
from tallyglass.allocate.engine.handles import is_safe
from tallyglass.allocate.engine.meter import EventKind, Meter
from tallyglass.allocate.engine.steps import Call, Pause
from tallyglass.text import clean


def tell_weakness(
    collection: Any, *, where: str, meter: Meter, patience: Patience
) -> Generator[Call | Pause, Any, None]:
    """The steps that ask the server what it is, and emit a WEAK event for what it cannot keep."""
    hello = yield from asked(
        Call(collection.database.client.admin, "command", ("hello",)), where=where, patience=patience
    )
    if not is_safe(collection.write_concern):
        concern = clean(str(collection.write_concern.document), 80)
        meter.tell(EventKind.WEAK, note=f"unsafe write concern {concern}")
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        meter.tell(EventKind.WEAK, note="standalone: no retries by the driver, no second copy of the counter")
