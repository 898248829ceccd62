"""Every kind of login and of connection string that can be tried here, with both drivers, and the tools' URI for each.

The tools' URI is tried as they would use it: with the password that they ask for, and nothing else.
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
from tallyglass.restore.tools.mongosh import program
from tallyglass.restore.tools.tool_uri import tool_uri
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

PASSWORD = "p@s:/?#[]%41 +é'\"$(id)`\\"
UNPREPARED = "a\x1bb\u202ec7"
"""Allowed for SCRAM-SHA-1, and not for SCRAM-SHA-256, which prepares passwords first."""
PASSPHRASE = "p@ss:/?&é=%"
SUBJECT = "CN=monitor \\,x=1"


@dataclass(frozen=True)
class Forms:
    """The server, and what a client needs."""

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
        for name, word, kind in (("one", PASSWORD, "1"), ("odd", UNPREPARED, "1"), ("two", PASSWORD, "256")):
            guarded.admin.admin.command("createUser", name, pwd=word, roles=see, mechanisms=[f"SCRAM-SHA-{kind}"])
        guarded.admin.app.command("createUser", "u@x/:%", pwd=PASSWORD, roles=see)
        guarded.admin["$external"].command("createUser", SUBJECT, roles=see)
        yield Forms(guarded, guarded.uri("").split("//")[1].split("/")[0], folder)


async def who_is(target: Target) -> str:
    """As whom the server takes a client of this target."""
    gateway = open_gateway(target)
    try:
        said = await gateway.command("connectionStatus")
        return " ".join(f"{user['user']}@{user['db']}" for user in said["authInfo"]["authenticatedUsers"])
    finally:
        await gateway.close()


async def both(uri: str) -> set[str]:
    return {await who_is(Target.parse(uri, driver)) for driver in Driver}


async def as_the_tools(uri: str, password: str) -> str:
    """As whom the server takes a tool: it is given the URI, and asks for the password where it would."""
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
        ("odd", "?authMechanism=SCRAM-SHA-1", UNPREPARED, "odd@admin"),
        ("u@x/:%", "?authSource=app", PASSWORD, "u@x/:%@app"),
        ("u@x/:%", "app?", PASSWORD, "u@x/:%@app"),
    ],
)
async def test_passwords(forms: Forms, user: str, query: str, password: str, found: str) -> None:
    uri = forms.uri(user, query, password)
    assert await both(uri) == {found}
    assert await as_the_tools(uri, password) == found


async def test_certificates(forms: Forms) -> None:
    uri = forms.uri(query=f"?authMechanism=MONGODB-X509&{forms.certificate('client.pem')}", tls=True)
    assert await both(uri) == {f"{SUBJECT}@$external"}
    assert await as_the_tools(uri, "") == f"{SUBJECT}@$external"
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
        ("odd", "?authMechanism=SCRAM-SHA-1", UNPREPARED, "odd"),
        ("u@x/:%", "?authSource=app", PASSWORD, "u@x/:%"),
        ("", "?authMechanism=MONGODB-X509&{certificate}", "", SUBJECT),
    ],
)
def test_the_tools_themselves(forms: Forms, tmp_path: Path, user: str, query: str, password: str, found: str) -> None:
    query = query.format(certificate=forms.certificate("client.pem"))
    made = tool_uri(Target.parse(forms.uri(user, query, password, tls=not user)).uri, "tally")
    word = f"password: {json.dumps(password)}\n" if made.asks else ""
    (tmp_path / "config.yml").write_text(f"uri: {json.dumps(made.text)}\n{word}", encoding="ascii")
    dumped = run_tool(tmp_path, "mongodump", "--config=config.yml", "--db=app", "--collection=things", "--out=dump")
    assert "(1 document)" in dumped
    (tmp_path / "held").write_text(f"{password}\n", encoding="utf-8")
    ask = "print(db.runCommand({connectionStatus: 1}).authInfo.authenticatedUsers[0].user);"
    (tmp_path / "who.js").write_text(program([ask], made.text, "held" if made.asks else ""), encoding="ascii")
    assert found in run_tool(tmp_path, "mongosh", "--nodb", "--norc", "--quiet", "--file=who.js").splitlines()


def run_tool(folder: Path, *argv: str) -> str:
    environment = {"PATH": f"{database_tools.search_path()}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("user", "query", "password", "said"),
    [
        ("", "?authMechanism=MONGODB-X509&{stranger}", "", "does not know the name in this client certificate"),
        ("one", "?authMechanism=SCRAM-SHA-256", PASSWORD, "does not accept this user name and password"),
        ("u@x/:%", "", PASSWORD, "does not accept this user name and password"),
        ("two", "?authMechanism=SCRAM-SHA-256", UNPREPARED, "a character that SCRAM-SHA-256 does not allow"),
        ("two", "?authMechanism=PLAIN", PASSWORD, "does not offer the kind of login"),
        ("two", "?authMechanism=GSSAPI", PASSWORD, "needs a Python package"),
        ("two", "?authMechanism=MONGODB-AWS", PASSWORD, "needs a Python package"),
    ],
)
async def test_what_does_not_log_in_is_one_sentence(
    forms: Forms, user: str, query: str, password: str, said: str
) -> None:
    uri = forms.uri(user, query.format(stranger=forms.certificate("stranger.pem")), password, tls=True)
    for driver in Driver:
        with pytest.raises(ConnectError, match=said) as told:
            await who_is(Target.parse(uri, driver))
        assert str(told.value).isprintable()
        assert ".." not in str(told.value)
        assert not password or password not in str(told.value)


@pytest.fixture
def seeds(forms: Forms, monkeypatch: pytest.MonkeyPatch) -> Iterator[SeedList]:
    """The deployment by a name, which only this test's DNS knows."""
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


async def test_a_dns_seed_list(forms: Forms, seeds: SeedList) -> None:
    ca = quote(str(forms.folder / "ca" / "ca.pem"), safe="")
    who = f"{quote('u@x/:%', safe='')}:{quote(PASSWORD, safe='')}@"
    uri = f"mongodb+srv://{who}{NAME}/?tlsCAFile={ca}"
    assert await both(uri) == {"u@x/:%@app"}
    assert {f"_mongodb._tcp.{NAME}. SRV", f"{NAME}. TXT"} <= {*seeds.asked}
    assert "TXT record" in " ".join(tool_uri(Target.parse(uri).uri, "tally").warnings)
    said = f"{uri}&authSource=app"
    assert not tool_uri(Target.parse(said).uri, "tally").warnings
    assert await as_the_tools(said, PASSWORD) == "u@x/:%@app"
    assert tool_uri(Target.parse(said).uri, "tally").text.startswith(f"mongodb+srv://u%40x%2F%3A%25@{NAME}/?")


def test_a_dns_seed_list_on_the_command_line(forms: Forms, seeds: SeedList) -> None:
    ca = quote(str(forms.folder / "ca" / "ca.pem"), safe="")
    result = CliRunner().invoke(
        main,
        ["doctor", "--password-file=-", f"mongodb+srv://two@{NAME}/?authSource=admin&tlsCAFile={ca}"],
        input=PASSWORD,
    )
    assert "two@admin" in result.stdout, result.stderr
    gone = CliRunner().invoke(main, ["counters", "--timeout=5", "mongodb+srv://no.tallyglass.test/"])
    assert gone.exit_code == 3
    assert "That DNS seed list gives no servers." in gone.stderr
