"""The exact commands of one restore, in spec. One list for screen, clipboard, script and JSON; no secret in any."""

from __future__ import annotations

from tallyglass.restore.model.plan import Command, Phase, Slice
from tallyglass.restore.replay.oplog_query import oplog_query
from tallyglass.restore.runbook.restore_steps import restore_steps
from tallyglass.restore.runbook.return_steps import clean_steps, return_steps
from tallyglass.restore.runbook.spec import RunbookSpec, run, text, tool, verification
from tallyglass.restore.tools.files import chain, config_text, write
from tallyglass.text import shell_join, shell_quote


def commands(spec: RunbookSpec) -> tuple[Command, ...]:
    """All steps, by phase."""
    return (*_secure(spec), *restore_steps(spec), *_verify(spec), *return_steps(spec), *clean_steps(spec))


def _secure(spec: RunbookSpec) -> list[Command]:
    work = spec.work
    query = oplog_query(spec.start, spec.limit, spec.without)
    part = spec.slice
    return [
        text(
            Phase.SECURE,
            "Make the work directory",
            chain(
                "umask 077",
                shell_join(("mkdir", "-p", work.path)),
                write(work.config("source"), config_text(spec.source.text)),
                write(work.config("spare"), config_text(spec.spare.text)),
                write(work.at("query.json"), query),
            ),
            why="Only you can read it; the tools ask for passwords themselves.",
            undo=f"rm -rf {shell_quote(work.path)}",
        ),
        run(
            Phase.SECURE,
            "Save the oplog first",
            tool(
                "mongodump",
                f"--config={work.config('source')}",
                "--db=local",
                "--collection=oplog.rs",
                f"--queryFile={work.at('query.json')}",
                f"--out={work.at('slice')}",
            ),
            why="It is the only history from the backup to the point, and the server overwrites it as it goes on.",
            proof=_slice_proof(work.slice, part),
        ),
        text(
            Phase.SECURE,
            "Keep it apart, with its checksum",
            chain(
                shell_join(("mkdir", "-p", work.at("oplog"))),
                shell_join(("cp", work.slice, work.oplog)),
                f"{shell_join(('sha256sum', work.oplog))} > {shell_quote(work.at('manifest.sha256'))}",
            ),
            why="What is replayed is a copy; its checksum is looked at before. What mongodump wrote stays.",
        ),
    ]


def _slice_proof(path: str, part: Slice) -> str:
    """Count the entries and look at the first and the last: the file holds what was proven, and reaches the limit."""
    first, last = (f'"ts":{{"$timestamp":{{"t":{ts.t},"i":{ts.i}}}}}' for ts in (part.first, part.last))
    program = "NR==1{a=index($0,first)} {z=index($0,last)} END{exit !(NR==count && a && z)}"
    awk = shell_join(("awk", "-v", f"count={part.entries}", "-v", f"first={first}", "-v", f"last={last}", program))
    return f"{shell_join(('bsondump', '--quiet', path))} | {awk}"


def _verify(spec: RunbookSpec) -> list[Command]:
    return [
        run(
            Phase.VERIFY,
            "Compare the spare with the plan",
            verification(spec, f"--log={spec.work.log}"),
            why="Documents, indexes and options per namespace; nothing that was not computed.",
        )
    ]
