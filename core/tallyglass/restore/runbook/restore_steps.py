"""The commands that rebuild the data on the spare: one run of mongorestore, and what must stand around it.

Follows one rule of mongorestore above all: data and oplog in a single run, since its indexes are built from a list
that it keeps in memory during that run.
"""

from __future__ import annotations

from dataclasses import replace

from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES, LEFT_OUT
from tallyglass.restore.model.plan import Command, Phase
from tallyglass.restore.runbook.spec import RunbookSpec, logged, run_mongosh, said_at_the_end, text, tool, verification
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.spare import VIEW_OPENER
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import chain
from tallyglass.text import shell_join, shell_quote


def restore_steps(spec: RunbookSpec) -> list[Command]:
    """Onto the spare: stage or unpack the backup, replay, mend."""
    steps = [*_start_spare(spec), *_mark_spare(spec)]
    if spec.contents.backup.form == ARCHIVE:
        steps += _unpack_archive(spec)
    elif spec.contents.backup.form != DATA_FILES:
        steps.append(_stage(spec))
    if spec.gzip:
        oplog, packed = shell_quote(spec.work.oplog), shell_quote(_replayed(spec))
        steps.append(
            text(
                Phase.RESTORE,
                "Compress the oplog like the backup",
                f"gzip -c {oplog} > {packed}",
                why="--gzip holds for every file of a run, the oplog too.",
                proof=f"gzip -dc {packed} | cmp -s - {oplog}",
            )
        )
    if spec.open_views:
        statements = [
            line
            for db in spec.open_views
            for line in (
                mongosh.gone(db, {"drop": VIEW_OPENER}),
                mongosh.must(db, {"create": VIEW_OPENER, "viewOn": "none", "pipeline": []}),
            )
        ]
        steps.append(
            run_mongosh(
                spec, Phase.RESTORE, "views.js", "Open the list of views", statements, "spare",
                why="The oplog holds views but not the collection that they are kept in.",
            )
        )  # fmt: skip
    steps.append(_replay(spec))
    steps += _repair(spec)
    return steps


def _start_spare(spec: RunbookSpec) -> list[Command]:
    if not spec.own_spare:
        return []
    return [
        Command(
            Phase.RESTORE,
            "Start an empty spare",
            (),
            own_spare.start(spec.work, spec.own_spare, spec.spare.text),
            why="None was named. It is new, so it is empty, and its TTL monitor is off, so nothing restored expires. "
            "Only who can read the key in the work directory can log in.",
            undo=shell_join(("bash", spec.work.at("spare.sh"), "stop")),
            again=True,
        )
    ]


def _stage(spec: RunbookSpec) -> Command:
    backup, base = spec.contents.backup, spec.work.base
    parts = [shell_join(("rm", "-rf", base)), shell_join(("mkdir", "-p", base))]
    for db in spec.contents.databases:
        source, target = str(backup.path / db), f"{base}/{db}"
        linked, copied = (shell_join(("cp", how, source, f"{base}/")) for how in ("-al", "-a"))
        parts.append(f"{{ {linked} 2>/dev/null || {{ {shell_join(('rm', '-rf', target))} && {copied}; }}; }}")
    for prelude in ("prelude.json", "prelude.json.gz"):
        if (backup.path / prelude).is_file():
            parts.append(shell_join(("cp", "-a", str(backup.path / prelude), f"{base}/")))
    return text(
        Phase.RESTORE,
        "Stage the backup",
        chain(*parts),
        why="Links, so that it takes no room. Left out: the backup's own oplog, and admin and config with the users.",
    )


def _unpack_archive(spec: RunbookSpec) -> list[Command]:
    backup, work = spec.contents.backup, spec.work
    options = [f"--config={work.config('spare')}", "--drop", "--stopOnError", "--bypassDocumentValidation"]
    options.append(f"--archive={backup.path}")
    options += ["--gzip"] if backup.gzip else []
    options += ["--oplogReplay"] if backup.has_oplog else ["--nsExclude=admin.*", "--nsExclude=config.*"]
    unpack = tool("mongorestore", *options)
    databases = sorted({ns.partition(".")[0] for ns in backup.namespaces} - LEFT_OUT)
    dumps = [
        shell_join(tool("mongodump", f"--config={work.config('spare')}", f"--db={db}", f"--out={work.base}"))
        for db in databases
    ]
    return [
        Command(
            Phase.RESTORE,
            "Unpack the archive on the spare",
            unpack,
            chain(_still_empty(spec), shell_join(unpack)),
            why="mongorestore takes no other oplog together with an archive, so it becomes a directory first.",
        ),
        text(
            Phase.RESTORE,
            "Dump the spare as a directory",
            chain(shell_join(("rm", "-rf", work.base)), shell_join(("mkdir", "-p", work.base)), *dumps),
            why="It is restored again from there, together with the oplog, onto an empty spare.",
        ),
        *([] if spec.own_spare else [_empty_again(spec, databases)]),
    ]


def _empty_again(spec: RunbookSpec, databases: list[str]) -> Command:
    """A spare that was named, and was empty before the archive was unpacked; one of the commands' own is replaced."""
    statements = [mongosh.must(db, {"dropDatabase": 1}) for db in databases]
    return run_mongosh(
        spec, Phase.RESTORE, "empty.js", "Empty the spare again", statements, "spare",
        why="All that is there came out of the archive; replayed over it, renames would go another way.",
    )  # fmt: skip


def _replay(spec: RunbookSpec) -> Command:
    work, backup = spec.work, spec.contents.backup
    classic = backup.form == DATA_FILES
    argv = tool(
        "mongorestore",
        f"--config={work.config('spare')}",
        *([] if classic else ["--drop"]),
        "--stopOnError",
        "--bypassDocumentValidation",
        "--oplogReplay",
        *([] if classic else [f"--oplogFile={_replayed(spec)}"]),
        f"--oplogLimit={spec.limit}",
        *(["--gzip"] if spec.gzip else []),
        f"--dir={work.at('oplog') if classic else work.base}",
    )
    log = shell_quote(work.log)
    # Data files are on the spare already; a second replay over a part of the first would not be the same.
    ready = chain(shell_join(verification(spec, "--empty")), _only_once(spec)) if classic else _still_empty(spec)
    whole = shell_join(("sha256sum", "--check", "--quiet", work.at("manifest.sha256")))
    return Command(
        Phase.RESTORE,
        "Replay the oplog" if classic else "Restore and replay in one run",
        argv,
        chain(whole, ready, logged(argv, work.log)),
        why=f"Everything before {spec.limit} and nothing from it on."
        + ("" if classic else " One run: indexes come last, from one list."),
        undo="The spare alone is changed: empty it, or start another.",
        proof=chain(
            f"grep -qE {shell_quote(f'^[^[:space:]]+[[:space:]]applied {spec.applied} oplog entries$')} {log}",
            said_at_the_end("[0-9]+", work.log),
        ),
    )


def _replayed(spec: RunbookSpec) -> str:
    """The oplog file that mongorestore reads."""
    return f"{spec.work.oplog}.gz" if spec.gzip else spec.work.oplog


def _mark_spare(spec: RunbookSpec) -> list[Command]:
    """Note on a spare that was named, while it is empty, which restore writes on it."""
    if spec.own_spare or spec.contents.backup.form == DATA_FILES:
        return []
    step = run_mongosh(
        spec, Phase.RESTORE, "mark.js", "Mark the spare as this restore's", [mongosh.mark_spare(_mark(spec))], "spare",
        why="It is empty now. What a killed run leaves there may be removed later, since this proves whose it is.",
    )  # fmt: skip
    return [replace(step, argv=(), shell=chain(shell_join(verification(spec, "--empty")), step.shell))]


def _mark(spec: RunbookSpec) -> str:
    return f"{spec.work.path} {spec.limit}"


def _still_empty(spec: RunbookSpec) -> str:
    """Looked at again in the same step: the plan may be old, or the step may have been stopped half-way before.

    What a stopped run left is removed before: a spare of the commands' own is replaced; one that was named is emptied,
    if it bears the mark of this restore.
    """
    empty = shell_join(verification(spec, "--empty"))
    if spec.own_spare:
        return chain(own_spare.renew(spec.work), empty, own_spare.mark(spec.work))
    statement = mongosh.empty_marked(_mark(spec), VIEW_OPENER)
    clear = run_mongosh(spec, Phase.RESTORE, "emptied.js", "", [statement], "spare", why="")
    return chain(clear.shell, empty)


def _only_once(spec: RunbookSpec) -> str:
    begun = shell_quote(spec.work.at("replay.begun"))
    said = shell_quote(
        "The replay was stopped half-way before: put a fresh copy of the data files there, and plan again."
    )
    return f"{{ [ ! -e {begun} ] || {{ echo {said} >&2; false; }}; }} && touch {begun}"


def _repair(spec: RunbookSpec) -> list[Command]:
    statements = []
    for item in spec.expected:
        db, _, name = item.ns.partition(".")
        surplus = spec.surplus.get(item.ns, [])
        statements += [mongosh.gone(db, {"dropIndexes": name, "index": index}) for index in surplus]
        if item.repair:
            statements.append(mongosh.create_indexes(db, name, item.repair))
    for ns in spec.phantoms:
        db, _, name = ns.partition(".")
        statements.append(mongosh.gone(db, {"drop": name}))
    for ns in spec.leftovers:
        statements.append(mongosh.drop_like(ns.partition(".")[0], r"^tmp.{5}\.rename$"))
    for db in spec.open_views:
        statements.append(mongosh.gone(db, {"drop": VIEW_OPENER}))
    if not statements:
        return []
    return [
        run_mongosh(
            spec, Phase.RESTORE, "repair.js", "Mend what renames leave", list(dict.fromkeys(statements)), "spare",
            why="mongorestore does not move its list of indexes with a renamed collection.",
        )
    ]  # fmt: skip
