"""Why no server answers, without the driver's words."""

from __future__ import annotations

import pytest

from tallyglass.mongo.driver_texts import lost, not_resolved, unreachable


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "SSL handshake failed: db1:27017: [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)",
            "The server does not speak TLS on this port. Remove tls=true from the connection string, or use the "
            "server's TLS port. (db1:27017)",
        ),
        (
            "[::1]:1: [Errno 111] Connect call failed ('::1', 1, 0, 0),10.0.0.2:27017: [Errno 111] Connection refused",
            "No server listens at that address. Check host and port, and that mongod runs there. "
            "([::1]:1, 10.0.0.2:27017)",
        ),
        ("something new at db1:27017", "No server answers. (something new at db1:27017)"),
    ],
)
def test_of_the_drivers_text_only_addresses_remain(text: str, sentence: str) -> None:
    assert str(unreachable(text)) == sentence


def test_a_lost_connection_names_its_server_alone() -> None:
    assert lost("db1:27017: connection closed") == ("The connection to the server was lost.", "(db1:27017)")
    assert lost("operation cancelled") == ("The server stopped answering.", "")


def test_a_name_that_does_not_exist_is_told_from_a_name_server_that_is_silent() -> None:
    missing = not_resolved("The DNS query name does not exist: _mongodb._tcp.nowhere.invalid.")
    silent = not_resolved("The resolution lifetime expired after 21 seconds: Server Do53:10.0.0.1 answered nothing")
    assert "Its name is not known" in str(missing)
    assert "a name server answers" in str(silent)
