"""The steps that return damaged data to the live set, through staging collections, and clean up.

Namespaces that come back in the same way share their steps, however many there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bson import json_util

from tallyglass.restore.model.expiry import loaded_without_expiry
from tallyglass.restore.model.indexes import buildable, is_id_index
from tallyglass.restore.model.source import FromImages
from tallyglass.restore.model.step import Effect, Phase, PlanFile, PlanSteps, Proof, RunMode
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.plan.steps.making import escape_pattern, join, mongosh_call, run, run_mongosh, run_shell
from tallyglass.restore.plan.steps.return_work import Damage, ReturnWork
from tallyglass.restore.spare import own_spare
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import (
    BACK,
    BASE,
    HISTORY,
    LOADED,
    MARK,
    NULL_IDS,
    OUTCOME,
    PLAN,
    RAISE_SPARE,
    REPAIRS,
    RESERVED,
    SLICE_FOLDER,
    SOURCE,
    SPARE,
    fold_command,
    lines,
)
from tallyglass.restore.undo.sources.image_files import FOLDER
from tallyglass.text import clean_name

_MERGE, _LOAD, _AGAIN = "merge.js", "load-repairs.sh", "catch-up.sh"
_MAJORITY = "--writeConcern=majority"
_NAMED = 3
"""The most namespaces that a title names; above that it gives their number."""

_COUNTED = 5
"""The most namespaces for which a step says how many documents it writes."""


def return_steps(work: ReturnWork) -> PlanSteps:
    """Returns each damaged namespace from the spare to the live set; counters before and after."""
    written = (Strategy.MERGE, Strategy.REPLACE)
    merged = [(number, row) for number, row in enumerate(work.plan.undo.returns, start=1) if row.strategy in written]
    groups = list(_groups(work))
    parts = [_before(work), *(_copy_back(work, group) for group in groups), _build_indexes(work, groups)]
    if merged:
        parts.append(_load_repairs(work, merged))
    renamed = _renamed(groups)
    if merged:
        parts.append(_merge(work, [row for _, row in merged], () if renamed else work.live_fixes))
    if renamed or not merged:
        parts.append(_rename(work, renamed))
    if merged:
        parts.append(_catch_up(work, merged))
    if work.definitions:
        parts.append(_definitions(work))
    return _with_reservation(work, join([*parts, _account(work)]))


def _before(work: ReturnWork) -> PlanSteps:
    """What must hold before anything is returned: privileges on the live set, counters on the spare."""
    check = run(
        Phase.RETURN, "Check the privileges on the live set", Effect.READS_LIVE,
        ("tallyglass", "restore", "check-return", PLAN, f"--source={SOURCE}"),
        why="A missing privilege would stop the return half way.",
    )  # fmt: skip
    parts, spare = [check], mongosh.on_spare(work.plan.facts.set_name)
    if work.fixes:
        parts.append(run_mongosh(
            Phase.RETURN, "Move counters forward on the spare", Effect.WRITES_SPARE, RAISE_SPARE,
            [spare, *work.fixes],
            why="What comes back must not hand out an id that was handed out after the point.",
        ))  # fmt: skip
    if kept := list(loaded_without_expiry(work.plan)):
        parts.append(run_mongosh(
            Phase.RETURN, f"Turn off the expiry of {_named(kept)} on the spare", Effect.WRITES_SPARE, "keep-copies.js",
            [spare, *map(_turn_off, kept)],
            why="The live set would remove what has expired while it is loaded: that is made without "
            "expireAfterSeconds.",
        ))  # fmt: skip
    return join(parts)


def _with_reservation(work: ReturnWork, steps: PlanSteps) -> PlanSteps:
    """The steps, which make the first of the staging collections before anything is loaded, so that another run of this
    plan cannot: it loads the same ones."""
    staging = next((row.beside for row in work.plan.undo.returns if row.beside), "")
    if not staging:
        return steps
    guard = run_mongosh(
        Phase.RETURN, f"Reserve {_named([staging])} on the live set", Effect.WRITES_LIVE, "reserve.js",
        [_on_live(work), mongosh.reserve(staging, RESERVED)],
        why="What is loaded replaces what has its name: another run of this plan is stopped here.",
        undo=f"Drop {_named([staging])} on the live set.", mode=RunMode.GUARD,
    )  # fmt: skip
    load = next(at for at, step in enumerate(steps.commands) if step.effect is Effect.WRITES_LIVE)
    return PlanSteps((*steps.commands[:load], *guard.commands, *steps.commands[load:]), (*guard.files, *steps.files))


def _turn_off(ns: str) -> str:
    db, _, name = ns.partition(".")
    return mongosh.must(db, {"collMod": name, "expireAfterSeconds": "off"})


def _account(work: ReturnWork) -> PlanSteps:
    """The last step: what came back, and what did not."""
    # A command that could not answer exits with 3 too, and leaves no account.
    return run(
        Phase.RETURN, "Account for every document", Effect.READS_LIVE, _both_sides(work, "outcome", "--out=."),
        why="What came back, what others changed since, and what is damaged or unclear, with a file of the ids. "
        "If anything is damaged or unclear, it exits with 3.",
        mode=RunMode.AGAIN, exits=(0, 3), seconds=work.seconds, proof=Proof(file=OUTCOME),
    )  # fmt: skip


def _on_live(work: ReturnWork) -> str:
    return mongosh.on_live(work.plan.facts.set_id)


def _both_sides(work: ReturnWork, command: str, *options: str) -> tuple[str, ...]:
    """A command of ``tallyglass restore`` that reads the live set and the documents as they were at the point."""
    copy = f"--images={FOLDER}" if isinstance(work.plan.source, FromImages) else f"--spare={SPARE}"
    return ("tallyglass", "restore", command, PLAN, f"--source={SOURCE}", copy, *options)


# --- repairs of collections that are live


def _load_repairs(work: ReturnWork, rows: Sequence[tuple[int, Return]]) -> PlanSteps:
    """Compute the repairs, load them into staging collections, and review them there."""
    names = _named([row.ns for _, row in rows])
    staging = [row.repairs for _, row in rows]
    compute = run(
        Phase.RETURN, f"Work out what was lost in {names}, or written there since", Effect.READS_LIVE, _compute(work),
        why="Each damaged document, as it would be without the accident; it includes what others wrote since.",
        mode=RunMode.AGAIN, seconds=work.seconds,
    )  # fmt: skip
    load = run(
        Phase.RETURN, "Load the repairs into staging collections", Effect.WRITES_LIVE, _load(rows),
        why="They are new collections: none of the application's is touched yet.",
        undo=f"Drop {_named(staging)} on the live set.", proof=Proof(restored=0),
    )  # fmt: skip
    announced = (line for text in work.plan.undo.lines("see plan.json") for line in mongosh.say(text))
    review = run_mongosh(
        Phase.RETURN, "Review the repairs", Effect.WRITES_LIVE, "review.js",
        [_on_live(work), *announced, *(_review(work, row) for _, row in rows)],
        why="Shows what is undone, counts, and ids of what a unique or TTL index keeps out. It writes marks in "
        "the staging collections alone.", mode=RunMode.PREVIEW, seconds=work.seconds,
    )  # fmt: skip
    files = (PlanFile(_LOAD, lines(fold_command(_load_all(rows)))),) if len(rows) > _NAMED else ()
    return join([compute, load, PlanSteps((), files), review])


def _compute(work: ReturnWork) -> tuple[str, ...]:
    return _both_sides(work, "recover", f"--out={REPAIRS}")


def _load(rows: Sequence[tuple[int, Return]]) -> tuple[str, ...]:
    return ("bash", _LOAD) if len(rows) > _NAMED else _load_all(rows)


def _load_all(rows: Sequence[tuple[int, Return]]) -> tuple[str, ...]:
    """The folder holds one numbered file for each of them."""
    names = [
        word
        for number, row in rows
        for word in (f"--nsFrom=tallyglass.{number}", f"--nsTo={escape_pattern(row.repairs)}")
    ]
    return (
        "mongorestore", f"--config={SOURCE}", _MAJORITY, "--stopOnError", "--bypassDocumentValidation", "--drop",
        "--nsInclude=tallyglass.*", *names, f"--dir={REPAIRS}",
    )  # fmt: skip


def _review(work: ReturnWork, row: Return) -> str:
    live = row.beside if row.strategy is Strategy.REPLACE else row.ns
    return mongosh.review_repairs(live, row.repairs, _definitions_of(work, row)[0])


def _merges(work: ReturnWork, rows: Sequence[Return]) -> Iterator[str]:
    for row in rows:
        if row.strategy is Strategy.REPLACE:
            yield mongosh.carry_over(row.ns, row.beside, row.away, _lasting(work, row), row.repairs)
            continue
        indexes, options = _definitions_of(work, row)
        if row.recreated:
            yield mongosh.restore_definitions(row.ns, [buildable(one) for one in indexes], options)
        yield mongosh.merge_repairs(row.ns, row.beside, indexes)


def _merge(work: ReturnWork, rows: Sequence[Return], fixes: Sequence[str]) -> PlanSteps:
    live = [row.ns for row in rows if row.strategy is Strategy.MERGE]
    copies = [row.beside for row in rows if row.strategy is Strategy.REPLACE]
    titles = [f"write the repairs into {_named(live)}"] if live else []
    titles += [f"write what others wrote since into {_named(copies)}"] if copies else []
    titles += ["move counters forward there"] if fixes else []
    why = "A field is set where it still has what the accident left; what others wrote since stays."
    reasons = [why] if live else []
    reasons += [f"{_named(copies)} is not live yet: a later step gives it its name."] if copies else []
    reasons += [_RAISED] if fixes else []
    title = "; ".join(titles)
    return run_mongosh(
        Phase.RETURN, title[0].upper() + title[1:], Effect.WRITES_LIVE, _MERGE,
        [_on_live(work), *_merges(work, rows), *fixes], why=" ".join(reasons),
        undo="The oplog holds every change that it makes.", seconds=work.seconds,
        counts=_first([_merge_count(row, work.damage.get(row.ns, Damage())) for row in rows]),
    )  # fmt: skip


_RAISED = "A counter is moved only past ids that were handed out: none is handed out twice."


def _merge_count(row: Return, damage: Damage) -> str:
    if row.strategy is Strategy.REPLACE:
        return f"{clean_name(row.ns, 80)}: what others inserted since comes along"
    hit = f"{damage.by_accident:,} operations undone" if damage.by_accident else "what is missing is inserted"
    return f"{clean_name(row.ns, 80)}: {hit}; {damage.by_others:,} later writes of others left alone"


def _catch_up(work: ReturnWork, rows: Sequence[tuple[int, Return]]) -> PlanSteps:
    """Repeat the repair for what was written since it was computed."""
    return run_shell(
        Phase.RETURN, "Repair what was written meanwhile", Effect.WRITES_LIVE, _again(work, rows),
        why="Works out the repairs again, with what was written since, and writes those that are still needed: often "
        "none.", mode=RunMode.AGAIN, seconds=work.seconds,
    )  # fmt: skip


def _again(work: ReturnWork, rows: Sequence[tuple[int, Return]]) -> PlanFile:
    """The program that computes the repairs once more and writes them."""
    program = lines(
        fold_command(_compute(work)),
        "# Nothing is left to repair where every file is empty; what a stopped run loaded is then dropped.",
        f'[ -n "$(find {REPAIRS} {NULL_IDS} -type f -size +0)" ] || [ -e {LOADED} ] || exit 0',
        f"touch {LOADED}",
        fold_command(_load(rows)),
        "export CATCH_UP=1",
        fold_command(mongosh_call(_MERGE)),
        f"rm -f {LOADED}",
    )
    return PlanFile(_AGAIN, program)


_BY_COLL_MOD = ("validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages")


def _definitions_of(work: ReturnWork, row: Return) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The indexes and options of a collection that was created again; nothing for any other."""
    item = work.plan.proof.expected_of(row.ns)
    if item is None or not row.recreated:
        return [], {}
    indexes = [json_util.loads(text) for text in item.indexes]
    options = json_util.loads(item.options)
    return (
        [index for index in indexes if not is_id_index(index) and mongosh.has_literal(index)],
        {name: options[name] for name in _BY_COLL_MOD if name in options and mongosh.has_literal(options[name])},
    )


# --- collections that come back as copies


@dataclass(frozen=True, slots=True)
class _Group:
    """Collections that come back in one run: each to its name plus ``ending``, "" for its own name."""

    number: int
    rows: tuple[Return, ...]
    ending: str
    without_indexes: bool

    @property
    def folder(self) -> str:
        return f"{BACK}/{self.number}"

    @property
    def strategy(self) -> Strategy:
        return self.rows[0].strategy


def _groups(work: ReturnWork) -> Iterator[_Group]:
    found: dict[tuple[Any, ...], list[Return]] = {}
    for row in work.plan.undo.returns:
        if row.strategy is Strategy.MERGE or not (row.strategy is Strategy.WHOLE or row.beside):
            continue
        bare = row.strategy is Strategy.BESIDE or bool(_expiring(work, row))
        # A copy may have any name; all others have the collection's name and an ending. The * in the tools' patterns
        # does not match a line break.
        alone = row.ns if row.strategy is Strategy.COPY or "\n" in row.ns else ""
        found.setdefault((row.strategy, row.beside.removeprefix(row.ns), bare, alone), []).append(row)
    for number, ((_, ending, bare, _), rows) in enumerate(found.items(), start=1):
        yield _Group(number, tuple(rows), ending, bare)


def _copy_back(work: ReturnWork, group: _Group) -> PlanSteps:
    shown = _named([row.ns for row in group.rows])
    dumps = _dumps(work, group)
    title, why = f"Dump {shown} from the spare", "Only what was damaged goes back."
    if len(dumps) == 1:
        dump = run(Phase.RETURN, title, Effect.READS_SPARE, dumps[0], why=why)
    else:
        program = PlanFile(f"dump-{group.number}.sh", lines(*map(fold_command, dumps)))
        dump = run_shell(Phase.RETURN, title, Effect.READS_SPARE, program, why=why)
    targets = _named([row.beside or row.ns for row in group.rows])
    # Expect some documents if there were some: mongorestore also succeeds with an empty folder.
    some = not _ids(work) and any(work.documents.get(row.ns) for row in group.rows)
    back = run(
        Phase.RETURN,
        f"Load it into the live set as {targets}" if len(group.rows) == 1 else f"Load {shown} into the live set",
        Effect.WRITES_LIVE,
        _restore(group),
        why="It is new there: no collection of the application is touched yet."
        if group.rows[0].beside
        else "There was no live collection of this name when the privileges were checked.",
        undo=f"Drop {targets} on the live set.",
        proof=Proof(restored=int(some)),
    )
    return join([dump, back])


def _ids(work: ReturnWork) -> tuple[str, ...]:
    """The ``_id``s of the documents that were asked for, if only some were."""
    return work.plan.undo.choice.ids if work.plan.undo.choice else ()


def _dumps(work: ReturnWork, group: _Group) -> list[tuple[str, ...]]:
    """One mongodump per database if most of it comes back in this way, otherwise one per collection."""
    databases: dict[str, list[str]] = {}
    for row in group.rows:
        databases.setdefault(row.ns.partition(".")[0], []).append(row.ns)
    head, out = ("mongodump", f"--config={SPARE}"), f"--out={group.folder}"
    found: list[tuple[str, ...]] = []
    ids = _ids(work)
    for db, names in databases.items():
        others = [item for item in work.plan.proof.expected if item.ns.partition(".")[0] == db and item.ns not in names]
        if len(names) > max(1, len(others)) and all(item.kind == "collection" for item in others):
            left_out = (f"--excludeCollection={item.ns.partition('.')[2]}" for item in others)
            found.append((*head, f"--db={db}", *left_out, out))
            continue
        for ns in names:
            query = (f"--query={_ids_query(ids)}",) if ids else ()
            found.append((*head, f"--db={db}", f"--collection={ns.partition('.')[2]}", *query, out))
    return found


def _restore(group: _Group) -> tuple[str, ...]:
    options = [f"--config={SOURCE}", _MAJORITY, "--stopOnError", "--bypassDocumentValidation"]
    if not group.rows[0].beside:
        options += [f"--nsInclude={escape_pattern(row.ns)}" for row in group.rows]
    elif len(group.rows) == 1:
        (row,) = group.rows
        options += [f"--nsInclude={escape_pattern(row.ns)}", "--drop"]
        options += [f"--nsFrom={escape_pattern(row.ns)}", f"--nsTo={escape_pattern(row.beside)}"]
    else:
        # The folder holds these collections and no others.
        options.append("--drop")
        for db in dict.fromkeys(escape_pattern(row.ns.partition(".")[0]) for row in group.rows):
            options += [f"--nsFrom={db}.*", f"--nsTo={db}.*{escape_pattern(group.ending)}"]
    options += ["--noIndexRestore"] if group.without_indexes else []
    return ("mongorestore", *options, f"--dir={group.folder}")


def _build_indexes(work: ReturnWork, groups: Sequence[_Group]) -> PlanSteps:
    """What makes documents expire in a copy under another name, for a replacement, whose unique indexes are needed by
    what joins it, and in what was loaded under its own name; in what comes back whole it is made right before that is
    renamed."""
    loaded = [row for group in groups for row in group.rows if not (row.strategy is Strategy.WHOLE and row.beside)]
    built = {row.beside or row.ns: made for row in loaded if (made := _built(work, row))}
    if not built:
        return PlanSteps()
    return run_mongosh(
        Phase.RETURN, f"Build the indexes and turn on the expiry of {_named(list(built))}", Effect.WRITES_LIVE,
        "indexes.js", [_on_live(work), *(statement for made in built.values() for statement in made)],
        why="What would remove documents at once, a TTL index or the collection's own expireAfterSeconds, is left off.",
        seconds=None,
    )  # fmt: skip


def _built(work: ReturnWork, row: Return) -> list[str]:
    """The statements that let the documents of a copy expire, which still holds all of them then. In a copy for a
    person none does so by the collection's own option."""
    copy, statements, item = row.beside or row.ns, [], work.plan.proof.expected_of(row.ns)
    kind = item.kind if item is not None else "collection"
    whole = row.beside and not _ids(work) and kind == "collection"
    count = work.documents.get(row.ns) if whole else None  # of a time series the buckets are counted
    seconds = loaded_without_expiry(work.plan).get(row.ns)
    if seconds is not None and row.strategy in (Strategy.WHOLE, Strategy.REPLACE):
        statements.append(mongosh.expire_again(copy, seconds, count))
        count = None  # from then on some may be gone
    indexes = [] if row.strategy is Strategy.BESIDE else [buildable(one, kind) for one in _expiring(work, row)]
    return [*statements, mongosh.build_indexes(copy, indexes, count)] if indexes else statements


def _lasting(work: ReturnWork, row: Return) -> int | None:
    """How many documents a staging collection holds until it is renamed; None where some may expire by then, or where
    that was not computed."""
    return None if _built(work, row) else work.documents.get(row.ns)


def _expiring(work: ReturnWork, row: Return) -> list[dict[str, Any]]:
    """The indexes of a collection that has a TTL index, which could delete again what comes back."""
    item = work.plan.proof.expected_of(row.ns)
    if item is None:
        return []
    indexes = [index for index in map(json_util.loads, item.indexes) if not is_id_index(index)]
    expires = any("expireAfterSeconds" in index for index in indexes)
    return indexes if expires and all(mongosh.has_literal(index) for index in indexes) else []


def _ids_query(ids: Sequence[str]) -> str:
    """The query for some documents of a collection, in the syntax of the tools."""
    return json.dumps({"_id": {"$in": [json.loads(one) for one in ids]}}, ensure_ascii=True)


# --- copies that are renamed


def _renamed(groups: Sequence[_Group]) -> list[Return]:
    """The staging collections that are renamed in the end."""
    strategies = (Strategy.WHOLE, Strategy.REPLACE)
    return [row for group in groups if group.strategy in strategies for row in group.rows if row.beside]


def _rename(work: ReturnWork, rows: Sequence[Return]) -> PlanSteps:
    """Rename the staging collections, and move counters forward on the live set. Around a replacement, what others
    write is carried over in the same step: nobody is asked in between."""
    whole = [row for row in rows if row.strategy is Strategy.WHOLE]
    replaced = [row for row in rows if row.strategy is Strategy.REPLACE]
    statements = [statement for row in whole for statement in _built(work, row)]
    endings: dict[str, dict[str, int | None]] = {}
    for row in whole:
        endings.setdefault(row.beside.removeprefix(row.ns), {})[row.ns] = _lasting(work, row)
    statements += [mongosh.take_names(ending, counts) for ending, counts in endings.items()]
    for row in replaced:
        count, paths = _lasting(work, row), work.paths.get(row.ns, ())
        seen = f"{HISTORY}/{work.plan.undo.returns.index(row) + 1}.seen"
        statements.append(mongosh.replace_by(row.ns, row.beside, row.away, count, paths, seen))
    statements += work.live_fixes
    if not statements:
        return PlanSteps()
    titles, reasons, undo = [], [], []
    if whole:
        names = _named([row.ns for row in whole])
        titles.append(f"rename the staging collection{'s' * (len(whole) > 1)} to {names}")
        reasons.append("Each collection is live whole, with its indexes, or not at all.")
        undo.append(f"Drop {names}.")
    if replaced:
        names, kept = _named([row.ns for row in replaced]), _named([row.away for row in replaced])
        titles.append(f"replace {names} by the staging collection{'s' * (len(replaced) > 1)}")
        reasons.append("A copy of the live collection is kept; the name changes hands in one step.")
        undo.append(f"Rename {names} away, and {kept} back.")
    if work.live_fixes:
        titles.append("move counters forward on the live set")
        reasons.append(_RAISED)
    title = "; ".join(titles)
    title, why, back = title[0].upper() + title[1:], " ".join(reasons), " ".join(undo)
    counts = _first([_copy_count(row, work.documents.get(row.ns)) for row in rows])
    part = run_mongosh(
        Phase.RETURN, title, Effect.WRITES_LIVE, "write-live.js", [_on_live(work), *statements],
        why=why, undo=back, counts=counts,
    )  # fmt: skip
    if not replaced:
        return part
    program = lines(f"bash {_AGAIN}", fold_command(part.commands[0].argv), f"bash {_AGAIN}")
    around = PlanFile("replace.sh", program)
    return replace(
        run_shell(Phase.RETURN, title, Effect.WRITES_LIVE, around, why=why, undo=back, counts=counts),
        files=(*part.files, around),
    )


def _copy_count(row: Return, count: int | None) -> str:
    return f"{clean_name(row.ns, 80)}: {'all its' if count is None else f'{count:,}'} documents come back"


def _first(counts: Sequence[str]) -> tuple[str, ...]:
    more = (f"and {len(counts) - _COUNTED} more collections",) if len(counts) > _COUNTED else ()
    return (*counts[:_COUNTED], *more)


def _definitions(work: ReturnWork) -> PlanSteps:
    return run_mongosh(
        Phase.RETURN, "Restore indexes and validators", Effect.WRITES_LIVE, "definitions.js",
        [_on_live(work), mongosh.all_of(work.definitions)],
        why="They differ from the point. Building an index takes time; leave it out if the change was intended.",
        mode=RunMode.BY_HAND, seconds=None,
    )  # fmt: skip


def _named(names: Sequence[str]) -> str:
    """Some names, or their number."""
    if len(names) > _NAMED:
        return f"{len(names)} collections"
    return ", ".join(clean_name(ns, 80) for ns in names)


# --- afterwards


def clean_steps(*, own_spare_runs: bool) -> PlanSteps:
    """Remove what the other steps left."""
    remove = run(
        Phase.CLEAN, "Remove what is no longer needed", Effect.FILES,
        ("rm", "-rf", BASE, BACK, MARK, REPAIRS, HISTORY, SLICE_FOLDER),
        why="The oplog copy, its checksum, the logs and the plan stay. The backup was never touched.",
    )  # fmt: skip
    if not own_spare_runs:
        return remove
    stop = run(
        Phase.CLEAN, "Stop the spare", Effect.WRITES_SPARE, ("bash", own_spare.PROGRAM, "stop"),
        why="Its data stay in spare-data: remove them when nobody needs them any more.",
    )  # fmt: skip
    return join([stop, remove])
