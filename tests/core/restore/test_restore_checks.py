"""Each check at its limit: what is refused, and what just passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from builders.incidents import incident
from builders.replay import OTHER, UUID, delete, entry, insert, update
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.deployment.members import SetMember
from tallyglass.moment import Ts
from tallyglass.mongo.alone import Alone
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.incidents.verdict import MAYBE_TTL
from tallyglass.oplog.snapshot import Harm
from tallyglass.restore.backup.backup import DIRECTORY, Contents, StoredCollection
from tallyglass.restore.checks.all_checks import run_checks
from tallyglass.restore.checks.images import before_reading, collections, possible, reached
from tallyglass.restore.checks.undone import stays, unclear
from tallyglass.restore.model.check import Level, merged_checks
from tallyglass.restore.model.proof import ExpectedNamespace
from tallyglass.restore.model.source import Backup
from tallyglass.restore.model.undo import Accident, Choice, FieldChange, Return, Strategy, WriteGroup
from tallyglass.restore.proof.base import BaseFacts, CountMismatch
from tallyglass.restore.proof.definitions import Definitions
from tallyglass.restore.proof.findings import Assessed, Covered, Findings, Located, Replayed
from tallyglass.restore.proof.inputs import Inputs, is_broken
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.oplog_query import MOST_LEFT_OUT
from tallyglass.restore.proof.read_inputs import _free_bytes
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.proof.returns import with_again
from tallyglass.restore.saved_oplog.joined import Join, Saved
from tallyglass.restore.saved_oplog.saved_oplog import Hole, Part, SavedOplog
from tallyglass.restore.saved_oplog.slice_file import Block, SliceFile
from tallyglass.restore.spare.spare import Spare
from tallyglass.restore.timeline.chains import Problem
from tallyglass.restore.timeline.coverage import NoStart, Start
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.tool_uri import tool_uri
from tallyglass.restore.tools.toolset import Tools
from tallyglass.restore.undo.accident import UpdateEffect
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.infer import Inferred

TWO = (FieldChange(("61",), None),)
GROUP = WriteGroup("s.c", "set a", 1, Ts(9, 1), Ts(9, 2), 1)
BRIEF = "1 entry: set a (9:1 to 9:2, 00:00:09Z to 00:00:09Z)"
ONE_SUM = "The run stops before it writes, unless one sum or one product explains all of them."
OK, WARN, BLOCK = Level.OK, Level.WARN, Level.BLOCK
LIMIT = Ts(20, 5)
BACKUP = Backup(Path("/b"), DIRECTORY, False, Ts(10, 1), Ts(12, 1), "oplog", server_version="6.0.5", bytes=1_000)
SOURCE = Deployment(
    Kind.REPLICA_SET, version="6.0.5", set_name="rs", primary="a:1", me="a:1",
    members=(SetMember("a:1", "PRIMARY", True), SetMember("b:1", "SECONDARY")),
)  # fmt: skip
SPARE = Spare("s:2", "6.0.9", fcv="6.0", kind=Kind.STANDALONE, members=("s:2",), ttl_monitor=False, free_to_apply=True)


INPUTS = Inputs(
    LIMIT, SOURCE, Contents(BACKUP), spare=SPARE, source_uri=tool_uri("mongodb://a:1/", "rs"),
    spare_uri=tool_uri("mongodb://u@s:2/"), free_bytes=10**9,
)  # fmt: skip
VALIDATED = Replay({"s.c": StoredCollection("s.c", "collection", None, {"validator": {"a": 1}}, ())})
RECORD_IDS = Replay({"s.c": StoredCollection("s.c", "collection", None, {"recordIdsReplicated": True}, ())})
START = Start(Ts(9, 1), 10, Ts(1, 1), Ts(30, 1))


def findings(
    *,
    backup: Backup = BACKUP,
    contents: dict[str, Any] | None = None,
    inputs: dict[str, Any] | None = None,
    located: dict[str, Any] | None = None,
    covered: dict[str, Any] | None = None,
    replay: Replay | None = None,
    base: BaseFacts | None = None,
    loss: LossCount | None = None,
    overwritten: str = "",
) -> Findings:
    """A plan that passes all checks, except for the given changes to the fields of each stage."""
    first = replace(INPUTS, contents=Contents(backup, **contents or {}), **inputs or {})
    ends = replace(Located(first, "6.0", Ts(30, 1), START), **located or {})
    if not isinstance(ends.start, Start):
        return Findings(first, ends)
    window = replace(Covered(ends, ends.start, replay or Replay({}), hours_left=100.0), **covered or {})
    replayed = Replayed(window, base or BaseFacts(), loss=loss or LossCount())
    return Findings(first, Assessed(replayed, overwritten=overwritten))


def levels(found: Findings) -> dict[str, set[Level]]:
    """The levels at which each check was made."""
    made: dict[str, set[Level]] = {}
    for check in run_checks(found):
        made.setdefault(check.id, set()).add(check.level)
    return made


def blocked(found: Findings) -> set[str]:
    return {name for name, made in levels(found).items() if BLOCK in made}


def test_a_sound_plan_passes_every_check() -> None:
    assert [check for check in run_checks(findings()) if check.level is not OK] == []


@pytest.mark.parametrize(
    ("start", "end", "right"),
    [
        (Ts(10, 1), Ts(20, 4), True),
        (Ts(10, 1), LIMIT, False),
        (Ts(10, 1), Ts(20, 6), False),
        (Ts(20, 4), Ts(20, 4), True),
        (LIMIT, None, False),
        (Ts(20, 4), None, True),
    ],
)
def test_a_backup_must_end_before_the_point(start: Ts, end: Ts | None, right: bool) -> None:
    assert blocked(findings(backup=replace(BACKUP, start=start, end=end))) == (
        set() if right else {"backup-after-point"}
    )


@pytest.mark.parametrize(
    ("limit", "newest", "majority", "check"),
    [
        (LIMIT, LIMIT, LIMIT, ""),
        (LIMIT, Ts(20, 4), Ts(20, 4), "limit-beyond-oplog"),
        (LIMIT, Ts(30, 1), Ts(20, 4), "not-majority"),
        (LIMIT, Ts(30, 1), None, "not-majority"),
        (Ts(0, 0), Ts(30, 1), Ts(30, 1), "limit-zero"),
    ],
)
def test_the_point_must_be_an_entry_that_a_majority_has(limit: Ts, newest: Ts, majority: Ts | None, check: str) -> None:
    located = {"majority": majority, "start": replace(START, newest=newest)}
    found = levels(findings(inputs={"limit": limit}, located=located))
    assert {name for name, said in found.items() if BLOCK in said} == ({check} if check else set())
    assert (found.get("majority") == {OK}) is (check == "")


@pytest.mark.parametrize(
    ("spare", "check"),
    [
        ({"set_name": "rs", "kind": Kind.REPLICA_SET}, "spare-is-source"),
        ({"set_name": "other", "kind": Kind.REPLICA_SET}, ""),
        ({"address": "b:1", "members": ("b:1",)}, "spare-is-source"),
        ({"address": "tunnel:9", "members": ("b:1",)}, "spare-is-source"),
        ({"address": "seed:1"}, "spare-is-source"),
        ({"sharded": True}, "spare-sharded"),
        ({"kind": Kind.MONGOS}, "spare-sharded"),
        ({"version": "7.0.1"}, "spare-version"),
        ({"fcv": "5.0"}, "fcv-differs"),
        ({"databases": ("shop",)}, "spare-not-empty"),
        ({"ttl_monitor": True}, "spare-ttl"),
        ({"free_to_apply": False}, "spare-privileges"),
        ({"trouble": "refused"}, "spare-unreachable"),
    ],
)
def test_the_spare_must_be_empty_and_not_the_source(spare: dict[str, Any], check: str) -> None:
    changed = {"spare": replace(SPARE, **spare), "source_uri": tool_uri("mongodb://seed:1/", "rs")}
    assert blocked(findings(inputs=changed)) == ({check} if check else set())


@pytest.mark.parametrize(("primary", "level"), [("a:1", WARN), ("b:1", BLOCK), ("", BLOCK)])
def test_only_the_primary_can_be_restored_to_through_a_tunnel(primary: str, level: Level) -> None:
    alone = replace(SOURCE, primary=primary, alone=Alone("localhost:9", ("a:1", "b:1")))
    (check,) = (one for one in run_checks(findings(inputs={"deployment": alone})) if one.id == "source-alone")
    assert check.level is level
    assert "a:1, b:1, which cannot be reached from here: reading localhost:9 alone." in check.title


@pytest.mark.parametrize(("spare", "check"), [({"ttl_monitor": None}, "spare-ttl"), ({"fcv": None}, "fcv-unknown"),
                                              ({"free_to_apply": None}, "spare-privileges")])  # fmt: skip
def test_what_cannot_be_read_of_the_spare_is_a_warning(spare: dict[str, Any], check: str) -> None:
    found = levels(findings(inputs={"spare": replace(SPARE, **spare)}))
    assert found[check] == {WARN}
    assert not any(BLOCK in said for said in found.values())


@pytest.mark.parametrize(("fcv", "check"), [("6.0", ""), ("5.0", "fcv-differs"), (None, "fcv-unknown")])
def test_a_spare_of_its_own_has_the_feature_compatibility_of_its_version(fcv: str | None, check: str) -> None:
    made = levels(findings(inputs={"own_spare": 27117, "spare": None}, located={"fcv": fcv}))
    assert {name for name in made if name.startswith("fcv-")} == ({check} if check else set())


@pytest.mark.parametrize(
    ("found", "check"),
    [
        ({"contents": {"set_name": "other"}}, "other-set"),
        ({"contents": {"set_name": "rs"}}, ""),
        ({"contents": {"fcv": "5.0"}}, "fcv-change"),
        ({"contents": {"problems": ("s/c.bson is cut off",)}}, "backup-broken"),
        ({"base": BaseFacts(problems=["s.c: cut off"])}, "backup-broken"),
        ({"base": BaseFacts(missing={"s.c": 1})}, "document-missing"),
        ({"backup": replace(BACKUP, server_version="5.0.4")}, "backup-version"),
        ({"backup": replace(BACKUP, start=None)}, "backup-start-unknown"),
        ({"inputs": {"deployment": replace(SOURCE, sharded=True)}}, "sharded"),
        ({"inputs": {"deployment": replace(SOURCE, kind=Kind.STANDALONE)}}, "no-oplog"),
        ({"inputs": {"uri_trouble": "No."}}, "uri"),
        ({"inputs": {"tools": Tools({"mongodump": (100, 9, 5)})}}, "tool-version"),
        ({"inputs": {"tools": Tools({"mongodump": (100, 10, 0)})}}, ""),
        ({"inputs": {"tools": Tools({"mongodump": (100, 10, 0)}), "deployment": replace(SOURCE, version="8.0.4"),
                     "spare": replace(SPARE, version="8.0.4")},
          "backup": replace(BACKUP, server_version="8.0.4")}, "tool-version"),
        ({"inputs": {"tools": Tools({"mongodump": (100, 14, 1)})}, "replay": VALIDATED}, "tool-version"),
        ({"inputs": {"tools": Tools({"mongodump": (100, 15, 0)})}, "replay": VALIDATED}, ""),
        ({"located": {"start": NoStart("no", Ts(30, 1))}}, "coverage"),
        ({"overwritten": "no"}, "coverage"),
        ({"covered": {"is_cut": True}}, "coverage"),
        ({"covered": {"lost_beginning": Ts(2, 1)}}, "mid-transaction"),
    ],
)  # fmt: skip
def test_what_cannot_be_proven_is_refused(found: dict[str, Any], check: str) -> None:
    assert blocked(findings(**found)) == ({check} if check else set())


@pytest.mark.parametrize(
    ("after", "choice", "differs", "check"),
    [
        (LIMIT, None, "", ("oplog-hole", BLOCK)),
        (LIMIT, Choice("s.c", "s.d"), "", ("oplog-hole", WARN)),
        (Ts(20, 4), Choice("s.c", "s.d"), "", ("oplog-hole", BLOCK)),
        (LIMIT, Choice("s.c", "s.d"), "other terms", ("oplog-differs", BLOCK)),
    ],
)
def test_a_hole_after_the_point_only_allows_a_copy(
    after: Ts, choice: Choice | None, differs: str, check: tuple[str, Level]
) -> None:
    saved = Saved((), SavedOplog(()), Join(Hole(after, Ts(25, 1)), differs))
    inputs = replace(INPUTS, saved=saved, choice=choice)
    assert [(one.id, one.level) for one in run_checks(Findings(inputs)) if one.id.startswith("oplog-")] == [check]
    assert is_broken(inputs) is (check[1] is BLOCK)


def stored(ns: str, kind: str = "collection", uuid: str = "00" * 16) -> dict[str, Any]:
    return {"contents": {"collections": {ns: StoredCollection(ns, kind, None, {}, (), uuid)}}}


@pytest.mark.parametrize(
    ("found", "check"),
    [
        ({"contents": {"written_over": 62}}, ""),
        ({"contents": {"written_over": 63}}, "file-times"),
        ({"contents": {"written_over": 63}, "backup": replace(BACKUP, end=None)}, "backup-end-unknown"),
        (stored("s.c"), ""),
        (stored("s.c", uuid=""), "uuid-unknown"),
        (stored("s.c", "view", ""), ""),
        (stored("admin.c", uuid=""), ""),
        (stored("s.a\nb"), "name-skipped"),
        ({"covered": {"unlisted": frozenset({"s"})}}, "uuid-unlisted"),
        ({"base": BaseFacts(unread_bytes=7)}, "backup-unread"),
        ({"replay": RECORD_IDS}, "record-ids"),
        ({"inputs": {"spare": replace(SPARE, kind=Kind.REPLICA_SET, set_name="other")}}, "spare-in-set"),
        ({"inputs": {"source_uri": replace(tool_uri("mongodb://a:1/", "rs"), warnings=("left out",))}}, "uri-option"),
    ],
)  # fmt: skip
def test_what_leaves_a_doubt_is_a_warning(found: dict[str, Any], check: str) -> None:
    made = levels(findings(**found))
    assert {name for name, said in made.items() if said != {OK}} == ({check} if check else set())
    assert made.get(check, {WARN}) == {WARN}


@pytest.mark.parametrize(("kind", "check"), [("drop", ""), ("users", "incident-not-undone")])
def test_an_incident_that_a_restore_does_not_undo_is_refused(kind: str, check: str) -> None:
    asked = {"incident": incident(1, 9, kind=kind, ns="s.c", op="")}
    assert ("incident-not-undone" in blocked(Findings(replace(INPUTS, **asked)))) is bool(check)


def test_an_oplog_that_may_not_be_read_is_refused() -> None:
    assert "privileges" in blocked(Findings(INPUTS, unreadable="No."))


def test_everything_that_the_replay_cannot_do_is_refused() -> None:
    replay = Replay({})
    replay.problems.append(Problem("unknown-command", "x", Ts(11, 1)))
    assert blocked(findings(replay=replay)) == {"unknown-command"}


@pytest.mark.parametrize(("upserts", "fatal", "check"), [(True, 1, ""), (False, 0, ""), (False, 1, "dead-updates")])
def test_an_update_that_stops_the_replay_is_refused(upserts: bool, fatal: int, check: str) -> None:
    found = findings(replay=Replay({}, upserts=upserts), base=BaseFacts(fatal=fatal))
    assert blocked(found) == ({check} if check else set())


@pytest.mark.parametrize(("more", "level"), [(0, WARN), (1, BLOCK)])
def test_the_query_names_only_so_many_entries(more: int, level: Level) -> None:
    replay = Replay({})
    replay.on_missing_collection = {Ts(11, i): ("s.gone", b"") for i in range(MOST_LEFT_OUT - 2)}
    replay.left_to_repair = [Ts(10, 1)]
    replay.capped_deletes = [Ts(12, i) for i in range(1 + more)]
    assert levels(findings(replay=replay))["dead-operations"] == {level}


def test_tools_of_different_versions_are_a_warning_whichever_way_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Tools({"mongodump": (100, 10, 0), "mongorestore": (100, 11, 0)})
    assert levels(findings(inputs={"tools": mixed}))["tool-mixed"] == {WARN}
    monkeypatch.setattr(toolset, "installed", lambda: mixed)
    assert "tool-mixed" in {check.id for check in before_reading(SOURCE, incident(1, 9, ns="s.c"))}


@pytest.mark.parametrize(("own", "free", "level"), [(0, 1_300, OK), (0, 1_299, BLOCK), (27117, 3_899, BLOCK)])
def test_the_disk_must_hold_what_the_commands_write(own: int, free: int, level: Level) -> None:
    assert levels(findings(inputs={"own_spare": own, "free_bytes": free}))["disk"] == {level}


def test_transactions_that_are_open_at_the_point_are_no_namespaces() -> None:
    begun = tuple([insert(at, 1)] for at in (18, 19))
    titles = [one.title for one in merged_checks(run_checks(findings(covered={"open_at_limit": begun})))]
    assert len([title for title in titles if title.startswith("The transaction that began at")]) == len(begun)


def test_every_difference_that_a_person_has_to_set_right_is_listed() -> None:
    found = findings()
    assert found.assessed is not None
    by_hand = tuple(f"s.c, index {n}: it differs now" for n in range(11))
    assessed = replace(found.assessed, definitions=Definitions(by_hand=by_hand))
    listed = [one.title for one in run_checks(Findings(found.inputs, assessed)) if one.id == "definitions-by-hand"]
    assert listed == [f"{text}." for text in by_hand]


def test_the_room_below_a_name_that_cannot_be_looked_up_is_unknown(tmp_path: Path) -> None:
    assert _free_bytes(str(tmp_path / ("x" * 300) / "run")) is None
    assert _free_bytes(str(tmp_path / "not" / "made"))


def up_to(last: Ts) -> Saved:
    """Slices that the live oplog continues."""
    entry = bson.encode({"ts": Timestamp(last.t, last.i), "op": "n", "ns": "", "o": {}})
    return Saved(
        (), SavedOplog((Part(SliceFile(Path("/s"), (Block(0, 9, Ts(1, 1)),), entry, entry), Ts(0, 0)),)), Join()
    )


@pytest.mark.parametrize(("hours", "level"), [(24.0, None), (23.9, WARN), (None, WARN)])
def test_an_oplog_that_is_soon_overwritten_is_a_warning(hours: float | None, level: Level | None) -> None:
    assert levels(findings(covered={"hours_left": hours})).get("head-room") == (None if level is None else {level})
    for saved, needed in ((None, "the start"), (up_to(LIMIT), ""), (up_to(Ts(20, 4)), "the newest saved entry")):
        found = findings(inputs={"saved": saved}, covered={"hours_left": hours})
        told = f"? In about 23.9 h the server overwrites {needed}."
        told = told if hours else f"? How long the oplog still holds {needed} is unknown."
        assert said(found, "head-room") == [told] * bool(level and needed)


@pytest.mark.parametrize(
    ("before", "at_limit", "warned"),
    [
        (entry(19, "c", "s.$cmd", {"drop": "c"}), entry(20, "c", "s.$cmd", {"dropDatabase": 1}), True),
        (entry(19, "c", "t.$cmd", {"drop": "c"}), entry(20, "c", "s.$cmd", {"dropDatabase": 1}), False),
        (delete(19, 1), entry(20, "c", "s.$cmd", {"dropDatabase": 1}), False),
        (delete(19, 1), delete(20, 2), True),
        (delete(18, 1), delete(20, 2), False),
        (delete(19, 1), update(20, 2), False),
        (delete(19, 1), delete(20, 2, "s.d"), False),
        (update(19, 1, lsid={"id": 1}, txnNumber=Int64(1)), update(20, 2), False),
        (insert(19, 1), insert(20, 2), False),
        (None, delete(20, 2), False),
    ],
)
def test_a_point_within_the_mistake_is_a_warning(before: Entry | None, at_limit: Entry, warned: bool) -> None:
    found = findings(located={"at_limit": at_limit}, covered={"before_limit": before})
    assert ("inside-incident" in levels(found)) is warned


def test_a_change_of_feature_compatibility_after_the_point_is_refused() -> None:
    loss = LossCount()
    loss.fcv_changed = Ts(25, 1)
    assert blocked(findings(loss=loss)) == {"fcv-after"}


def test_all_that_a_full_rollback_would_lose_is_counted() -> None:
    loss = LossCount()
    loss.changed = {"s.c": Changed(inserts=1, updates=2, deletes=3), "s.d": Changed(inserts=10)}
    (warned,) = (check for check in run_checks(findings(loss=loss)) if check.id == "loss")
    assert warned.title.startswith("16 operations came after the point")


@pytest.mark.parametrize(("strategy", "warned"), [(Strategy.MERGE, True), (Strategy.REPLACE, False)])
def test_large_documents_are_a_warning_where_they_are_merged(strategy: Strategy, warned: bool) -> None:
    found = findings(base=BaseFacts(large={"s.c": 1}))
    assert found.assessed is not None
    undone = Inferred(Accident("updates", "s.c", LIMIT, LIMIT, updates=True))
    assessed = replace(found.assessed, inferred=undone, returns=(Return("s.c", strategy),))
    assert ("large-documents" in levels(replace(found, reached=assessed))) is warned


@pytest.mark.parametrize(("kind", "said"), [("removal", ["s.c: 3 removed _ids were"]), ("updates", [])])
def test_removed_ids_that_were_inserted_again_are_a_warning(kind: str, said: list[str]) -> None:
    accident = Accident(kind, "s.c", LIMIT, LIMIT)
    rows = (Return("s.c", Strategy.MERGE), Return("s.d", Strategy.MERGE), Return("s.r", Strategy.REPLACE))
    found = findings()
    assert found.assessed is not None
    assessed = replace(
        found.assessed, inferred=Inferred(accident), returns=with_again(rows, {"s.c": 3, "s.r": 2}, accident)
    )
    checks = run_checks(replace(found, reached=assessed))
    warned = [one.title for one in checks if one.id == "inserted-again" and one.level is Level.WARN]
    assert [title.partition(" inserted")[0] for title in warned] == said


@pytest.mark.parametrize(
    ("op", "ns", "o", "said"),
    [
        ("u", "s.c", {}, ""),
        ("d", "s.c", {}, ""),
        ("c", "admin.$cmd", {"applyOps": [{"op": "u", "ns": "s.c", "o": {}}]}, "what it updated"),
        ("c", "admin.$cmd", {"applyOps": [{"op": "d", "ns": "s.c", "o": {}}]}, ""),
        ("c", "s.$cmd", {"renameCollection": "s.a", "to": "s.c", "dropTarget": OTHER}, "what is live there"),
        ("c", "s.$cmd", {"renameCollection": "s.a", "to": "s.c"}, ""),
    ],
)
def test_what_stays_without_an_incident_is_a_warning(op: str, ns: str, o: dict[str, Any], said: str) -> None:
    titles = [check.title for check in stays(entry(20, op, ns, o))]
    assert [said in title for title in titles] == ([True] if said else [])


@pytest.mark.parametrize(("kind", "check"), [("collection", ""), ("view", "not-at-point"), (None, "not-at-point")])
def test_a_copy_is_only_of_a_collection_that_was_there_at_the_point(kind: str | None, check: str) -> None:
    found = findings(inputs={"choice": Choice("s.c", "s.d")})
    assert found.replayed is not None
    expected = (ExpectedNamespace("s.c", kind, 1),) if kind else ()
    assessed = Assessed(replace(found.replayed, expected=expected))
    assert blocked(replace(found, reached=assessed)) == ({check} if check else set())


@pytest.mark.parametrize(
    ("at_limit", "check"),
    [
        (entry(20, "c", "s.$cmd", {"drop": "c"}, ui=UUID), "damage-not-in-backup"),
        (entry(20, "d", "s.c", {"_id": 1}, ui=UUID), "damage-not-in-backup"),
        (entry(20, "d", "s.d", {"_id": 1}, ui=OTHER), ""),
        (entry(20, "c", "s.$cmd", {"dropDatabase": 1}), "damage-not-in-backup"),
        (entry(20, "c", "t.$cmd", {"dropDatabase": 1}), ""),
    ],
)
def test_what_was_damaged_must_be_in_the_backup(at_limit: Entry, check: str) -> None:
    later = LaterWrites(limit=LIMIT)
    for row in (delete(20, 1), entry(21, "c", "s.$cmd", {"drop": "c"}, ui=UUID)):
        later.record(row, row.ts)
    later.record(entry(22, "d", "s.c", {"_id": 1}, ui=UUID), Ts(22, 1))
    found = findings(located={"at_limit": at_limit})
    assert found.replayed is not None
    made = levels(replace(found, reached=Assessed(replace(found.replayed, later=later))))
    assert ("damage-not-in-backup" in made, "not-in-backup" in made) == (bool(check), not check)


def test_a_time_series_collection_of_the_backup_is_known_by_its_name() -> None:
    weather = {"s.w": StoredCollection("s.w", "timeseries", None, {"timeseries": {}}, ())}
    later = LaterWrites(limit=LIMIT)
    for ns in ("s.system.buckets.w", "s.system.buckets.x"):
        later.write("d", ns, ns.encode(), b"1")
    found = findings(replay=Replay(weather))
    assert found.replayed is not None
    checks = run_checks(replace(found, reached=Assessed(replace(found.replayed, later=later))))
    titles = [check.title for check in checks if check.id == "not-in-backup"]
    assert [title.partition(":")[0] for title in titles] == ["s.system.buckets.x"]


@pytest.mark.parametrize(
    ("deployment", "ids"),
    [
        (SOURCE, []),
        (replace(SOURCE, version="5.0.30"), ["images-version"]),
        (replace(SOURCE, sharded=True), ["images-sharded"]),
        (replace(SOURCE, kind=Kind.STANDALONE), ["images-sharded"]),
    ],
)
def test_only_one_replica_set_of_6_0_and_later_keeps_pre_images(deployment: Deployment, ids: list[str]) -> None:
    assert [check.id for check in possible(deployment, incident(1, 9, ns="s.c", op="d"))] == ids


@pytest.mark.parametrize(("name", "ids"), [("s." + "c" * 213, []), ("s." + "c" * 214, ["images-name"]),
                                           ("s.a$b", ["images-name"])])  # fmt: skip
def test_a_copy_needs_room_for_a_longer_name(name: str, ids: list[str]) -> None:
    live = {name: CollectionInfo(Namespace.parse(name))}
    assert [check.id for check in collections([name], live, {}, incident(1, 9, ns="s.c", op="d"))] == ids


@pytest.mark.parametrize(
    ("oldest", "majority", "ids"),
    [
        (LIMIT, LIMIT, []),
        (Ts(20, 6), LIMIT, ["coverage"]),
        (None, LIMIT, ["coverage"]),
        (LIMIT, Ts(20, 4), ["not-majority"]),
        (LIMIT, None, ["not-majority"]),
    ],
)
def test_the_oplog_has_the_point_of_an_undo_from_images(oldest: Ts | None, majority: Ts | None, ids: list[str]) -> None:
    assert [check.id for check in reached(oldest, majority, LIMIT)] == ids


def test_an_old_backup_tool_is_a_warning() -> None:
    assert levels(findings(backup=replace(BACKUP, tool_version="100.3.1")))["backup-tool-old"] == {WARN}
    assert "backup-tool-old" not in levels(findings(backup=replace(BACKUP, tool_version="100.4.0")))


@pytest.mark.parametrize(("fcv", "refused"), [("8.0", False), ("9.0", True)])
def test_time_series_collections_of_9_0_are_refused(fcv: str, refused: bool) -> None:
    weather = StoredCollection("s.w", "timeseries", None, {}, ())
    source = replace(SOURCE, version="9.0.1")
    found = findings(contents={"collections": {"s.w": weather}}, inputs={"deployment": source}, located={"fcv": fcv})
    assert ("viewless-timeseries" in blocked(found)) is refused


@pytest.mark.parametrize(
    ("options", "op", "ids"),
    [({"capped": True}, "d", ["images-capped"]), ({}, "d", []), ({"capped": True}, "u", []), (None, "d", [])],
)
def test_what_comes_back_to_a_capped_collection_may_remove_its_oldest(
    options: dict[str, Any] | None, op: str, ids: list[str]
) -> None:
    live = {"s.c": CollectionInfo(Namespace("s", "c"), options=options)}
    assert [check.id for check in collections(["s.c"], live, {}, incident(1, 9, ns="s.c", op=op))] == ids


@pytest.mark.parametrize(
    ("fields", "check"),
    [
        (frozenset({"exp.at"}), "expired-by-accident"),
        (frozenset({"other"}), ""),
        (frozenset(), ""),
        (None, "expired-unknown"),
    ],
)
def test_documents_that_may_have_expired_by_the_accident_are_named_before(
    fields: frozenset[str] | None, check: str
) -> None:
    effect = UpdateEffect(computed=frozenset({(b"exp",)})).stored()
    accident = Accident("updates", "s.c", Ts(20, 5), Ts(20, 6), updates=True, effect=effect, statement="updateMany()")
    found = findings()
    assert found.assessed is not None
    assessed = replace(found.assessed, inferred=Inferred(accident), expiring={"s.c": fields})
    assert set(levels(replace(found, reached=assessed))) - set(levels(findings())) == ({check} if check else set())


@pytest.mark.parametrize(
    ("kind", "compared", "warned"),
    [("collMod", (), True), ("collMod", ("s.c",), False), ("deleteMany", (), False)],
)
def test_a_plan_for_a_definition_that_it_does_not_set_back_says_so(
    kind: str, compared: tuple[str, ...], warned: bool
) -> None:
    found = findings(inputs={"incident": incident(1, 9, kind=kind)})
    assert found.assessed is not None
    assessed = replace(found.assessed, definitions=Definitions(compared=compared))
    assert ("return" in levels(replace(found, reached=assessed))) is warned


def said(found: Findings, *names: str) -> list[str]:
    """What the checks with these ids say, with their levels where they do not pass."""
    signs = {OK: "", WARN: "? ", BLOCK: "! "}
    return [f"{signs[one.level]}{one.title}" for one in run_checks(found) if one.id in names]


def test_of_many_findings_of_one_kind_the_first_are_shown_and_the_others_counted() -> None:
    many = {f"s.c{n}": 1 for n in range(7)}
    mismatches = [CountMismatch(ns, Ts(11, 1), 2_000, 1) for ns in many]
    base = BaseFacts(
        problems=[f"{ns} is cut off." for ns in many], missing=many, unlike_earlier=many, count_mismatches=mismatches,
        indexes_unlike_earlier={ns: ["a_1"] for ns in many}, unlike_later=dict.fromkeys(many, (1, 2)),
    )  # fmt: skip
    replay = Replay({})
    replay.problems = [Problem("order", f"it is {n}", Ts(11, n)) for n in range(12)]
    begun = tuple([insert(at, 1)] for at in range(11, 18))
    found = findings(base=base, replay=replay, covered={"open_at_limit": begun})
    more = "And 2 more like these."
    shown = {
        "backup-broken": "! The backup is damaged or incomplete: {} is cut off.",
        "count-differs": "! {} held 2,000 documents when it was dropped at 11:1; backup and oplog give 1.",
        "document-surplus": "! {}: 2 documents that were inserted after the point would be there at it.",
    }
    for name, text in shown.items():
        assert said(found, name) == [*(text.format(f"s.c{n}") for n in range(5)), f"! {more}"]
    assert [len(said(found, name)) for name in ("base-differs", "document-missing", "open-transaction")] == [6, 12, 7]
    assert said(found, "order") == [*(f"! It is {n}." for n in range(5)), "! And 7 more like these."]
    slices = Saved((), SavedOplog((), problems=tuple(map(str, range(6)))), Join(Hole(Ts(21, 1), Ts(25, 1))))
    broken = Findings(replace(INPUTS, saved=slices))
    assert said(broken, "oplog-slice-broken") == [f"? A saved slice is not whole: {n}." for n in range(6)]
    held = findings(inputs={"spare": replace(SPARE, databases=(*"abcde", "f", "\x1b"))})
    assert said(held, "spare-not-empty", "spare") == ["! The spare is not empty: it holds a, b, c, d, e and 2 more."]


@pytest.mark.parametrize(
    ("applied", "set_name", "text"),
    [
        (1, "", "1 operation is replayed: less than a minute."),
        (299_999, "", "299,999 operations are replayed: less than a minute."),
        (300_000, "", "300,000 operations are replayed: about 1 min."),
        (18_000_000, "", "18,000,000 operations are replayed: about 60 min."),
        (18_000_001, "", "? 18,000,001 operations are replayed: about 60 min."),
        (3_960_000, "s", "3,960,000 operations are replayed: about 60 min."),
        (3_960_001, "s", "? 3,960,001 operations are replayed: about 60 min."),
    ],
)
def test_a_replay_of_more_than_an_hour_is_a_warning(applied: int, set_name: str, text: str) -> None:
    replay = Replay({})
    replay.applied = applied
    assert said(findings(replay=replay, inputs={"spare": replace(SPARE, set_name=set_name)}), "duration") == [text]


@pytest.mark.parametrize(
    ("dead", "without", "capped", "texts"),
    [
        (1, 0, 0, ["? 1 entry writes to collections that did not exist any more when the backup read them."]),
        (2, 0, 1, ["? 1 entry is a delete by which capped collections made room.",
                   "? 2 entries write to collections that did not exist any more when the backup read them."]),
        (0, 2, 2, ["? 2 entries are deletes by which capped collections made room.",
                   "? 2 entries are groups, or updates of documents, that were removed before the backup read them."]),
        (0, 1, 0, ["? 1 entry is a group, or an update of a document, that was removed before the backup read it."]),
        (1, MOST_LEFT_OUT - 1, 1,
         ["! 20,001 entries would have to be left out one by one, which is too many for a query."]),
    ],
)  # fmt: skip
def test_what_is_left_out_of_the_replay_is_counted(dead: int, without: int, capped: int, texts: list[str]) -> None:
    replay = Replay({})
    replay.on_missing_collection = {Ts(11, i): ("s.gone", b"") for i in range(dead)}
    replay.without = [Ts(12, i) for i in range(without)]
    replay.capped_deletes = [Ts(13, i) for i in range(capped)]
    assert said(findings(replay=replay), "capped-deletes", "dead-operations", "dead-updates") == texts


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (START, "The oplog holds all of 9:1 to 20:5, 10 s before the backup: 0 entries."),
        (replace(START, back_off=0), "The oplog holds all of 9:1 to 20:5: 0 entries."),
        (replace(START, oldest=Ts(9, 1), from_first_entry=True),
         "The oplog holds all of 9:1 to 20:5 (the set's first entry): 0 entries."),
        (replace(START, from_first_entry=True, back_off=1),
         "The oplog holds all of 9:1 to 20:5, 1 s before the backup: 0 entries."),
    ],
)  # fmt: skip
def test_where_the_replay_begins_is_told(start: Start, text: str) -> None:
    assert said(findings(located={"start": start}), "coverage") == [text]
    moved = {"start": replace(start, ts=Ts(8, 1)), "hours_left": None}
    assert said(findings(located={"start": start}, covered=moved), "transaction-start", "head-room") == [
        "? How long the oplog still holds the start is unknown.",
        "The start was moved to 8:1, where a transaction begins.",
    ]


@pytest.mark.parametrize(
    ("numbers", "largest", "text"),
    [
        ((8, 8), {"s.c": 7}, "number 8 became _id after the point; at the point the largest was 7."),
        ((7, 9), {"s.c": 8}, "numbers from 7 to 9 became _ids after the point; at the point the largest was 8."),
        ((7, 9), {"s.c": None}, "numbers from 7 to 9 became _ids after the point; at the point none was there."),
        ((7, 9), {}, "numbers from 7 to 9 became _ids after the point; the largest at the point is not known."),
        ((7, 9), {"s.c": 9}, ""),
        (None, {}, ""),
    ],
)
def test_ids_that_no_counter_handed_out_are_named(numbers: Any, largest: Any, text: str) -> None:
    loss = LossCount()
    loss.changed["s.c"] = Changed(numbers=numbers)
    found = findings(base=BaseFacts(largest=largest), loss=loss)
    assert found.assessed is not None
    for strategy in (Strategy.WHOLE, Strategy.REPLACE, Strategy.MERGE, Strategy.COPY):
        assessed = replace(found.assessed, returns=(Return("s.c", strategy),))
        expected = [f"? s.c: whole {text}"] if text and strategy in (Strategy.WHOLE, Strategy.REPLACE) else []
        assert said(Findings(found.inputs, assessed), "ids") == expected


def test_the_commands_hold_no_password_where_there_are_commands() -> None:
    title = "No command holds a password; the tools ask for it."
    assert [said(findings(inputs={"source_uri": uri}), "secrets") for uri in (INPUTS.source_uri, None)] == [[title], []]


@pytest.mark.parametrize(
    ("changes", "doubts", "groups", "shown"),
    [
        ({}, (), 0, []),
        ({"count": 3, "entries": 4}, (), 0, ["? 4 entries may be of the statement, which reported 3."]),
        ({"count": 3, "entries": 3}, (), 0, []),
        ({"effect": TWO}, (), 0, [f"? s.c: different values were written to a. {ONE_SUM}"]),
        ({"effect": TWO, "statement": "x"}, (), 0, []),
        ({"effect": TWO, "proven": True}, (), 0, []),
        ({}, ("One.", "Two."), 0, ["! s.c: these may be several statements. One. Two."]),
        ({}, ("One.",), 2, [f"! s.c: these may be several statements. One. Found: {BRIEF}; {BRIEF}."]),
        ({}, ("One.",), 9, [
            f"! s.c: these may be several statements. One. Found: {'; '.join([BRIEF] * 8)}; and 1 more groups."
        ]),
    ],
)  # fmt: skip
def test_what_may_be_several_statements_is_told_with_what_was_found(
    changes: dict[str, Any], doubts: tuple[str, ...], groups: int, shown: list[str]
) -> None:
    accident = replace(Accident("updates", "s.c", LIMIT, LIMIT), **changes)
    signs = {WARN: "? ", BLOCK: "! "}
    made = [f"{signs[one.level]}{one.title}" for one in unclear(accident, doubts, (GROUP,) * groups)]
    assert made == shown
    goes_on = [one.id for one in unclear(accident, doubts, (), incident(1, 9, open=True))]
    assert ("incident-open" in goes_on) is not accident.proven


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"kind": "ttl", "op": ""}, "A TTL index deleted these documents and would delete them again."),
        ({"note": f"x; {MAYBE_TTL}"},
         "The collection has a TTL index: if it deleted these documents, it would delete them again."),
        ({"kind": "drop", "op": ""}, "d: no pre-images are kept of what a command removes or replaces."),
        ({"harm": Harm.DEFINITION}, "d: this changes no document itself."),
        ({"kind": "transaction", "op": ""}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_what_leaves_no_pre_images_is_refused_and_what_expires_again_a_warning(
    changes: dict[str, Any], title: str
) -> None:
    made = list(possible(SOURCE, incident(1, 9, **{"ns": "s.c", "op": "d", "title": "d"} | changes)))
    assert [one.title for one in made] == [title] * bool(title)
    assert [one.level for one in made] == [WARN if one.id == "images-ttl" else BLOCK for one in made]


SET_SPARE = replace(SPARE, kind=Kind.REPLICA_SET, set_name="other")


@pytest.mark.parametrize(
    ("inputs", "level"),
    [
        ({"spare": SPARE}, BLOCK),
        ({"own_spare": 27117, "spare": None}, WARN),
        ({"spare": SET_SPARE}, WARN),
        ({"spare": None}, WARN),
    ],
)
@pytest.mark.parametrize("made_in", ["backup", "window"])
def test_encrypted_collections_need_a_replica_set(inputs: dict[str, Any], level: Level, made_in: str) -> None:
    """A standalone server refuses to create one ("Encrypted collections are not supported on standalone", 6.0.5)."""
    options = {"encryptedFields": {"fields": []}}
    held = {"s.c": StoredCollection("s.c", "collection", None, options, (), "")} if made_in == "backup" else {}
    replay = Replay(held)
    assert replay.is_plain is (made_in == "window")
    if made_in == "window":
        replay.feed(entry(1, "c", "s.$cmd", {"create": "c"} | options))
    assert not replay.is_plain
    assert levels(findings(inputs=inputs, replay=replay))["encrypted-collections"] == {level}
    replay.applied = 10_000_000
    slow = "own_spare" in inputs or inputs["spare"] is SET_SPARE
    minutes = 152 if slow else 33
    (text,) = said(findings(inputs=inputs, replay=replay), "duration")
    assert text.endswith(f"10,000,000 operations are replayed: about {minutes} min."), "in a set it is slower"
    assert "encrypted-collections" not in levels(findings(inputs=inputs))
