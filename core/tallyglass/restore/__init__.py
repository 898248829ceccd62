"""Plan a point-in-time restore: prove it, then emit the exact commands. Never runs anything.

`plan_restore` makes a `Plan` from a `RestoreRequest`; `write_folder` writes what its steps need into a folder, and
`script` gives the same as one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyglass._lazy import lazy

if TYPE_CHECKING:
    from tallyglass.restore.model.check import Check, Level
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.model.proof import Loss, Reissue
    from tallyglass.restore.model.source import Backup
    from tallyglass.restore.model.step import Command, Phase
    from tallyglass.restore.model.undo import Return, Strategy
    from tallyglass.restore.plan.folder import write_folder
    from tallyglass.restore.plan.from_backup import plan_restore
    from tallyglass.restore.plan.self_extracting import script
    from tallyglass.restore.proof.request import RestoreRequest

__all__ = [
    "Backup",
    "Check",
    "Command",
    "Level",
    "Loss",
    "Phase",
    "Plan",
    "Reissue",
    "RestoreRequest",
    "Return",
    "Strategy",
    "plan_restore",
    "script",
    "write_folder",
]

__getattr__ = lazy(
    __name__,
    {
        "Backup": "tallyglass.restore.model.source",
        "Check": "tallyglass.restore.model.check",
        "Command": "tallyglass.restore.model.step",
        "Level": "tallyglass.restore.model.check",
        "Loss": "tallyglass.restore.model.proof",
        "Phase": "tallyglass.restore.model.step",
        "Plan": "tallyglass.restore.model.plan",
        "Reissue": "tallyglass.restore.model.proof",
        "Return": "tallyglass.restore.model.undo",
        "Strategy": "tallyglass.restore.model.undo",
        "RestoreRequest": "tallyglass.restore.proof.request",
        "plan_restore": "tallyglass.restore.plan.from_backup",
        "script": "tallyglass.restore.plan.self_extracting",
        "write_folder": "tallyglass.restore.plan.folder",
    },
)
