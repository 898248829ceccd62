"""The commands that bring back what was damaged, beside the live data, and clean up afterwards."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.restore.impact.return_needs import needs
from tallyglass.restore.model.plan import Command, Phase, Return, Strategy
from tallyglass.restore.runbook.spec import (
    RunbookSpec,
    escape_pattern,
    logged,
    run,
    run_mongosh,
    said_at_the_end,
    text,
    tool,
)
from tallyglass.restore.spare import own_spare
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import chain
from tallyglass.text import clean_name, shell_join


def return_steps(spec: RunbookSpec) -> list[Command]:
    """From the spare to the live set, each damaged namespace; counters before and after."""
    steps: list[Command] = []
    wanted = needs(spec.returns, spec.moved)
    if wanted:
        steps.append(
            run_mongosh(
                spec, Phase.RETURN, "allowed.js", "See that this user may write", [mongosh.must_be_allowed(wanted)],
                "source", why="So that nothing stops half way.",
            )
        )  # fmt: skip
    if spec.fixes:
        steps.append(
            run_mongosh(
                spec, Phase.RETURN, "counters-spare.js", "Move counters forward on the spare", spec.fixes, "spare",
                why="What comes back then cannot hand out an id that was handed out after the point.",
            )
        )  # fmt: skip
    for number, row in enumerate(spec.returns, start=1):
        if row.strategy is Strategy.WHOLE or row.beside:
            steps += _bring_back(spec, row, number)
    if spec.live_fixes:
        steps.append(
            run_mongosh(
                spec, Phase.RETURN, "counters.js", "Move counters forward on the live set", spec.live_fixes, "source",
                why="$max never lowers one: ids that were handed out after the point are not handed out again.",
            )
        )  # fmt: skip
    if spec.definitions:
        step = run_mongosh(
            spec, Phase.RETURN, "definitions.js", "Set indexes and validators right", spec.definitions, "source",
            why="They are other than at the point. Building an index takes its time; leave it out if that was meant.",
        )  # fmt: skip
        steps.append(replace(step, by_hand=True))
    return steps


def _bring_back(spec: RunbookSpec, row: Return, number: int) -> list[Command]:
    work = spec.work
    db, _, name = row.ns.partition(".")
    folder = work.at(f"back/{number}")
    shown = clean_name(row.ns, 80)
    dump = tool(
        "mongodump", f"--config={work.config('spare')}", f"--db={db}", f"--collection={name}", f"--out={folder}"
    )
    options = [f"--config={work.config('source')}", "--stopOnError", "--bypassDocumentValidation"]
    options.append(f"--nsInclude={escape_pattern(row.ns)}")
    if row.beside:
        options += ["--drop", f"--nsFrom={escape_pattern(row.ns)}", f"--nsTo={escape_pattern(row.beside)}"]
        options += [] if row.strategy in (Strategy.REPLACE, Strategy.WHOLE) else ["--noIndexRestore"]
    into = clean_name(row.beside or row.ns, 80)
    back = tool("mongorestore", *options, f"--dir={folder}")
    log = work.at(f"back-{number}.log")
    steps = [run(Phase.RETURN, f"Dump {shown} from the spare", dump, why="Only what was damaged goes back.")]
    if not row.beside:
        steps.append(
            run_mongosh(
                spec, Phase.RETURN, f"absent-{number}.js", f"See that {shown} is not live",
                [mongosh.must_be_absent(row.ns)], "source", why="What was made since is not to be mixed with what was.",
            )
        )  # fmt: skip
    steps.append(
        Command(
            Phase.RETURN,
            f"Put it into the live set as {into}",
            back,
            logged(back, log),
            why="Nothing live is touched yet." if row.beside else "There is no live collection of this name.",
            undo=f"Drop {into} on the live set.",
            proof=said_at_the_end(_came(spec, row.ns), log),
        )
    )
    statements = spec.merges.get(row.ns, [])
    if statements:
        title, why, undo = _last_words(row, shown)
        file = f"merge-{number}.js"
        steps.append(run_mongosh(spec, Phase.RETURN, file, title, statements, "source", why=why, undo=undo))
    return steps


def _last_words(row: Return, shown: str) -> tuple[str, str, str]:
    """Title, reason and undo of the step that makes it live."""
    if row.strategy is Strategy.WHOLE:
        return f"Give it the name {shown}", "It is live whole, with its indexes, or not at all.", f"Drop {shown}."
    if row.strategy is Strategy.REPLACE:
        return f"Put it in place of {shown}", row.note, f"Rename {shown} away, and {clean_name(row.away, 80)} back."
    why = row.note or "What others wrote after the point stays as it is. Stop the writers first if you can."
    return f"Merge it into {shown}", why, "Keep the oplog copy: it holds every later change."


def _came(spec: RunbookSpec, ns: str) -> str:
    """How many documents came: some, where there were some; a merge of a collection that is not there succeeds too."""
    some = any(item.ns == ns and item.documents for item in spec.expected)
    return "[1-9][0-9]*" if some else "[0-9]+"


def clean_steps(spec: RunbookSpec) -> list[Command]:
    """What was only needed on the way."""
    steps = []
    drops = [
        mongosh.gone(row.beside.partition(".")[0], {"drop": row.beside.partition(".")[2]})
        for row in spec.returns
        if row.beside and row.strategy is Strategy.MERGE
    ]
    if drops:
        steps.append(
            run_mongosh(
                spec, Phase.CLEAN, "clean.js", "Drop the copies beside", drops, "source",
                why="They were merged. Leave this out while anyone still compares.",
            )
        )  # fmt: skip
    work = spec.work
    gone = [work.base, work.at("back"), work.at("slice")]
    stop = kept = ""
    if spec.own_spare:
        stop = own_spare.stop(work)
        kept = " The stopped spare's data stay in spare-data: remove them when nobody needs them any more."
    steps.append(
        text(
            Phase.CLEAN,
            "Remove what is not needed any more",
            chain(stop, shell_join(("rm", "-rf", *gone))),
            why=f"The oplog copy, its checksum, the logs and the plan stay. The backup was never touched.{kept}",
        )
    )
    return steps
