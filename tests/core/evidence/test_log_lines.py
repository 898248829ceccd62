"""Lines of the server's log as facts: what each form says, and that what is not whole is counted and names nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builders.evidence import AT, MILLIS, REMOTE, SESSION, command, line, login, metadata, read, remove, statements
from tallyglass.evidence.facts import Client
from tallyglass.moment import Ts


def test_the_chain_of_a_delete() -> None:
    book = read(metadata(), login(), remove(722, 200), command(727))
    (found,) = statements(book)
    client = Client("alice@admin", "nightly-cleanup", REMOTE, "PyMongo 4.20.0", "conn9")
    assert (found.client, found.documents, found.text) == (client, 200, "deleteMany({s: 1})")
    assert (found.began, found.ended, found.after) == (MILLIS + 719, MILLIS + 722, Ts(1795409595, 265))
    assert (found.in_session, found.session.hex()) == (False, SESSION.replace("-", ""))
    assert book.sessions.get(found.session) == client
    assert book.covers(MILLIS + 1, MILLIS + 727)
    assert not book.covers(MILLIS, MILLIS + 727)


def test_the_next_command_of_the_session_bounds_it() -> None:
    later = {"clusterTime": {"$timestamp": {"t": 1795409595, "i": 465}}}
    others = {"lsid": {"id": {"$uuid": SESSION.replace("9", "8")}}}
    lines = [remove(722, 200), command(727), command(728, **others), command(729, **{"$clusterTime": later})]
    assert [one.before for one in statements(read(*lines))] == [Ts(1795409595, 465)]
    assert [one.before for one in statements(read(*lines[:3]))] == [None]


def test_a_command_that_its_client_was_not_told_of_is_not_bounded_by_the_next() -> None:
    same = {"clusterTime": {"$timestamp": {"t": 1795409595, "i": 265}}}
    for more, next_more in (({"lsid": None}, {"lsid": None}), ({"writeConcern": {"w": 0}}, {})):
        lines = [remove(722, 200), command(727, **more), command(729, **next_more, **{"$clusterTime": same})]
        assert [one.before for one in statements(read(*lines))] == [None]


def test_a_retryable_write_is_of_its_session() -> None:
    book = read(metadata(), login(), remove(722, 1), command(727, txnNumber=2))
    (found,) = statements(book)
    assert found.in_session
    sender = book.sender(found.session, 2)
    assert sender is not None
    assert sender.user == "alice@admin"


def test_a_command_owns_only_the_writes_within_its_time() -> None:
    (found,) = statements(read(remove(100, 5), command(727, millis=8, txnNumber=2)))
    assert found.in_session is None


def test_the_line_before_bounds_the_next_on_its_connection_only() -> None:
    book = read(remove(100, 5), remove(103, 5, ctx="conn8"), remove(104, 5), command(105))
    assert sorted((one.ended - MILLIS, one.floor) for one in statements(book)) == [
        (100, 0),
        (103, 0),
        (104, MILLIS + 100),
    ]


@pytest.mark.parametrize("zone", ["2026-11-23T06:53:15.722+02:00", "2026-11-22T23:23:15.722-05:30"])
def test_time_zones(zone: str) -> None:
    text = remove(0, 200).replace(AT.format(0), zone)
    assert [one.ended for one in statements(read(text))] == [MILLIS + 722]


def test_7_0_login_and_a_second_user_on_one_connection() -> None:
    newer = line(5286306, 3, {"client": REMOTE, "user": "bob", "db": "admin", "result": 0})
    (found,) = statements(read(metadata(), newer, remove(5, 1)))
    assert found.client.user == "bob@admin"
    (found,) = statements(read(metadata(), login(), newer, remove(5, 1)))
    assert found.client.user == "alice@admin or bob@admin"


def test_a_number_that_is_used_again_has_no_old_user() -> None:
    accepted = line(22943, 10, {"remote": "10.0.0.9:5000", "connectionId": 9}, ctx="listener")
    for between in (metadata("other", remote="10.0.0.9:5000"), accepted, line(4615611, 10, {}, ctx="initandlisten")):
        (found,) = statements(read(metadata(), login(), between, remove(20, 1).replace(REMOTE, "10.0.0.9:5000")))
        assert found.client.user == ""
    # Before 5.0 a line may have no address.
    plain = remove(20, 1).replace('"remote":', '"was":')
    for starting, user in (((), "alice@admin"), ((line(4615611, 10, {}, ctx="initandlisten"),), "")):
        (found,) = statements(read(metadata(), login(), *starting, plain))
        assert found.client.user == user
    # A line that names another address than the login is of another connection, whatever its number.
    (found,) = statements(read(metadata(), login(), remove(20, 1).replace(REMOTE, "10.0.0.9:5000")))
    assert (found.client.user, found.client.address) == ("", "10.0.0.9:5000")


def test_what_is_not_whole_is_counted() -> None:
    whole = remove(20, 5)
    cut = whole[: len(whole) // 2]
    truncated = remove(30, None, truncated={"command": {"q": {}}})
    redacted = remove(40, 7, {"s": "###"})
    old = "2020-01-01T00:00:00.000+0000 I  COMMAND  [conn9] command shop.orders"
    book = read(cut, truncated, redacted, old, json.dumps(["x"]), "")
    (found,) = statements(book)
    assert (found.documents, found.text, found.ids) == (7, "", None)
    assert (book.tally.cut, book.tally.redacted, book.tally.foreign) == (2, 1, 2)


@pytest.mark.parametrize(("removed", "many"), [(500, True), (1, False)])
def test_a_long_list_of_ids_that_the_server_cut_is_no_list_of_all(removed: int, many: bool) -> None:
    """The line of 6.0.5 for 500 ids holds 283 of them, and neither ``limit`` nor the command's session."""
    named = [{"$oid": f"{n:024x}"} for n in range(3)]
    cut = {"command": {"q": {"_id": {"$in": {"3": {"type": "objectId", "size": 12}}}}}}
    body = {"q": {"_id": {"$in": named}}}
    (found,) = statements(read(remove(20, removed, command=body, truncated=cut)))
    assert (found.documents, found.ids, found.many, found.in_session) == (removed, None, many, None)
    name = "deleteMany" if many else "deleteOne"
    assert (found.text.partition("(")[0], found.text.endswith(" (cut by the server)")) == (name, True)
    (whole,) = statements(read(remove(20, 3, {"_id": {"$in": named}})))
    assert (len(whole.ids or ()), found.shape == whole.shape) == (3, many)


@pytest.mark.parametrize(
    "damage",
    [
        {"t": 1}, {"t": {"$date": "yesterday"}}, {"t": {"$date": "2026-11-23T04:53:15.722"}}, {"attr": []},
        {"attr": {"type": "remove", "ns": 7, "durationMillis": "3"}}, {"ctx": None, "attr": None},
    ],
)  # fmt: skip
def test_unknown_forms_do_not_end_the_reading(damage: dict[str, Any]) -> None:
    book = read(json.dumps(json.loads(remove(20, 5)) | damage, separators=(",", ":")), remove(30, 6))
    assert [one.documents for one in statements(book)] == [6]
    assert book.tally.cut == 1


@pytest.mark.parametrize(("millis", "read_whole"), [(0, 1), (366 * 86_400_000, 1), (366 * 86_400_000 + 1, 0), (-1, 0)])
def test_a_statement_that_ran_for_longer_than_a_year_is_damaged(millis: int, read_whole: int) -> None:
    book = read(remove(20, 5, millis=millis))
    assert (len(statements(book)), book.tally.cut) == (read_whole, 1 - read_whole)
    ttl = {"namespace": "shop.orders", "index": "at_1", "numDeleted": 9, "durationMillis": millis}
    assert len(statements(read(line(5479200, 3, ttl, ctx="TTLMonitor")))) == read_whole


def test_an_update_without_its_values_names_no_documents() -> None:
    hidden: tuple[dict[str, Any], ...] = (
        {"q": {"_id": {"$in": ["###", "###"]}}, "u": {"$set": {"a": "###"}}, "multi": True},
        {"q": {}, "u": [{"$set": {"a": "###"}}], "multi": "###"},
    )
    attr = {"type": "update", "ns": "shop.orders", "nModified": 2, "durationMillis": 0}
    book = read(*(line(51803, 5, attr | {"command": body}) for body in hidden))
    assert [(one.text, one.ids, one.fields) for one in statements(book, "u")] == [("", None, None)] * 2
    assert book.tally.redacted == 2


def test_lines_that_a_collector_wrote_again_are_read_or_counted() -> None:
    spaced = json.dumps(json.loads(remove(20, 5)))
    sorted_by_key = json.dumps(json.loads(remove(30, 6)), sort_keys=True)
    book = read(spaced, sorted_by_key)
    assert [one.documents for one in statements(book)] == [5]
    assert book.tally.foreign == 1


def test_hostile_text_is_made_visible() -> None:
    esc = "\x1b[2J\u202e"
    book = read(metadata(f"app{esc}"), login(f"al{esc}"), remove(20, 5, {"s": esc}).replace("nightly-cleanup", "x"))
    (found,) = statements(book)
    shown = f"{found.client.user}{found.client.application}{found.text}"
    assert shown.isprintable()
    assert "\\u{1b}" in found.client.user
    assert "\\u{1b}" in found.client.application


def test_stopped_statements_count_keys_and_those_without_effect_are_only_heard() -> None:
    stopped = {"ok": 0, "errName": "Interrupted", "errCode": 11601, "keysDeleted": 46}
    heard: list[int | None] = []
    book = read(
        remove(20, 0),
        remove(30, None, **stopped),
        remove(40, None, errCode=50),
        heard=lambda one: bool(heard.append(one.documents)),
    )
    assert [(one.documents, one.keys) for one in statements(book)] == [(None, 46)]
    assert heard == [0, None]


def test_updates_find_and_modify_and_ids() -> None:
    update = {
        "q": {"_id": {"$in": [1, {"$oid": "a" * 24}]}},
        "u": {"$set": {"a.b": 1}, "$inc": {"n": 1}},
        "multi": True,
    }
    attr = {"type": "update", "ns": "shop.orders", "command": update, "nModified": 2, "durationMillis": 0}
    modify = {"findAndModify": "orders", "query": {"_id": 7}, "update": [{"$set": {"x": 1}}], "$db": "shop"}
    more = {"type": "command", "ns": "shop.orders", "command": modify, "nModified": 1, "durationMillis": 0}
    first, second = statements(read(line(51803, 5, attr), line(51803, 9, more)), "u")
    assert (first.ids, first.fields) == ({1, ("oid", "a" * 24)}, {"a", "n"})
    assert (
        first.text
        == f"updateMany({{_id: {{$in: [1, ObjectId('{'a' * 24}')]}}}}, {{$set: {{'a.b': 1}}, $inc: {{n: 1}}}})"
    )
    assert (second.ids, second.fields, second.in_session) == ({7}, None, False)


def test_ttl_is_the_server_itself() -> None:
    attr = {"namespace": "shop.orders", "index": "at_1", "numDeleted": 6, "durationMillis": 15}
    (found,) = statements(read(line(5479200, 700, attr, ctx="TTLMonitor")))
    assert (found.client.is_server, found.documents, found.in_session) == (True, 6, False)


def test_definitions_of_clients_only() -> None:
    commit = {"$timestamp": {"t": 1795409595, "i": 261}}
    build = {"uuid": {"$uuid": "d9fb2cc3-ec96-46a0-b0a3-6d27dc51f68d"}}
    drop = {"namespace": "shop.items", "ident": "x", "commitTimestamp": commit}
    book = read(
        metadata(), login(),
        line(22214, 529, drop), line(22214, 529, drop, ctx="ReplWriterWorker-3"),
        line(20438, 530, {"buildUUID": build, "namespace": "shop.items"}),
        line(20345, 540, {"buildUUID": build, "namespace": "shop.items", "index": "x_1", "commitTimestamp": commit},
             ctx="IndexBuildsCoordinatorMongod-0"),
        line(5324200, 550, {"cmdObj": {"collMod": "items", "index": {"name": "x_1"}}}),
        line(22206, 560, {"namespace": "shop.items", "index": "x\x1b{db}", "commitTimestamp": commit}),
        line(22214, 562, {"namespace": "shop.d", "dropTime": {"": commit}}),
        line(22206, 564, {"namespace": "shop.d", "index": "a_1", "dropTime": commit}),
        line(20342, 570, {"db": "old", "mostRecentDropOpTime": {"ts": commit, "t": 1}}),
        line(20342, 575, {"db": "older"}),
        line(20319, 580, {"fromName": "shop.items", "toName": "shop.wares"}), line(20319, 590, {}),
        line(20345, 600, {"buildUUID": None, "namespace": "shop.b", "index": "y_1"}),
        line(20345, 610, {"buildUUID": build | {"x": 1}, "namespace": "shop.c", "index": "z_1"}),
    )  # fmt: skip
    names = frozenset({"drop", "createIndexes", "collMod", "dropIndexes", "dropDatabase", "rename"})
    found = book.definitions(names, 0, MILLIS * 2)
    assert [(one.name, one.ns, one.at - MILLIS, one.commit.i, one.text) for one in found] == [
        ("drop", "shop.items", 529, 261, "drop shop.items"),
        ("createIndexes", "shop.items", 540, 261, "createIndexes x_1 on shop.items"),
        ("collMod", "items", 550, 0, 'collMod {"collMod": "items", "index": {"name": "x_1"}}'),
        ("dropIndexes", "shop.items", 560, 261, r"dropIndexes x\u{1b}{db} on shop.items"),
        ("drop", "shop.d", 562, 261, "drop shop.d"), ("dropIndexes", "shop.d", 564, 261, "dropIndexes a_1 on shop.d"),
        ("dropDatabase", "old", 570, 261, "dropDatabase old"), ("dropDatabase", "older", 575, 0, "dropDatabase older"),
        ("rename", "shop.items", 580, 0, "rename shop.items to shop.wares"), ("rename", "", 590, 0, "rename  to "),
        ("createIndexes", "shop.b", 600, 0, "createIndexes y_1 on shop.b"),
        ("createIndexes", "shop.c", 610, 0, "createIndexes z_1 on shop.c"),
    ]  # fmt: skip
    assert {one.client.user for one in found} == {"alice@admin"}


def test_a_change_of_users_that_was_refused_is_no_ones() -> None:
    done = command(700, dropUser="eve")
    refused = done.replace('"durationMillis"', '"ok":0,"errName":"Unauthorized","errCode":13,"durationMillis"')
    found = read(done, refused).definitions(frozenset({"users"}), 0, MILLIS * 2)
    assert [one.text for one in found] == ["dropUser(eve)"]


def test_the_login_of_a_router_is_no_user_of_a_client() -> None:
    system = line(20250, 2, {"principalName": "__system", "authenticationDatabase": "local", "remote": REMOTE})
    router = line(51803, 700, json.loads(command(700))["attr"] | {"appName": "shop-web"})
    book = read(metadata(), login(), command(600), metadata("mongos"), system, router)
    (client,) = [client for _, client in book.sessions.items()]
    assert client.user == "alice@admin"


def test_memory_is_bounded_and_what_was_forgotten_is_no_longer_covered() -> None:
    book = read(metadata(), *(remove(100 + n, 1) for n in range(30)), command(200), limit=10)
    assert [one.ended - MILLIS for one in statements(book)] == list(range(120, 130))
    assert not book.covers(MILLIS + 110, MILLIS + 120)
    assert book.covers(MILLIS + 121, MILLIS + 125)


@pytest.mark.parametrize(
    ("changed", "body", "is_doubted"),
    [
        (3, {}, True),
        (0, {}, False),
        (3, {"writeConcern": {"w": 0}}, False),
        (3, {"autocommit": False}, False),
    ],
)
def test_a_clock_is_doubted_if_a_client_knows_an_older_time_than_its_own_write(
    changed: int, body: dict[str, Any], is_doubted: bool
) -> None:
    def lines(seconds: int) -> list[str]:
        """The first command writes; the second has the cluster time of ``seconds`` before that."""
        later = {"clusterTime": {"$timestamp": {"t": MILLIS // 1_000 - seconds, "i": 9}}}
        write = command(100, insert="orders", **body).replace('"remote"', f'"ninserted":{changed},"remote"')
        return [write, command(200, **{"$clusterTime": later})]

    assert not read(*lines(0)).is_clock_doubted(MILLIS, MILLIS + 300)
    assert not read(*lines(2)).is_clock_doubted(MILLIS, MILLIS + 300)
    doubted = read(*lines(4))
    assert doubted.is_clock_doubted(MILLIS, MILLIS + 300) is is_doubted
    assert not doubted.is_clock_doubted(MILLIS - 300_000, MILLIS - 290_000)
    removed = [remove(95, 3), command(100), *lines(4)[1:]]
    assert read(*removed).is_clock_doubted(MILLIS, MILLIS + 300)
    nothing = [remove(95, 0), command(100), *lines(4)[1:]]
    assert not read(*nothing).is_clock_doubted(MILLIS, MILLIS + 300)
    others = [remove(50, 3), command(100, millis=8), *lines(4)[1:]]
    assert not read(*others).is_clock_doubted(MILLIS, MILLIS + 300), "the delete may be of a line that is missing"
    without = [one.replace(SESSION, "x") for one in lines(4)]
    assert not read(*without).is_clock_doubted(MILLIS, MILLIS + 300), "two clients without sessions are not one"


def test_statements_that_differ_in_values_only_have_one_shape() -> None:
    def shape(query: dict[str, Any], many: int = 0) -> int:
        (found,) = statements(read(remove(722, 1, command={"q": query, "limit": many}), command(727)))
        assert found.many is (many == 0)
        return found.shape

    assert shape({"s": 1}) == shape({"s": {"$oid": "0" * 24}}) != shape({"t": 1})
    assert shape({"_id": {"$in": [1]}}) == shape({"_id": {"$in": [2, 3]}}) != shape({"_id": {"$gt": 1}})
    assert shape({"_id": {"$in": []}}) == shape({"_id": {"$in": [1]}}) != shape({"_id": {"$in": [{"a": 1}]}})
    assert shape({"a.7": 1}) == shape({"a.12": 1})
    assert shape({"s": 1}) != shape({"s": 1}, many=1)
