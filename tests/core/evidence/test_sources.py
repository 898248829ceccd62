"""Where lines come from: the server's memory of its log, polled, and files, rotated and compressed; each line once."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from bson import Binary

from builders.evidence import MILLIS, Server, command, login, metadata, observing, profiled, remove, statements
from builders.virtual_time import run
from tallyglass.errors import InputError, PrivilegeError, ReadError
from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import Client, Source, user_of
from tallyglass.evidence.log_files import files_of, foreign_files, log_beside, read_files
from tallyglass.evidence.log_lines import lines_of
from tallyglass.evidence.observer import LEAST_PAUSE, MOST_PAUSE, PROFILE_PAUSE, STATE_PAUSE
from tallyglass.evidence.store import EvidenceFolder

CONNECTION = {
    "desc": "conn9", "client": "127.0.0.1:43610", "appName": "nightly",
    "effectiveUsers": [{"user": "ann", "db": "admin"}],
    "clientMetadata": {"driver": {"name": "PyMongo", "version": "4.20"}},
}  # fmt: skip


def _now() -> float:
    return asyncio.get_running_loop().time()


def write_lines(server: Server, count: int) -> None:
    server.lines += [remove(n % 1_000, n) for n in range(len(server.lines), len(server.lines) + count)]


def write(path: str, *lines: str) -> None:
    Path(path).write_text("".join(f"{line}\n" for line in lines))


def sizes(book: Book) -> list[int | None]:
    return [one.documents for one in statements(book)]


async def test_what_was_overwritten_before_the_first_reading_is_not_missed() -> None:
    one = observing(Server(*(remove(n, 1) for n in range(9)), kept=4))
    await one.read(urgent=True)
    assert (one.book.tally.lines, one.book.tally.missed) == (4, 0)


async def test_each_line_is_read_once_and_what_was_lost_is_counted() -> None:
    server = Server(metadata(), login(), remove(10, 1), kept=4)
    one = observing(server)
    await one.read(urgent=True)
    server.lines += [remove(20, 2), remove(30, 3)]
    await one.read(urgent=True)
    await one.read(urgent=True)
    one._rings["a:1"].reader.flush()
    assert (sizes(one.book), one.book.tally.missed) == ([1, 2, 3], 0)
    assert one.book.covers(MILLIS + 10, MILLIS + 30)
    server.lines += [remove(40 + n, 10 + n) for n in range(7)]
    await one.read(urgent=True)
    one._rings["a:1"].reader.flush()
    assert (sizes(one.book), one.book.tally.missed) == ([1, 2, 3, 13, 14, 15, 16], 3)
    assert not one.book.covers(MILLIS + 30, MILLIS + 44)
    assert one.book.covers(MILLIS + 43, MILLIS + 46)


async def test_a_log_is_not_read_again_after_no_member_was_known() -> None:
    server = Server(metadata(), login(), remove(10, 1))
    one = observing(server)
    for names in (("a:1",), (), ("a:1",)):
        server.names = names
        await one.read(urgent=True)
    server.lines.append(remove(20, 2))
    await one.read(urgent=True)
    one._rings["a:1"].reader.flush()
    assert sizes(one.book) == [1, 2]


async def test_a_delete_waits_for_the_line_of_its_command() -> None:
    server = Server(metadata(), login(), remove(10, 1))
    one = observing(server)
    await one.read(urgent=True)
    assert sizes(one.book) == []
    server.lines.append(command(20, millis=15, txnNumber=7))
    await one.read(urgent=True)
    assert [one.in_session for one in statements(one.book)] == [True]
    server.lines += [remove(100, 2), login().replace("04:53:15", "04:53:25")]
    await one.read(urgent=True)
    assert [one.in_session for one in statements(one.book)] == [True, None]


async def test_open_connections_and_sessions_name_what_the_log_no_longer_does() -> None:
    server = Server(remove(10, 1))
    hashed = user_of("bob", "admin")[1]
    server.rows["$currentOp"] = [CONNECTION, {"desc": "TTLMonitor"}, {"desc": "conn1", "client": 7}]
    server.rows["$listLocalSessions"] = [
        {"_id": {"id": Binary(b"s" * 16), "uid": Binary(hashed)}, "user": "bob@admin"},
        {},
    ]
    one = observing(server)
    await one.read(urgent=True)
    one._rings["a:1"].reader.flush()
    (found,) = statements(one.book)
    assert (found.client.user, found.client.driver, one.book.users.get(hashed)) == (
        "ann@admin",
        "PyMongo 4.20",
        "bob@admin",
    )
    # The number of a connection alone is not enough: another address is another connection.
    server.lines.append(remove(20, 2).replace("43610", "43611"))
    await one.read(urgent=True)
    one._rings["a:1"].reader.flush()
    assert [one.client.user for one in statements(one.book)] == ["ann@admin", ""]


async def test_an_open_connection_is_kept_for_the_member_that_has_it(tmp_path: Path) -> None:
    server, router = Server(), Server()
    server.names = ("db1.lan:27017", "db1.wan:27017", "db2.lan:27017", "db3.lan:27018")
    hosts = ("db2:27017", "vm7:27018", "db1.wan:27017", "db1:27017", "vm8:27017")
    server.rows["$currentOp"] = [CONNECTION | {"host": host, "desc": f"conn{n}"} for n, host in enumerate(hosts)]
    router.rows["localOps"] = [CONNECTION | {"host": "db2:27017", "desc": "conn9"}]
    folder = EvidenceFolder(tmp_path / "kept", keeps=True)
    await observing(server, router=router, folder=folder).read()
    everything = {"allUsers": True, "idleConnections": True}
    assert server.inspected == [("$currentOp", everything), ("$listLocalSessions", {"allUsers": True})]
    assert router.inspected == [("$currentOp", everything | {"localOps": True})]
    kept = {
        member: set(re.findall(r"conn\d", "".join(path.read_text() for path in paths)))
        for member, paths in folder.by_member().items()
    }
    assert kept == {
        "db2.lan_27017": {"conn0"}, "db3.lan_27018": {"conn1"}, "db1.wan_27017": {"conn2"}, "router": {"conn9"},
    }  # fmt: skip


async def test_a_find_and_modify_that_runs_is_shown_with_its_filter() -> None:
    server = Server()
    running = CONNECTION | {"active": True, "op": "command", "ns": "shop.orders", "opid": 7}
    bodies = (
        {"findAndModify": "orders", "query": {"s": 1}, "update": {"$set": {"x": 1}}},
        {"findandmodify": "orders", "query": {"s": 2}, "remove": True},
    )
    server.rows["$currentOp"] = [
        running | {"command": body, "microsecs_running": 9_000_000 - n} for n, body in enumerate(bodies)
    ]
    found = await observing(server).read_running()
    assert [one.statement for one in found] == [
        "findOneAndUpdate({s: 1}, {$set: {x: 1}})",
        "findOneAndDelete({s: 2})",
    ]


def test_refused_sources_are_named_and_the_others_read() -> None:
    server = Server(remove(10, 1))
    server.refused = {
        "$currentOp": PrivilegeError("no"),
        "getLog": PrivilegeError("no"),
        "$listLocalSessions": ReadError("x"),
    }
    one = observing(server)

    async def work() -> None:
        await one.read(urgent=True)
        assert set(one.book.refused) == {Source.OPERATIONS, Source.LOG}
        assert "getLog" in one.book.refused[Source.LOG]
        server.refused.clear()
        await one.read(urgent=True)
        assert set(one.book.refused) == {Source.OPERATIONS}, "connections are read again only after a while"
        await asyncio.sleep(STATE_PAUSE)
        await one.read(urgent=True)
        assert not one.book.refused

    run(work())


def test_an_idle_log_is_read_seldom_and_a_busy_one_often() -> None:
    server, pauses = Server(remove(10, 1), kept=1_000), list[float]()
    one = observing(server)

    async def poll(lines_a_second: int) -> None:
        """Read the log whenever it is due, five times."""
        last, read = _now(), 0
        while read < 5:
            await asyncio.sleep(0.1)
            write_lines(server, lines_a_second // 10)
            if one.is_due():
                await one.read()
                pauses.append(_now() - last)
                last, read = _now(), read + 1

    async def work() -> None:
        for rate in (0, 50, 150):
            await poll(rate)

    run(work())
    idle, busy, busier = (pauses[at : at + 5][-2:] for at in (0, 5, 10))
    assert [round(one, 0) for one in (*idle, *busy, *busier)] == [
        MOST_PAUSE,
        MOST_PAUSE,
        6,
        6,
        LEAST_PAUSE,
        LEAST_PAUSE,
    ]
    assert one.book.tally.missed == 505, "only of those of the 30 s before it was noticed that lines come"


def test_the_busiest_log_of_a_set_is_read_most_and_all_where_a_name_is_wanted() -> None:
    server = Server(remove(10, 1), kept=1_000)
    server.names = ("a:1", "b:1", "c:1")
    one = observing(server)

    async def work() -> None:
        await one.read()
        assert server.logs == ["a:1", "b:1", "c:1"]
        while len(server.logs) < 40:
            await asyncio.sleep(0.1)
            write_lines(server, 20)
            if one.is_due():
                await one.read()
        assert Counter(server.logs)["a:1"] > 20
        server.logs.clear()
        await one.read(urgent=True)
        assert server.logs == ["a:1", "b:1", "c:1"]

    run(work())


def test_rotated_and_compressed_files_in_order_of_their_lines(tmp_path: Path) -> None:
    log = tmp_path / "mongod.log"
    log.write_text("\n".join([remove(700, 4), remove(800, 5)]) + "\n" + remove(900, 6)[:80])
    (tmp_path / "mongod.log.2026-11-23T04-53-15").write_text(remove(500, 3))
    (tmp_path / "mongod.log-20261123").write_text(remove(600, 7))
    (tmp_path / "mongod.log.1.gz").write_bytes(gzip.compress("\n".join([metadata(), login(), remove(10, 2)]).encode()))
    (tmp_path / "other.txt").write_text(remove(999, 99))
    book = Book()
    (last,) = read_files(book, files_of(log))
    assert (sizes(book), book.tally.cut, last) == ([2, 3, 7, 4, 5], 1, remove(800, 5))
    assert {one.client.user for one in statements(book)} == {"alice@admin"}
    assert len(files_of(tmp_path)) == 4
    chosen = Book()
    read_files(chosen, files_of(log), lambda _, began, ended: began <= MILLIS + 500 <= ended)
    assert 3 in sizes(chosen)


def test_logs_of_two_servers_do_not_share_connections(tmp_path: Path) -> None:
    (tmp_path / "mongod.log").write_text("\n".join([metadata(), login()]))
    # Before 5.0 a line may have no address.
    (tmp_path / "mongos.log").write_text(remove(20, 2).replace('"remote":', '"was":'))
    book = Book()
    assert len(read_files(book, files_of(tmp_path))) == 2
    assert [one.client.user for one in statements(book)] == [""]


async def test_statements_of_another_shard_are_not_joined(tmp_path: Path) -> None:
    own, other = [remove(10, 1), remove(20, 2)], [metadata(), login(), command(25), remove(30, 3)]
    for name, lines in (("s0.log", own), ("s1.log", other)):
        write(str(tmp_path / name), *lines)
    (tmp_path / "s0.log.1").write_text(remove(5, 9))
    server = Server(*own[1:], remove(40, 4))
    files = files_of(tmp_path)
    others = await foreign_files(server, files)  # type: ignore[arg-type]
    assert [path.name for path in others] == ["s1.log"]
    assert server.logs == ["a:1"]
    server.names = ()
    assert await foreign_files(server, files) == others, "of any member"  # type: ignore[arg-type]
    server.names = ("a:1",)
    book = Book()
    read_files(book, files, others=others)
    assert sizes(book) == [9, 1, 2]
    assert ["'s0'" in name for name in book.coverage] == [True]
    assert book.tally.unused() == "Lines of the log: 1 in files that share none with the memory of this server."
    assert [client.user for _, client in book.sessions.items()] == ["alice@admin"], "a router's log names clients"
    server.refused["getLog"] = PrivilegeError("no")
    assert len(await foreign_files(server, files)) == 3  # type: ignore[arg-type]


def test_profiles_are_read_where_there_is_one_and_each_document_once() -> None:
    server = Server(remove(10, 1))
    server.profile["shop.system.profile"] = [profiled(at) for at in (0, 1)]
    one = observing(server)

    async def work() -> None:
        await one.read(urgent=True)
        server.profile["shop.system.profile"] += [profiled(2)]
        await one.read(urgent=True)
        assert server.asked.count("shop.system.profile") == 1, "not sooner than every few seconds"
        for _ in range(2):
            await asyncio.sleep(PROFILE_PAUSE)
            await one.read(urgent=True)

    run(work())
    found = one.book.statements("shop.orders", "d", 0, MILLIS * 2)
    assert [one.ended for one in found] == [MILLIS, MILLIS + 1, MILLIS + 2]
    assert [server.asked.count(name) for name in ("bank.system.profile", "local.system.profile")] == [1, 0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    damaged = tmp_path / "mongod.log.2.gz"
    damaged.write_bytes(gzip.compress(remove(10, 2).encode() * 100)[:60])
    for path in (tmp_path / "none.log", tmp_path / "nowhere" / "mongod.log"):
        with pytest.raises(InputError):
            files_of(path)
    with pytest.raises(InputError, match="damaged"):
        read_files(Book(), [damaged])


def test_files_that_are_no_log_of_the_server_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "mongod.log"
    log.write_text("2015-01-01T00:00:00.000+0000 I NETWORK  [conn1] end connection\n" * 3)
    for path in (log, tmp_path):
        with pytest.raises(InputError, match="has no line of a log of mongod"):
            files_of(path)
    (tmp_path / "mongod.log.1").write_text(remove(10, 2) + "\n")
    assert len(files_of(log)) == 2, "of rotated files, some may be empty"


async def test_memory_goes_on_after_the_last_line_that_the_server_wrote_whole(tmp_path: Path) -> None:
    server = Server(metadata(), login(), remove(10, 1), remove(20, 2))
    made = lines_of(Client("bob@admin", connection="conn5", address="10.0.0.5:1"))
    for number, ending in enumerate((remove(20, 2)[:99], "\n", "\n".join(made))):
        log = tmp_path / f"{number}.log"
        log.write_text("\n".join([*server.lines[:3], ending]))
        one = observing(server)
        one.last_lines[""] = read_files(one.book, [log])
        await one.read(urgent=True)
        one._rings["a:1"].reader.flush()
        assert sizes(one.book) == [1, 2], "a statement that is counted twice names nobody"


async def test_the_log_of_a_server_that_names_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    """A container logs to ``/dev/stdout``, and a hostile server names ``/dev/zero``, which has no end."""
    server = Server(metadata(), login())
    os.mkfifo(tmp_path / "pipe")
    for server.path in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path), "\0"):
        assert await log_beside(server) is None  # type: ignore[arg-type]


async def test_the_log_beside_the_server_is_believed_only_with_its_own_lines(tmp_path: Path) -> None:
    server = Server(metadata(), login(), remove(10, 1), remove(20, 2))
    server.path = str(tmp_path / "mongod.log")
    assert await log_beside(server) is None  # type: ignore[arg-type]
    write(server.path, remove(30, 3))
    assert await log_beside(server) is None  # type: ignore[arg-type]
    write(server.path, *server.lines)
    assert await log_beside(server) == Path(server.path)  # type: ignore[arg-type]
    one = observing(server)
    one.last_lines[""] = read_files(one.book, [Path(server.path)])
    server.lines.append(remove(30, 3))
    await one.read(urgent=True)
    one._rings["a:1"].reader.flush()
    assert sizes(one.book) == [1, 2, 3], "lines of the file are not counted twice"
    (added,) = one.book.statements("shop.orders", "d", MILLIS + 30, MILLIS + 30)
    assert added.client.user == "alice@admin", "who logged in while the file was written"
