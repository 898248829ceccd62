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
        "model.check": "Check Level",
        "model.plan": "Plan",
        "model.proof": "Loss Reissue",
        "model.source": "Backup",
        "model.step": "Command Phase",
        "model.undo": "Return Strategy",
        "plan.folder": "write_folder",
        "plan.from_backup": "plan_restore",
        "plan.self_extracting": "script",
        "proof.request": "RestoreRequest",
    },
)
