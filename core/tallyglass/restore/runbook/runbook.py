"""The script around the commands: it asks before each step, checks after it, and stops at the first doubt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

from tallyglass.moment import iso
from tallyglass.restore.model.document import to_json
from tallyglass.restore.model.plan import Command, Level, Phase, Plan
from tallyglass.restore.tools.files import WorkDir
from tallyglass.text import clean, shell_quote


def script(plan: Plan) -> str:
    """The whole runbook as bash. Save it with mode 0700: :data:`MODE`. ValueError for a plan that blocks.

    Options: ``--yes`` asks nothing, ``--until secure|restore|verify|return|clean`` stops after a phase,
    ``--source-password-file`` and ``--spare-password-file`` name files that hold passwords. May be run again: steps
    that were done are passed over.
    """
    if plan.level is Level.BLOCK or not plan.commands:
        raise ValueError("a blocked plan has no commands")
    work = WorkDir(plan.work_dir)
    kept = to_json(replace(plan, commands=()))
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            *_comment(plan),
            "",
            f"W={shell_quote(work.path)}",
            f"PLAN_ID={hashlib.sha256(to_json(plan).encode()).hexdigest()[:16]}",
            f"NEEDED={shell_quote(plan.tools_needed)}",
            f"SERVER={shell_quote(plan.server_version)}",
            f"SOURCE_USER={shell_quote(plan.source_user if 'source' in plan.passwords else '')}",
            f"SPARE_USER={shell_quote(plan.spare_user if 'spare' in plan.passwords else '')}",
            f"STEPS={len(plan.commands)}",
            f"USES_MONGOSH={int(any(step.argv[:1] == ('mongosh',) for step in plan.commands))}",
            # The one step of that phase that is done again in each run starts a spare.
            f"USES_MONGOD={int(any(step.again and step.phase is Phase.RESTORE for step in plan.commands))}",
            f"PLAN={shell_quote(kept)}",
            "",
            _FRAME,
            *_steps(plan),
            "finish",
            "",
        ]
    )


MODE = 0o700
"""The script's file mode: its own eyes only, and it can be run."""

_FRAME = (files(__package__) / "frame.sh").read_text(encoding="ascii")


def _comment(plan: Plan) -> Iterator[str]:
    backup = plan.backup
    yield f"# Point-in-time restore of {clean(plan.set_name)} to just before {plan.limit} ({iso(plan.limit.time)})."
    yield f"# Backup: {clean(str(backup.path), 200)} ({backup.form}). Planned {iso(plan.made)}."
    yield f"# Replay from {plan.start}."
    yield f"# Last entry that is kept: {clean(plan.before, 200)}"
    yield f"# First entry that is not: {clean(plan.after, 200)}"
    if plan.incident:
        yield f"# Undoes: {clean(plan.incident, 200)}"
    for check in plan.checks:
        if check.level is not Level.OK:
            said = f"{clean(check.title, 300)} {clean(check.advice, 300)}".rstrip()
            yield f"# {check.level.value.upper()} {check.id}: {said}"


def _steps(plan: Plan) -> Iterator[str]:
    for number, command in enumerate(plan.commands, start=1):
        yield from _step(number, command)


def _step(number: int, command: Command) -> Iterator[str]:
    yield f"run_{number}() {{"
    yield f"  {command.shell}"
    yield "}"
    yield f"check_{number}() {{"
    yield f"  {command.proof or ':'}"
    yield "}"
    kind = "again" if command.again else "by-hand" if command.by_hand else ""
    words = (str(number), command.phase.value, command.title, command.why, command.undo, kind, command.shell)
    yield f"step {' '.join(shell_quote(word) if word else repr('') for word in words)}"
    yield ""
