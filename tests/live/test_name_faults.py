"""A host name that is no longer known, and one that is known again, as the dashboard tells it."""

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

# The address book of this one process: it holds the name as long as the file is there.
ADDRESS_BOOK = """
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

# This one process asks the test's own name server, and finds its hosts here.
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


def test_a_name_that_is_gone_and_comes_back(replica_set: ReplicaSet, open_on: Open, tmp_path: Path) -> None:
    book = tmp_path / "address book"
    book.touch()
    setup = ADDRESS_BOOK.format(name=NAME, book=str(book), address=HOST)
    gone = "A host name in the connection string is not known."
    with Proxy(replica_set.members[0].port, free_port()) as proxy:
        before = bump(replica_set)
        terminal = open_on(f"mongodb://{NAME}:{proxy.port}/?directConnection=true&{QUICK}", setup)
        terminal.wait(shown(before))

        book.unlink()
        proxy.reset()
        text = terminal.wait(lambda text: gone in text and SINCE.search(text) and AGE.search(text))
        assert re.search(before, text)
        terminal.press("3")
        terminal.wait(lambda text: gone in text)
        book.touch()
        after = bump(replica_set)
        terminal.press("1")
        terminal.wait(lambda text: shown(after)(text) and not AGE.search(text))
        terminal.press("3")
        terminal.wait(lambda text: "following" in text and gone not in text and "faults.counters" in text)
    with replica_set.client() as client:
        client.drop_database("faults")


def test_a_seed_list_that_cannot_be_asked_for(open_on: Open) -> None:
    """At the start it is waited for; under a running dashboard, which knows the members by then, nothing is missed."""
    gone = "That DNS seed list gives no servers."
    front, back = free_port(), free_port()
    with Proxy(back, front) as proxy, ReplicaSet(1, ports=[back], advertised=[front]) as servers:
        seeds = SeedList(front, f"replicaSet={servers.set_name}")
        try:
            before = bump(servers, 0)
            seeds.silent = True
            setup = NAME_SERVER.format(address=HOST, port=seeds.port, name=SEEDS)
            terminal = open_on(f"mongodb+srv://{SEEDS}/?tls=false&{QUICK}", setup)
            terminal.wait(lambda text: gone in text and SINCE.search(text))
            seeds.silent = False
            terminal.wait(lambda text: shown(before)(text) and gone not in text)

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
