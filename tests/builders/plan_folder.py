"""Plans as folders, and runs of them without a server."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from bson import Int64

from builders.plans import changed, make_plan
from tallyglass import __version__
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.moment import Ts, from_seconds
from tallyglass.restore.backup.backup import Contents
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import Reissue, Slice
from tallyglass.restore.model.source import Backup, FromBackup
from tallyglass.restore.model.step import Command, Phase, Proof
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.plan.self_extracting import script
from tallyglass.restore.plan.steps.commands import commands
from tallyglass.restore.proof.base import BaseFacts
from tallyglass.restore.proof.counter_fix import Fix
from tallyglass.restore.proof.counter_search import CounterFacts
from tallyglass.restore.proof.findings import Assessed, Covered, Located, Replayed
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.tool_uri import tool_uri

LIMIT = Ts(1_795_197_974, 14)
BACKUP = Backup(Path("/backups/to day"), "directory", False, Ts(5, 1), Ts(6, 1), "oplog")


def restored(
    db: str = "shop",
    name: str = "orders",
    *,
    backup: Backup = BACKUP,
    own_spare: int = 0,
    builds_indexes: bool = True,
    encrypted: bool = False,
    **values: Any,
) -> Plan:
    """The plan of a restore of three entries, with its steps; ``builds_indexes``: as the replay, not the repair, does;
    ``encrypted``: a collection has Queryable Encryption; ``values`` are fields of the plan."""
    ns = f"{db}.{name}"
    returns = (Return(ns, Strategy.MERGE, f"{ns}_pitr"), Return(f"{ns}2", Strategy.WHOLE, f"{ns}2_pitr"))
    made = make_plan(
        LIMIT, FromBackup(backup, "s:2"), from_seconds(1_795_197_999),
        **{"start": Ts(5, 1), "slice": Slice(3, Ts(5, 1), LIMIT, 100), "returns": returns} | values,
    )  # fmt: skip
    replay = Replay({})
    replay.applied = 2
    replay.kinds |= {"encrypted"} if encrypted else set()
    replay.catalog.builds_indexes = builds_indexes
    contents, deployment = Contents(backup, databases=(db,)), Deployment(Kind.REPLICA_SET, "6.0.5")
    inputs = Inputs(LIMIT, deployment, contents, own_spare=own_spare)
    start = Start(Ts(5, 1), 0, Ts(1, 1), LIMIT)
    covered = Covered(Located(inputs, None, None, start), start, replay)
    seen = Replayed(covered, BaseFacts(), made.proof.expected, made.proof.slice)
    raised = mongosh.call(ns, "updateOne", {"_id": name}, {"$max": {"seq": Int64(5)}})
    counter = Fix(ns, Reissue(ns, name, "seq", 1, 5, raised), restored=True, live=True)
    assessed = Assessed(seen, counters=CounterFacts((counter,)), returns=made.undo.returns)
    source, spare = tool_uri("mongodb://h:1/", "rs"), tool_uri("mongodb://u@s:2/")
    steps = commands(made, assessed, source.text, spare.text, made.proof.slice)
    return changed(made, commands=steps.commands, files=steps.files)


def plan(*steps: Command) -> Plan:
    made = from_seconds(1_795_197_999)
    backup = Backup(Path("/b"), "directory", False, Ts(5, 1), None, "oplog")
    return make_plan(
        LIMIT, FromBackup(backup, "s:2"), made,
        start=Ts(5, 1), commands=steps, server_version="6.0.5", made_by=__version__,
    )  # fmt: skip


def step(shell: str, proof: Proof = Proof(), phase: Phase = Phase.SECURE) -> Command:  # noqa: B008 - it is frozen
    return Command(phase, "A step", (), shell, proof=proof)


def begin(tmp_path: Path, made: Plan, *options: str) -> subprocess.Popen[str]:
    """The script with tools that only know their version; mongodump copies its last argument but one to its last."""
    tools = tmp_path / "tools"
    if not tools.exists():
        tools.mkdir()
        output = dict.fromkeys(("mongodump", "mongorestore"), "version: 100.18.0")
        imported = shlex.quote(os.pathsep.join(path for path in sys.path if path))  # the copy that is under test
        real = f'PYTHONPATH={imported} exec {shlex.quote(sys.executable)} -m tallyglass_tui "$@"'
        for name, version in (output | {"tallyglass": __version__}).items():
            work = real if name == "tallyglass" else 'cat "$1" >"$2"'
            (tools / name).write_text(f"#!/bin/sh\n[ \"$1\" != --version ] || exec echo '{name} {version}'\n{work}\n")
            (tools / name).chmod(0o755)
    path = tmp_path / f"{hashlib.sha256(script(made).encode()).hexdigest()[:8]}.sh"
    # What is running cannot be written.
    if not path.exists():
        path.write_text(script(made))
        path.chmod(0o700)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path)}
    return subprocess.Popen(
        ["setsid", str(path), *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, env=environment,
    )  # fmt: skip


def rehearse(tmp_path: Path, made: Plan, *options: str) -> subprocess.CompletedProcess[str]:
    running = begin(tmp_path, made, *options)
    _, output = running.communicate(timeout=120)
    return subprocess.CompletedProcess(running.args, running.returncode, None, output)


def with_work(tmp_path: Path, *steps: Command) -> Plan:
    return changed(plan(*steps), work_dir=str(tmp_path / "work"), tools_needed="100.15")
