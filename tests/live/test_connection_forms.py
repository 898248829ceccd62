"""Log in with every authentication mechanism and connection string available here, with both drivers.

The tools' URI of each is tested as the tools use it: with the password that they ask for, and nothing else.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dns.asyncresolver
import dns.resolver
import pytest
from certificates import Authority
from click.testing import CliRunner
from seed_list import HOST, NAME, SeedList

import database_tools
from access_control import GuardedSet, start_guarded
from tallyglass.connection.secret import Secret
from tallyglass.connection.target import Driver, Target
from tallyglass.errors import ConnectError, InputError
from tallyglass.mongo.client import open_gateway
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import config_text
from tallyglass.restore.tools.tool_uri import tool_uri
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

PASSWORD = "p@s:/?#[]%41 +é'\"$(id)`\\"
UNPREPARABLE = "a\x1bb\u202ec7"
"""A password that SCRAM-SHA-1 accepts and SCRAM-SHA-256, which prepares passwords, does not."""
PASSPHRASE = "p@ss:/?&é=%"
SUBJECT = "CN=monitor \\,x=1"


@dataclass(frozen=True)
class Forms:
    """A server with TLS and access control, and the files that its clients need."""

    guarded: GuardedSet
    host: str
    folder: Path

    def uri(self, user: str = "", query: str = "", password: str = PASSWORD, *, tls: bool = False) -> str:
        who = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
        trusted = f"tls=true&tlsCAFile={quote(str(self.folder / 'ca' / 'ca.pem'), safe='')}&" if tls else ""
        path, _, options = query.rpartition("?")
        return f"mongodb://{who}{self.host}/{path}?{trusted}{options}".rstrip("?&")

    def certificate(self, name: str) -> str:
        return f"tlsCertificateKeyFile={quote(str(self.folder / name), safe='')}"


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forms]:
    folder = tmp_path_factory.mktemp("forms & é")
    authority = Authority(folder / "ca")
    authority.issue(folder / "server.pem", names=f"IP:127.0.0.1,DNS:{HOST}")
    authority.issue(folder / "client.pem", subject="/CN=monitor ,x=1")
    authority.issue(folder / "encrypted.pem", subject="/CN=monitor ,x=1", passphrase=PASSPHRASE)
    authority.issue(folder / "stranger.pem", subject="/CN=nobody")
    options = (
        "--tlsMode=preferTLS", f"--tlsCertificateKeyFile={folder / 'server.pem'}", f"--tlsCAFile={authority.file}",
        "--tlsAllowConnectionsWithoutCertificates",
    )  # fmt: skip
    with start_guarded(*options) as guarded:
        see: list[Any] = [{"role": "clusterMonitor", "db": "admin"}, {"role": "read", "db": "app"}]
        guarded.admin.app.things.insert_one({})
        for name, word, kind in (("one", PASSWORD, "1"), ("odd", UNPREPARABLE, "1"), ("two", PASSWORD, "256")):
            guarded.admin.admin.command("createUser", name, pwd=word, roles=see, mechanisms=[f"SCRAM-SHA-{kind}"])
        guarded.admin.app.command("createUser", "u@x/:%", pwd=PASSWORD, roles=see)
        guarded.admin["$external"].command("createUser", SUBJECT, roles=see)
        yield Forms(guarded, guarded.uri("").split("//")[1].split("/")[0], folder)


async def who_is(target: Target) -> str:
    """Return the authenticated user of a connection to ``target``."""
    gateway = open_gateway(target)
    try:
        status = await gateway.command("connectionStatus")
        return " ".join(f"{user['user']}@{user['db']}" for user in status["authInfo"]["authenticatedUsers"])
    finally:
        await gateway.close()


async def both(uri: str) -> set[str]:
    return {await who_is(Target.parse(uri, driver)) for driver in Driver}


async def who_is_tool(uri: str, password: str) -> str:
    """Return the authenticated user of a tool that gets the tools' URI and asks for the password if it needs one."""
    made = tool_uri(Target.parse(uri).uri, "tally")
    target = Target.parse(made.text)
    assert not target.secrets
    return await who_is(target.with_password(Secret(password)) if made.asks else target)


@pytest.mark.parametrize(
    ("user", "query", "password", "found"),
    [
        ("one", "?authMechanism=SCRAM-SHA-1", PASSWORD, "one@admin"),
        ("two", "?authMechanism=SCRAM-SHA-256", PASSWORD, "two@admin"),
        ("two", "?authMechanism=DEFAULT", PASSWORD, "two@admin"),
        ("two", "", PASSWORD, "two@admin"),
        ("odd", "?authMechanism=SCRAM-SHA-1", UNPREPARABLE, "odd@admin"),
        ("u@x/:%", "?authSource=app", PASSWORD, "u@x/:%@app"),
        ("u@x/:%", "app?", PASSWORD, "u@x/:%@app"),
    ],
)
async def test_logs_in_with_a_password(forms: Forms, user: str, query: str, password: str, found: str) -> None:
    uri = forms.uri(user, query, password)
    assert await both(uri) == {found}
    assert await who_is_tool(uri, password) == found


async def test_logs_in_with_a_client_certificate(forms: Forms) -> None:
    uri = forms.uri(query=f"?authMechanism=MONGODB-X509&{forms.certificate('client.pem')}", tls=True)
    assert await both(uri) == {f"{SUBJECT}@$external"}
    assert await who_is_tool(uri, "") == f"{SUBJECT}@$external"
    encrypted = (
        f"?authMechanism=MONGODB-X509&{forms.certificate('encrypted.pem')}"
        f"&tlsCertificateKeyFilePassword={quote(PASSPHRASE, safe='')}"
    )
    uri = forms.uri(query=encrypted, tls=True)
    assert await both(uri) == {f"{SUBJECT}@$external"}
    with pytest.raises(InputError, match="is encrypted"):
        tool_uri(Target.parse(uri).uri, "tally")


@pytest.mark.tools
@pytest.mark.parametrize(
    ("user", "query", "password", "found"),
    [
        ("one", "?authMechanism=SCRAM-SHA-1", PASSWORD, "one"),
        ("two", "", PASSWORD, "two"),
        ("odd", "?authMechanism=SCRAM-SHA-1", UNPREPARABLE, "odd"),
        ("u@x/:%", "?authSource=app", PASSWORD, "u@x/:%"),
        ("", "?authMechanism=MONGODB-X509&{certificate}", "", SUBJECT),
    ],
)
def test_mongodump_and_mongosh_log_in(
    forms: Forms, tmp_path: Path, user: str, query: str, password: str, found: str
) -> None:
    query = query.format(certificate=forms.certificate("client.pem"))
    made = tool_uri(Target.parse(forms.uri(user, query, password, tls=not user)).uri, "tally")
    word = f"password: {json.dumps(password)}\n" if made.asks else ""
    (tmp_path / "source.yml").write_text(config_text(made.text) + word, encoding="utf-8")
    dumped = run_tool(tmp_path, "mongodump", "--config=source.yml", "--db=app", "--collection=things", "--out=dump")
    assert "(1 document)" in dumped
    ask = "print((await db.runCommand({connectionStatus: 1})).authInfo.authenticatedUsers[0].user);"
    text = mongosh.program([mongosh.on_live(""), ask])
    (tmp_path / mongosh.HELPERS).write_text(mongosh.helpers([text]), encoding="ascii")
    (tmp_path / "who.js").write_text(text, encoding="ascii")
    assert found in run_tool(tmp_path, "mongosh", "--nodb", "--norc", "--quiet", "--file=who.js").splitlines()


def run_tool(folder: Path, *argv: str) -> str:
    environment = {"PATH": f"{database_tools.search_path()}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("user", "query", "password", "expected"),
    [
        ("", "?authMechanism=MONGODB-X509&{stranger}", "", "no user with the name in this client certificate"),
        ("one", "?authMechanism=SCRAM-SHA-256", PASSWORD, "does not accept this user name and password"),
        ("u@x/:%", "", PASSWORD, "does not accept this user name and password"),
        ("two", "?authMechanism=SCRAM-SHA-256", UNPREPARABLE, "a character that SCRAM-SHA-256 does not allow"),
        ("two", "?authMechanism=PLAIN", PASSWORD, "does not support the authentication mechanism"),
        ("two", "?authMechanism=GSSAPI", PASSWORD, "needs a Python package"),
        ("two", "?authMechanism=MONGODB-AWS", PASSWORD, "needs a Python package"),
    ],
)
async def test_failed_login_is_one_sentence(forms: Forms, user: str, query: str, password: str, expected: str) -> None:
    uri = forms.uri(user, query.format(stranger=forms.certificate("stranger.pem")), password, tls=True)
    for driver in Driver:
        with pytest.raises(ConnectError, match=expected) as caught:
            await who_is(Target.parse(uri, driver))
        assert str(caught.value).isprintable()
        assert ".." not in str(caught.value)
        assert not password or password not in str(caught.value)


@pytest.fixture
def seeds(forms: Forms, monkeypatch: pytest.MonkeyPatch) -> Iterator[SeedList]:
    """A DNS seed list that only this test's name server knows."""
    found = SeedList(int(forms.host.rpartition(":")[2]), "authSource=app&replicaSet=tally")
    for module, own in (
        (dns.resolver, dns.resolver.Resolver(configure=False)),
        (dns.asyncresolver, dns.asyncresolver.Resolver(configure=False)),
    ):
        own.nameservers, own.port = ["127.0.0.1"], found.port
        monkeypatch.setattr(module, "default_resolver", own)
    known = socket.getaddrinfo

    def lookup(host: Any, *args: Any, **how: Any) -> Any:
        return known("127.0.0.1" if host == HOST else host, *args, **how)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    yield found
    found.close()


async def test_connects_through_a_dns_seed_list(forms: Forms, seeds: SeedList) -> None:
    ca = quote(str(forms.folder / "ca" / "ca.pem"), safe="")
    who = f"{quote('u@x/:%', safe='')}:{quote(PASSWORD, safe='')}@"
    uri = f"mongodb+srv://{who}{NAME}/?tlsCAFile={ca}"
    assert await both(uri) == {"u@x/:%@app"}
    assert {f"_mongodb._tcp.{NAME}. SRV", f"{NAME}. TXT"} <= {*seeds.asked}
    assert "TXT record" in " ".join(tool_uri(Target.parse(uri).uri, "tally").warnings)
    with_source = f"{uri}&authSource=app"
    assert not tool_uri(Target.parse(with_source).uri, "tally").warnings
    assert await who_is_tool(with_source, PASSWORD) == "u@x/:%@app"
    assert tool_uri(Target.parse(with_source).uri, "tally").text.startswith(f"mongodb+srv://u%40x%2F%3A%25@{NAME}/?")


def test_command_line_uses_a_dns_seed_list(forms: Forms, seeds: SeedList) -> None:
    ca = quote(str(forms.folder / "ca" / "ca.pem"), safe="")
    result = CliRunner().invoke(
        main,
        ["doctor", "--password-file=-", f"mongodb+srv://two@{NAME}/?authSource=admin&tlsCAFile={ca}"],
        input=PASSWORD,
    )
    assert "two@admin" in result.stdout, result.stderr
    missing = CliRunner().invoke(main, ["counters", "--timeout=60", "mongodb+srv://no.tallyglass.test/"])
    assert missing.exit_code == 3
    assert "The DNS seed list returns no servers." in missing.stderr
