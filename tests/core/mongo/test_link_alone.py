"""A client that stops answering is replaced, and only then: a call may take as long as the client answers others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from builders.virtual_time import run
from tallyglass.errors import ConnectError, InputError, ReadError
from tallyglass.mongo import alone
from tallyglass.mongo import link as link_module
from tallyglass.mongo.link import HeldCursor, Link, OpenClient

HELLO: dict[str, Any] = {"setName": "rs", "hosts": ["a.internal:27017"], "passives": ["b.internal:27017"]}


@pytest.fixture(autouse=True)
def virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time(), time=time.time)
    monkeypatch.setattr(link_module, "time", clock)


class Client:
    """A driver's client that answers ``hello`` after so many seconds; None for never."""

    def __init__(self, seconds: float | None = 0.0, hello: Mapping[str, Any] | Exception = HELLO) -> None:
        self.seconds, self.answer = seconds, hello
        self.hellos = 0
        self.closed_at: float | None = None
        self.addresses = [("a.internal", 27017)]

    @property
    def admin(self) -> Client:
        return self

    @property
    def topology_description(self) -> Any:
        return SimpleNamespace(server_descriptions=lambda: dict.fromkeys(self.addresses))

    async def command(self, name: str, *, maxTimeMS: int, read_preference: Any) -> Mapping[str, Any]:
        assert (name, maxTimeMS, read_preference.mongos_mode) == ("hello", 4_000, "nearest")
        self.hellos += 1
        await waits(self.seconds)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.closed_at = asyncio.get_running_loop().time()


async def waits(seconds: float | None) -> str:
    """An answer after so many seconds; None for never."""
    await (asyncio.Event().wait() if seconds is None else asyncio.sleep(seconds))
    return "answered"


def linked(*clients: Client | Exception) -> Link:
    """A link that opens these clients, one after the other."""
    left = list(clients)

    def open_client() -> OpenClient:
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return OpenClient(found)

    return Link(open_client)


async def asked(link: Link, seconds: float | None) -> tuple[str, int]:
    """What a call gives that takes so many seconds, and when."""
    began = asyncio.get_running_loop().time()
    try:
        found = await (await link.ready()).call(waits(seconds))
    except ReadError as error:
        found = error.title
    return found, round(asyncio.get_running_loop().time() - began)


REPLACED = "The connection stopped answering and was replaced."


@pytest.mark.parametrize(
    ("old", "new", "seconds", "expected", "replacements", "opened"),
    [
        (0.0, 0.0, 100, ("answered", 100), 0, 0),
        (1.9, 0.0, 100, ("answered", 100), 0, 0),
        (None, 0.0, 3, ("answered", 3), 0, 0),
        (None, 0.0, None, (REPLACED, 8), 1, 1),
        (None, 3.9, None, (REPLACED, 12), 1, 1),
        (3.0, 0.0, 100, (REPLACED, 8), 1, 1),
        (None, None, None, ("No server has answered for 10 s.", 10), 0, 1),
        (None, None, 9, ("answered", 9), 0, 1),
    ],
)
def test_a_client_is_replaced_if_only_a_new_one_is_answered(
    old: float | None,
    new: float | None,
    seconds: float | None,
    expected: tuple[str, int],
    replacements: int,
    opened: int,
) -> None:
    first, second, third = Client(old), Client(new), Client()

    async def scene() -> None:
        link = linked(first, second, third)
        assert await asked(link, seconds) == expected
        await asyncio.sleep(5.0)
        assert link.replacements == replacements
        assert link.session.client is (second if replacements else first)
        assert (first.closed_at is not None) is (replacements == 1)
        assert (second.hellos > 0) is bool(opened)
        assert (second.closed_at is not None) is (opened > replacements)
        await link.close()
        assert first.closed_at is not None
        assert third.hellos == 0

    run(scene())


def test_all_calls_that_wait_fail_at_once_and_later_ones_are_tried_again() -> None:
    async def scene() -> None:
        link = linked(Client(None), Client(), Client(None), Client())
        found = await asyncio.gather(*(asked(link, None) for _ in range(3)))
        assert found == [(REPLACED, 8)] * 3
        assert await asked(link, 30) == ("answered", 30)
        link.session.client.seconds = None
        lost, _ = await asked(link, None)
        assert (lost, link.replacements) == ("No server has answered for 10 s.", 1)

    run(scene())


def test_calls_that_wait_at_once_have_a_client_examined_once() -> None:
    async def scene() -> None:
        link = linked(Client())
        first = asyncio.ensure_future(asked(link, 7))
        await asyncio.sleep(0.5)
        await asyncio.gather(first, asked(link, 6.5))
        assert link.session.client.hellos == 1

    run(scene())


def test_a_client_that_answers_a_call_meanwhile_is_given_another_chance() -> None:
    async def scene() -> None:
        link = linked(Client(None), Client(None), Client(None))
        waiting, answered = await asyncio.gather(asked(link, None), asked(link, 7))
        assert answered == ("answered", 7)
        assert waiting == ("No server has answered for 11 s.", 18)

    run(scene())


def test_without_a_new_client_nothing_is_answered() -> None:
    async def scene() -> None:
        link = linked(Client(None), InputError("The certificate is gone."))
        assert await asked(link, None) == ("No server has answered for 6 s.", 6)
        assert link.replacements == 0

    run(scene())


def test_a_client_whose_calls_fail_for_seconds_is_examined() -> None:
    async def fails(error: Exception) -> None:
        raise error

    async def failing(link: Link, error: Exception, seconds: int) -> int:
        """How often a client is examined whose calls fail once a second for so long."""
        for _ in range(seconds):
            with pytest.raises(type(error)):
                await link.session.call(fails(error))
            await asyncio.sleep(1.0)
        return int(link.session.client.hellos)

    async def scene() -> None:
        lost, refused, seldom = (linked(Client(None), Client()) for _ in range(3))
        assert await failing(lost, AutoReconnect("gone"), 4) == 0
        assert await failing(lost, AutoReconnect("gone"), 1) == 1
        await asyncio.sleep(5.0)
        assert lost.replacements == 1
        assert await failing(refused, OperationFailure("no"), 20) == 0, "a server that refuses answers"
        for _ in range(5):
            await seldom.session.call(waits(0))
            assert await failing(seldom, AutoReconnect("gone"), 4) == 0

    run(scene())


def test_a_link_that_is_closed_opens_no_client() -> None:
    async def scene() -> None:
        first, second = Client(None), Client()
        link = linked(first, second)
        call = asyncio.ensure_future(asked(link, 60))
        await asyncio.sleep(1.0)
        await link.close()
        assert await call == ("answered", 60)
        assert second.hellos == 0

    run(scene())


def seeded(
    monkeypatch: pytest.MonkeyPatch, first: Client, seeds: Mapping[str, Client], *, reached: bool = False
) -> tuple[Link, list[str]]:
    """A link whose connection string names the addresses of ``seeds``, and what it tells."""

    async def accepts(_: str) -> bool:
        return reached

    monkeypatch.setattr(alone, "_accepts", accepts)
    told: list[str] = []
    opens = {name: partial(OpenClient, client) for name, client in seeds.items()}
    return Link(lambda: OpenClient(first), opens, "rs", told.append), told


def test_a_member_behind_a_tunnel_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        first, through = Client(None), Client(0.5)
        link, told = seeded(monkeypatch, first, {"localhost:7000": through})
        session, again = await asyncio.gather(link.ready(), link.ready())
        assert session is again
        assert session.client is through
        assert link.alone == alone.Alone("localhost:7000", ("a.internal:27017", "b.internal:27017"))
        assert told == [str(link.alone)]
        assert (first.closed_at is not None, through.closed_at, first.hellos, through.hellos) == (True, None, 1, 1)
        assert await asked(link, 2) == ("answered", 2)

    run(scene())


@pytest.mark.parametrize(
    ("seconds", "addresses", "seed", "reached", "hellos"),
    [
        (0.6, [], Client(0.0), False, 0),
        (9.0, [], Client(0.0), True, 1),
        (9.0, [], Client(None), False, 1),
        (9.0, [], Client(0.0, AutoReconnect("refused")), False, 1),
        (9.0, [("::1", 7000)], Client(0.0), False, 0),
        (9.0, [], Client(0.0, HELLO | {"hosts": ["[::1]:7000"]}), False, 1),
    ],
    ids=["answers", "reached by name", "a silent seed", "a refused seed", "asked by its name", "named by its set"],
)
def test_a_set_that_can_be_reached_is_read_as_one(
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    addresses: list[tuple[str, int]],
    seed: Client,
    reached: bool,
    hellos: int,
) -> None:
    async def scene() -> None:
        first = Client(seconds)
        first.addresses = addresses
        link, told = seeded(monkeypatch, first, {"[::1]:7000": seed}, reached=reached)
        assert (await link.ready()).client is first
        assert (link.alone, told, first.closed_at, seed.hellos) == (None, [], None, hellos)
        assert (seed.closed_at is not None) is bool(hellos)
        assert (await link.ready()).client is first
        assert first.hellos == 1

    seed.hellos, seed.closed_at = 0, None
    run(scene())


def test_a_member_of_another_set_is_refused_and_no_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(first: Client, seed: Client) -> None:
        await seeded(monkeypatch, first, {"localhost:7000": seed})[0].ready()

    with pytest.raises(ConnectError, match="another replica set than the one in the connection string: other"):
        run(scene(Client(None), Client(0.0, {"setName": "other"})))
    with pytest.raises(AutoReconnect):
        run(scene(Client(1.0, AutoReconnect("gone")), Client(None)))
    run(scene(Client(1.0, OperationFailure("no hello")), Client(None)))


def test_a_cursor_is_closed_after_its_call_and_not_where_the_driver_has_closed_it() -> None:
    class Cursor:
        def __init__(self, seconds: float | None) -> None:
            self.seconds, self.alive, self.address = seconds, True, ("h", 1)
            self.closed_at: float | None = None

        async def __anext__(self) -> bytes:
            await waits(self.seconds)
            self.alive = False
            return b"batch"

        async def close(self) -> None:
            self.closed_at = asyncio.get_running_loop().time()

    async def scene() -> None:
        now = asyncio.get_running_loop().time
        session, opened = linked(Client()).session, list[str]()
        read, begun, slow = Cursor(0.0), Cursor(0.0), Cursor(9.0)
        held = HeldCursor(session, read, opened.append)
        assert (await held.batch(), opened) == (b"batch", ["h:1"])
        await held.batch()
        await held.close()
        assert (read.closed_at, opened) == (None, ["h:1"]), "the driver closed it"
        await HeldCursor(session, begun).close()
        assert begun.closed_at is not None
        waiting = HeldCursor(session, slow)
        call = asyncio.ensure_future(waiting.batch())
        await asyncio.sleep(1.0)
        call.cancel()
        began = now()
        await waiting.close()
        assert round(now() - began) == 2, "nobody waits for longer"
        assert slow.closed_at is None
        await asyncio.sleep(10.0)
        assert slow.closed_at is not None

    run(scene())


async def test_the_changes_that_there_are_come_up_to_the_number_asked_for() -> None:
    left = [1, 2, 3, None, 4, None]

    class Stream:
        async def try_next(self) -> int | None:
            return left.pop(0)

    held = HeldCursor(linked(Client()).session, Stream())
    assert [await held.changes(2) for _ in range(3)] == [[1, 2], [3], [4]]
