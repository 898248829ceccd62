"""The commands that bring back what was damaged, beside the live data, and clean up afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bson import json_util

from tallyglass.restore.impact.return_needs import needs
from tallyglass.restore.model.plan import Command, Phase, Return, Strategy
from tallyglass.restore.raw.indexes import is_id_index
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
from tallyglass.restore.tools.files import WorkDir, chain, write
from tallyglass.text import clean_name, shell_join


def return_steps(spec: RunbookSpec) -> list[Command]:
    """From the spare to the live set, each damaged namespace; counters before and after."""
    steps: list[Command] = []
    wanted = needs(spec.returns, spec.moved)
    if wanted:
        steps.append(
            run_mongosh(
                spec, Phase.RETURN, "allowed.js", "Check the privileges", [mongosh.must_be_allowed(wanted)],
                "source", why="A missing privilege would stop it half way.",
            )
        )  # fmt: skip
    if spec.fixes:
        steps.append(
            run_mongosh(
                spec, Phase.RETURN, "counters-spare.js", "Raise counters on the spare", spec.fixes, "spare",
                why="What comes back must not hand out an id that was handed out after the point.",
            )
        )  # fmt: skip
    rows = list(enumerate(spec.returns, start=1))
    merged = [(number, row) for number, row in rows if row.strategy is Strategy.MERGE]
    steps += _repair(spec, merged) if merged else []
    for number, row in rows:
        if row.strategy is not Strategy.MERGE and (row.strategy is Strategy.WHOLE or row.beside):
            steps += _bring_back(spec, row, number)
    if spec.live_fixes:
        steps.append(
            run_mongosh(
                spec, Phase.RETURN, "counters.js", "Raise counters on the live set", spec.live_fixes, "source",
                why="$max never lowers one: ids that were handed out after the point are not handed out again.",
            )
        )  # fmt: skip
    if spec.definitions:
        step = run_mongosh(
            spec, Phase.RETURN, "definitions.js", "Restore indexes and validators", spec.definitions, "source",
            why="They differ from the point. Building an index takes time; leave it out if the change was intended.",
        )  # fmt: skip
        steps.append(replace(step, by_hand=True))
    return [*steps, _account(spec)]


def _account(spec: RunbookSpec) -> Command:
    """The end: what came back, and what did not."""
    argv = tool("tallyglass", "restore", "outcome", spec.work.plan, *_both_servers(spec), f"--out={spec.work.path}")
    return Command(
        Phase.RETURN,
        "Account for every document",
        argv,
        # 1 says that documents are still damaged: the script ends with it after its last step.
        f"{shell_join(argv)} || test $? -eq 1",
        why="What came back, what others changed since, and what is still damaged, with a file of the ids.",
        again=True,
    )


def _both_servers(spec: RunbookSpec) -> list[str]:
    words = [f"--source={spec.source.text}", f"--spare={spec.spare.text}"]
    for role, uri in (("source", spec.source), ("spare", spec.spare)):
        words += [f"--{role}-password-file={spec.password(role)}"] if uri.asks else []
    return words


def _repair(spec: RunbookSpec, rows: list[tuple[int, Return]]) -> list[Command]:
    """Undo what the accident did to collections that are live: load the repairs beside them, look, and write."""
    return [_look(spec, rows), _merge(spec, [row for _, row in rows])]


def _look(spec: RunbookSpec, rows: list[tuple[int, Return]]) -> Command:
    work = spec.work
    statements = [mongosh.look(row.ns, row.beside, _definitions(spec, row)[0]) for _, row in rows]
    title, why = "Work out what was lost", "Counts and ids of what is left out are shown; nothing live is written."
    step = run_mongosh(spec, Phase.RETURN, "look.js", title, statements, "source", why=why)
    write_look, _, look = step.shell.rpartition(" && ")
    folder, log = work.at("repairs"), work.at("repairs.log")
    compute = tool("tallyglass", "restore", "recover", work.plan, *_both_servers(spec), f"--out={folder}")
    names = [
        word
        for number, row in rows
        for word in (f"--nsFrom=tallyglass.{number}", f"--nsTo={escape_pattern(row.beside)}")
    ]
    load = tool(
        "mongorestore", f"--config={work.config('source')}", "--stopOnError", "--bypassDocumentValidation", "--drop",
        "--nsInclude=tallyglass.*", *names, f"--dir={folder}",
    )  # fmt: skip
    lines = "\n".join(("set -eu -o pipefail", "umask 077", shell_join(compute), logged(load, log), look))
    return replace(
        step,
        argv=(),
        shell=chain(write_look, write(_loading(work), lines), _load(work)),
        undo="Drop these copies on the live set: " + ", ".join(clean_name(row.beside, 80) for _, row in rows),
        proof=said_at_the_end("[0-9]+", log),
    )


def _loading(work: WorkDir) -> str:
    return work.at("repairs.sh")


def _load(work: WorkDir) -> str:
    """Compute the repairs from the oplog as it is now, load them beside, and look at them."""
    return shell_join(("bash", _loading(work)))


def _merge(spec: RunbookSpec, rows: list[Return]) -> Command:
    """Write the repairs; once more for what was written in the meantime, or where a conflict came up meanwhile."""
    statements = []
    for row in rows:
        statements += [mongosh.define(row.ns, *_definitions(spec, row))] if row.recreated else []
        statements.append(mongosh.merge_repairs(row.ns, row.beside))
    names = ", ".join(clean_name(row.ns, 80) for row in rows)
    step = run_mongosh(
        spec, Phase.RETURN, "repair-live.js", f"Write the repairs into {names}", statements, "source",
        why="A field is set where it still has what the accident left; what others wrote since stays.",
        undo="Keep the oplog copy: it holds every later change.",
    )  # fmt: skip
    write_file, _, merge = step.shell.rpartition(" && ")
    load = _load(spec.work)
    return replace(
        step, argv=(), shell=chain(write_file, f"{{ {merge} || {{ {load} && {merge}; }}; }}", load, merge), again=True
    )


_BY_COLL_MOD = ("validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages")


def _definitions(spec: RunbookSpec, row: Return) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The indexes and the options that a collection which was made again is to have; nothing for another one."""
    item = next((item for item in spec.expected if item.ns == row.ns), None)
    if item is None or not row.recreated:
        return [], {}
    indexes = [json_util.loads(text) for text in item.indexes]
    options = json_util.loads(item.options)
    return (
        [index for index in indexes if not is_id_index(index) and mongosh.has_literal(index)],
        {name: options[name] for name in _BY_COLL_MOD if name in options and mongosh.has_literal(options[name])},
    )


def _bring_back(spec: RunbookSpec, row: Return, number: int) -> list[Command]:
    work = spec.work
    db, _, name = row.ns.partition(".")
    folder = work.at(f"back/{number}")
    query = [f"--query={_ids_query(spec.ids)}"] if spec.ids else []
    shown = clean_name(row.ns, 80)
    dump = tool(
        "mongodump", f"--config={work.config('spare')}", f"--db={db}", f"--collection={name}", *query, f"--out={folder}"
    )
    options = [f"--config={work.config('source')}", "--stopOnError", "--bypassDocumentValidation"]
    options.append(f"--nsInclude={escape_pattern(row.ns)}")
    expiring = _expiring(spec, row) if row.beside else []
    if row.beside:
        options += ["--drop", f"--nsFrom={escape_pattern(row.ns)}", f"--nsTo={escape_pattern(row.beside)}"]
        options += ["--noIndexRestore"] if expiring or row.strategy is Strategy.BESIDE else []
    into = clean_name(row.beside or row.ns, 80)
    back = tool("mongorestore", *options, f"--dir={folder}")
    log = work.at(f"back-{number}.log")
    steps = [run(Phase.RETURN, f"Dump {shown} from the spare", dump, why="Only what was damaged goes back.")]
    if not row.beside:
        steps.append(
            run_mongosh(
                spec, Phase.RETURN, f"absent-{number}.js", f"Check that {shown} is not live",
                [mongosh.must_be_absent(row.ns)], "source", why="New documents must not be mixed in.",
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
    if expiring:
        statements = [mongosh.build_indexes(row.beside, expiring), *statements]
    if statements:
        title, why, undo = _final_step(row, shown)
        file = f"merge-{number}.js"
        steps.append(run_mongosh(spec, Phase.RETURN, file, title, statements, "source", why=why, undo=undo))
    return steps


def _expiring(spec: RunbookSpec, row: Return) -> list[dict[str, Any]]:
    """The indexes of a collection that comes back whole and has a TTL index, which could take it away again."""
    item = next((item for item in spec.expected if item.ns == row.ns), None)
    if item is None or row.strategy is not Strategy.WHOLE:
        return []
    indexes = [index for index in map(json_util.loads, item.indexes) if not is_id_index(index)]
    expires = any("expireAfterSeconds" in index for index in indexes)
    return indexes if expires and all(mongosh.has_literal(index) for index in indexes) else []


def _final_step(row: Return, shown: str) -> tuple[str, str, str]:
    """Title, reason and undo of the step that makes it live."""
    if row.strategy is Strategy.WHOLE:
        return f"Give it the name {shown}", "It is live whole, with its indexes, or not at all.", f"Drop {shown}."
    return f"Put it in place of {shown}", row.note, f"Rename {shown} away, and {clean_name(row.away, 80)} back."


def _ids_query(ids: Sequence[str]) -> str:
    """The query for some documents of a collection, as the tools take it."""
    return json.dumps({"_id": {"$in": [json.loads(one) for one in ids]}}, ensure_ascii=True)


def _came(spec: RunbookSpec, ns: str) -> str:
    """How many documents came: some, where there were some; a merge of a collection that is not there succeeds too."""
    some = not spec.ids and any(item.ns == ns and item.documents for item in spec.expected)
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
                why="They were merged. Leave this out while somebody still compares.",
            )
        )  # fmt: skip
    work = spec.work
    gone = [work.base, work.at("back"), work.at("repairs"), work.at("slice")]
    stop = kept = ""
    if spec.own_spare:
        stop = own_spare.stop(work)
        kept = " The stopped spare's data stay in spare-data: remove them when nobody needs them any more."
    steps.append(
        text(
            Phase.CLEAN,
            "Remove what is no longer needed",
            chain(stop, shell_join(("rm", "-rf", *gone))),
            why=f"The oplog copy, its checksum, the logs and the plan stay. The backup was never touched.{kept}",
        )
    )
    return steps
