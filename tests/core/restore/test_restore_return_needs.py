"""What the return needs on the live set is checked before it begins: privileges, and names that must be free."""

from __future__ import annotations

import contextlib
from typing import Any, cast

import pytest

from builders.plan_folder import plan, step
from builders.plans import changed
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.undo.return_needs import check_return, check_set, missing_privileges, needs

WANTED = (("s", "", ("insert",)), ("s", "c", ("find",)))


def auth_info(*held: tuple[dict[str, Any], list[str]]) -> dict[str, Any]:
    return {
        "authenticatedUsers": [{}],
        "authenticatedUserPrivileges": [{"resource": resource, "actions": actions} for resource, actions in held],
    }


@pytest.mark.parametrize(
    ("resource", "actions", "lacking"),
    [
        ({"anyResource": True}, ["anyAction"], []),
        ({"db": "s", "collection": ""}, ["insert", "find"], []),
        ({"db": "", "collection": ""}, ["insert", "find"], []),
        ({"db": "s", "collection": "c"}, ["insert"], ["insert on s", "find on s.c"]),
        ({"db": "s", "collection": "c"}, ["find"], ["insert on s"]),
        ({"db": "t", "collection": ""}, ["insert", "find"], ["insert on s", "find on s.c"]),
        ({"cluster": True}, ["insert", "find"], ["insert on s", "find on s.c"]),
    ],
)
def test_each_missing_action_is_named(resource: dict[str, Any], actions: list[str], lacking: list[str]) -> None:
    assert missing_privileges(auth_info((resource, actions)), WANTED) == lacking


def test_a_privilege_on_all_databases_does_not_cover_local_and_system_collections() -> None:
    info = auth_info(({"db": "", "collection": ""}, ["find"]))
    assert missing_privileges(info, (("local", "oplog.rs", ("find",)),)) == ["find on local.oplog.rs"]
    assert missing_privileges(info, (("s", "system.views", ("find",)),)) == ["find on s.system.views"]


def test_without_access_control_nothing_is_missing() -> None:
    assert missing_privileges({"authenticatedUsers": []}, WANTED) == []


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (Return("s.c", Strategy.WHOLE), {"s.c": {"createCollection", "insert", "createIndex"}}),
        (Return("s.c", Strategy.WHOLE, "s.b"),
         {"s.b": {"createCollection", "insert", "find", "dropCollection", "createIndex"},
          "s": {"renameCollectionSameDB"}}),
        (Return("s.c", Strategy.COPY, "t.b"),
         {"t.b": {"createCollection", "insert", "find", "dropCollection", "createIndex"}}),
        (Return("s.c", Strategy.MERGE, "s.b"),
         {"s.b": {"createCollection", "insert", "find", "dropCollection", "update"},
          "s.c": {"find", "insert", "update", "listIndexes"}, "local.oplog.rs": {"find"}}),
        (Return("s.c", Strategy.MERGE, "s.b", recreated=True),
         {"s.b": {"createCollection", "insert", "find", "dropCollection", "update"},
          "s.c": {"find", "insert", "update", "listIndexes", "createIndex", "collMod"}, "local.oplog.rs": {"find"}}),
        (Return("s.c", Strategy.REPLACE, "s.b", away="s.a"),
         {"s": {"renameCollectionSameDB"}, "s.a": {"find"}, "local.oplog.rs": {"find"},
          "s.b": {"createCollection", "insert", "find", "dropCollection", "createIndex", "update", "listIndexes"},
          "s.c": {"find", "insert", "update", "dropCollection", "listIndexes"},
          "s.b_since": {"createCollection", "find", "insert", "update", "remove", "dropCollection"},
          "s.b_kept": {"createCollection", "find", "insert", "update", "remove"}}),
        (Return("s.c", Strategy.BESIDE), {}),
    ],
    ids=["whole", "whole, renamed", "another database", "merged", "recreated", "replaced", "by hand"],
)  # fmt: skip
def test_each_return_needs_what_its_steps_do(row: Return, wanted: dict[str, set[str]]) -> None:
    found = {f"{db}.{name}".strip("."): {*actions} for db, name, actions in needs([row], ["s.counters"])}
    assert found.pop("s.counters") == {"find", "insert", "update"}
    databases = {row.ns.partition(".")[0], row.beside.partition(".")[0] or "s"} if wanted else set()
    assert {ns for ns, actions in found.items() if "listCollections" in actions} == databases
    always = {"listCollections", "bypassDocumentValidation"}
    assert {ns: actions - always for ns, actions in found.items() if actions - always} == wanted


@pytest.mark.parametrize(
    ("row", "where"),
    [
        (Return("s.c", Strategy.WHOLE), "s.c"),
        (Return("s.c", Strategy.WHOLE, "s.b"), "s.b"),
        (Return("s.c", Strategy.REPLACE, "s.b", away="s.a"), "s.b"),
        (Return("s.c", Strategy.COPY, "s.b"), ""),
        (Return("s.c", Strategy.MERGE, "s.b"), ""),
    ],
)
def test_what_expires_by_its_own_option_is_counted_and_changed(row: Return, where: str) -> None:
    plain = {(db, name): {*actions} for db, name, actions in needs([row], [])}
    found = {(db, name): {*actions} for db, name, actions in needs([row], [], {"s.c": 60})}
    place = ("s", where.partition(".")[2])
    assert found == plain | ({place: plain[place] | {"find", "collMod"}} if where else {})
    assert needs([row], [], {"s.d": 60}) == needs([row], [])


class Live:
    """A live set with one user and one collection."""

    def __init__(self, info: dict[str, Any], name: str = "rs", set_id: str = "0123") -> None:
        config = {"settings": {"replicaSetId": set_id} if set_id else {}}
        self.replies = {"connectionStatus": {"authInfo": info}, "hello": {"setName": name}} | {
            "replSetGetConfig": {"config": config}
        }

    async def command(self, name: str, **how: Any) -> dict[str, Any]:
        assert how == ({"showPrivileges": True} if name == "connectionStatus" else {}), "or none are listed"
        return self.replies[name]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [CollectionInfo(Namespace(db, "weather"), "timeseries", {})]


async def check(info: dict[str, Any], *rows: Return) -> None:
    await check_return(cast(Gateway, Live(info)), changed(plan(step("true")), returns=rows))


async def test_a_user_who_may_not_write_is_stopped_before_anything_is_written() -> None:
    reads = auth_info(({"db": "s", "collection": ""}, ["find", "listCollections"]))
    with pytest.raises(PrivilegeError, match=r"Missing privileges for the return: .*insert.* on s.c_pitr"):
        await check(reads, Return("s.c", Strategy.WHOLE, "s.c_pitr"))
    await check({"authenticatedUsers": []}, Return("s.c", Strategy.WHOLE, "s.c_pitr"))


@pytest.mark.parametrize(
    ("row", "taken"),
    [
        (Return("s.weather", Strategy.WHOLE), True),
        (Return("s.weather", Strategy.WHOLE, "s.back"), True),
        (Return("s.rain", Strategy.WHOLE, "s.back"), False),
        (Return("s.weather", Strategy.MERGE), False),
        (Return("s.weather", Strategy.COPY, "t.back"), False),
        (Return("s.weather", Strategy.REPLACE, "s.back", away="s.kept"), False),
        (Return("s.rain", Strategy.REPLACE, "s.back", away="s.weather"), True),
    ],
)
async def test_a_name_that_the_last_steps_give_must_not_be_there(row: Return, taken: bool) -> None:
    """Found at the last step, it would have been loaded in vain."""
    words = r"^s\.weather was created since the plan\. Plan again\. Nothing was written\."
    with pytest.raises(InputError, match=words) if taken else contextlib.nullcontext():
        await check({"authenticatedUsers": []}, Return("s.other", Strategy.MERGE), row)


@pytest.mark.parametrize(
    ("name", "there", "planned", "right"),
    [
        ("rs", "0123", "0123", True),
        ("rs", "4567", "0123", False),
        ("rs", "4567", "", True),
        ("rs", "", "0123", True),
        ("other", "", "", False),
        ("", "", "", False),
    ],
)
async def test_another_set_than_that_of_the_plan_is_refused(name: str, there: str, planned: str, right: bool) -> None:
    facts = changed(plan(step("true")), set_id=planned).facts
    with contextlib.nullcontext() if right else pytest.raises(InputError, match="leads to another set"):
        is_known = await check_set(cast(Gateway, Live({}, name, there)), facts)
        assert is_known == bool(there and planned)


async def test_a_collection_that_comes_back_under_its_own_name_must_be_absent() -> None:
    with pytest.raises(InputError, match=r"s\.weather was created since the plan"):
        await check({}, Return("s.weather", Strategy.WHOLE))
    await check({}, Return("s.other", Strategy.WHOLE))
