"""The dashboard reports a host name that stops resolving, and recovers when it resolves again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lost_screen import AGE, QUICK, SINCE, Open, bump, shown
from proxy import Proxy
from seed_list import NAME as SEEDS
from seed_list import SeedList

from tallyglass.demo.server import HOST, ReplicaSet, free_port

pytestmark = [pytest.mark.live, pytest.mark.terminal]

NAME = "db.internal.test"

# Resolve the name in this process only while a file exists.
RESOLVE_WHILE_FILE_EXISTS = """
import os, socket
plain = socket.getaddrinfo
def resolve(host, *more, **named):
    if host in ({name!r}, {name!r}.encode()):
        if not os.path.exists({book!r}):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        host = {address!r}
    return plain(host, *more, **named)
socket.getaddrinfo = resolve
"""

# Make this process use the test's name server and resolve its hosts to loopback.
NAME_SERVER = """
import socket
import dns.asyncresolver, dns.resolver
for module, own in (
    (dns.resolver, dns.resolver.Resolver(configure=False)),
    (dns.asyncresolver, dns.asyncresolver.Resolver(configure=False)),
):
    own.nameservers, own.port = [{address!r}], {port}
    module.default_resolver = own
plain = socket.getaddrinfo
socket.getaddrinfo = lambda host, *more, **named: plain(
    {address!r} if str(host).endswith({name!r}) else host, *more, **named
)
"""


def test_recovers_after_a_name_resolves_again(replica_set: ReplicaSet, open_on: Open, tmp_path: Path) -> None:
    book = tmp_path / "address book"
    book.touch()
    setup = RESOLVE_WHILE_FILE_EXISTS.format(name=NAME, book=str(book), address=HOST)
    message = "A host name in the connection string cannot be resolved."
    with Proxy(replica_set.members[0].port, free_port()) as proxy:
        before = bump(replica_set)
        terminal = open_on(f"mongodb://{NAME}:{proxy.port}/?directConnection=true&{QUICK}", setup)
        terminal.wait(shown(before))

        book.unlink()
        proxy.reset()
        text = terminal.wait(lambda text: message in text and SINCE.search(text) and AGE.search(text))
        assert re.search(before, text)
        terminal.press("3")
        terminal.wait(lambda text: message in text)
        book.touch()
        after = bump(replica_set)
        terminal.press("1")
        terminal.wait(lambda text: shown(after)(text) and not AGE.search(text))
        terminal.press("3")
        terminal.wait(lambda text: "following" in text and message not in text and "faults.counters" in text)
    with replica_set.client() as client:
        client.drop_database("faults")


def test_waits_for_a_seed_list_only_at_the_start(open_on: Open) -> None:
    """The dashboard waits for the seed list at the start. Later it knows the members and does not need the list."""
    message = "The DNS seed list returns no servers."
    front, back = free_port(), free_port()
    with Proxy(back, front) as proxy, ReplicaSet(1, ports=[back], advertised=[front]) as servers:
        seeds = SeedList(front, f"replicaSet={servers.set_name}")
        try:
            before = bump(servers, 0)
            seeds.silent = True
            setup = NAME_SERVER.format(address=HOST, port=seeds.port, name=SEEDS)
            terminal = open_on(f"mongodb+srv://{SEEDS}/?tls=false&{QUICK}", setup)
            terminal.wait(lambda text: message in text and SINCE.search(text))
            seeds.silent = False
            terminal.wait(lambda text: shown(before)(text) and message not in text)

            seeds.silent, so_far = True, len(terminal.raw)
            proxy.cut()
            terminal.wait(lambda text: SINCE.search(text) and AGE.search(text))
            proxy.heal()
            proxy.reset()
            after = bump(servers, 0)
            terminal.wait(lambda text: shown(after)(text) and not AGE.search(text))
            assert b"DNS seed list" not in terminal.raw[so_far:]
        finally:
            seeds.close()
