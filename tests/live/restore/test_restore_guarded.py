"""Three members with access control and TLS, a user who may only read what the proof needs, and a guarded spare."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import MongoClient
from restore_scene import Scene, blocks, ids, record, same

from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.moment import Ts
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.document import to_json

pytestmark = [pytest.mark.live, pytest.mark.tools]

PASSWORD = "p@ss'w\"o r/d%é$(id)`"


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """A certificate authority, a server certificate for loopback, and a key file."""

    def openssl(*argv: str) -> None:
        subprocess.run(["openssl", *argv], check=True, capture_output=True, cwd=folder)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=restore test", "-addext", "basicConstraints=critical,CA:TRUE")  # fmt: skip
    openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server"
    )
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
            "server.crt", "-days", "2", "-extfile", "san")  # fmt: skip
    pair = folder / "server pair.pem"
    pair.write_text((folder / "server.crt").read_text() + (folder / "server.key").read_text())
    key = folder / "key"
    key.write_text("c2hhcmVkIGJldHdlZW4gbWVtYmVycw==\n")
    key.chmod(0o600)
    return folder / "ca.pem", pair, key


class GuardedMembers(ReplicaSet):
    """A replica set whose clients need TLS and, once there are users, a login."""

    def __init__(self, folder: Path) -> None:
        self.authority, pair, key = certificates(folder)
        self.login: dict[str, Any] = {}
        super().__init__(
            3,
            options=[
                "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(pair), "--tlsCAFile", str(self.authority),
                "--tlsAllowConnectionsWithoutCertificates", "--keyFile", str(key), "--auth",
            ],
        )  # fmt: skip

    def client(self, index: int | None = None, **options: Any) -> MongoClient[dict[str, Any]]:
        return super().client(index, **({"tls": True, "tlsCAFile": str(self.authority)} | self.login | options))

    def uri_of(self, user: str) -> str:
        hosts = ",".join(member.address for member in self.members)
        ca = quote(str(self.authority), safe="")
        return f"mongodb://{user}:{quote(PASSWORD, safe='')}@{hosts}/?tls=true&tlsCAFile={ca}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedMembers]:
    with GuardedMembers(tmp_path_factory.mktemp("tls")) as servers:
        index = servers.await_primary()
        with servers.client(index) as client:
            client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
        servers.login = {"username": "root", "password": PASSWORD}
        with servers.client() as client:
            reader = [{"role": "clusterMonitor", "db": "admin"}, {"role": "read", "db": "shop"}]
            client.admin.command("createUser", "reader", pwd=PASSWORD, roles=reader)
        yield servers


@pytest.fixture
def guarded_spare() -> Iterator[Standalone]:
    with Standalone(options=["--auth"]) as servers:
        with servers.client(0) as client:
            client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
        with servers.client(0, username="root", password=PASSWORD) as client:
            everything = {"resource": {"anyResource": True}, "actions": ["anyAction"]}
            client.admin.command("createRole", "pitrReplay", privileges=[everything], roles=[])
            client.admin.command("createUser", "replay", pwd=PASSWORD, roles=["pitrReplay"])
        yield servers


class GuardedScene(Scene):
    """A scene whose backup is taken by root."""

    def __init__(self, source: GuardedMembers, spare: Standalone, folder: Path, path: str) -> None:
        super().__init__(source, spare, folder, path)
        self.spare_client.close()
        self.spare_client = spare.client(0, username="root", password=PASSWORD)
        self.root_uri = source.uri_of("root")

    def backup(self, *options: str, archive: bool = False, name: str = "backup", **environment: str) -> Path:
        config = self.folder / "root.yml"
        quoted = PASSWORD.replace("'", "''")
        config.write_text(f'uri: "{self.root_uri.replace(":" + quote(PASSWORD, safe=""), "")}&authSource=admin"\n')
        config.write_text(config.read_text() + f"password: '{quoted}'\n")
        config.chmod(0o600)
        path = self.folder / name
        self.tool("mongodump", f"--config={config}", f"--out={path}", *options, **environment)
        return path


def limit_of(scene: Scene) -> tuple[Any, Ts]:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n} for n in range(20, 40)])
    before, since = record(scene.client), scene.now()
    shop.orders.drop()
    scene.settle()
    return before, scene.first_entry({"o.drop": "orders"}, since)


def nothing_written(folder: Path, work: Path, output: str) -> None:
    """No form of the password is in the output or in any file that the plan, its script and the tools wrote."""
    forms = (PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD), PASSWORD.replace("'", "''"))
    history = list((folder / ".mongodb").rglob("*_log"))
    assert history, "where mongosh logs"
    files = [file for file in (*work.rglob("*"), *history, folder / "restore.sh") if file.is_file()]
    for text in (output, *(file.read_text(errors="replace") for file in files)):
        assert not any(form in text for form in forms), "a password was written down"
    assert work.stat().st_mode & 0o077 == 0


async def test_three_members_tls_and_least_privilege(
    guarded: GuardedMembers, guarded_spare: Standalone, tmp_path: Path, tool_path: str
) -> None:
    scene = GuardedScene(guarded, guarded_spare, tmp_path, tool_path)
    scene.client["shop"].orders.drop()
    scene.client["shop"].orders.insert_many([{"_id": n} for n in range(20)])
    backup = scene.backup("--oplog")
    before, limit = limit_of(scene)
    source = guarded.uri_of("reader")
    address = guarded_spare.members[0].address

    weak = f"mongodb://root:{quote(PASSWORD, safe='')}@{address}/"
    assert "spare-privileges" in ids(await scene.plan(backup, limit, uri=source, spare_uri=weak, spare=""))

    strong = f"mongodb://replay:{quote(PASSWORD, safe='')}@{address}/"
    plan = await scene.plan(backup, limit, uri=source, spare_uri=strong, spare="")
    assert plan.level is not Level.BLOCK, blocks(plan)
    assert plan.steps.passwords == ("source", "spare")
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    output = scene.must_run(
        plan, "--until=verify", f"--source-password-file={secret}", f"--spare-password-file={secret}"
    )
    same({ns: row for ns, row in record(scene.spare_client).items() if ns.startswith("shop.")},
         {ns: row for ns, row in before.items() if ns.startswith("shop.")})  # fmt: skip

    names = scene.client["shop"].list_collection_names()
    secrets = (f"--source-password-file={secret}", f"--spare-password-file={secret}")
    held_back = scene.run(plan, "--until=return", *secrets)
    assert (held_back.returncode, "Missing privileges" in held_back.stdout + held_back.stderr) == (1, True)
    assert scene.client["shop"].list_collection_names() == names, "whose user may only read writes nothing"
    scene.client.admin.command("grantRolesToUser", "reader", roles=[
        {"role": "readWrite", "db": "shop"}, {"role": "dbAdmin", "db": "shop"}])  # fmt: skip
    output += scene.must_run(plan, "--until=return", *secrets)
    assert record(scene.client, databases=("shop",))["shop.orders"] == before["shop.orders"]
    nothing_written(tmp_path, Path(plan.steps.work_dir), output + to_json(plan))
    scene.client.close()
    scene.spare_client.close()


async def test_a_user_who_may_not_read_the_oplog(
    guarded: GuardedMembers, spare: Standalone, tmp_path: Path, tool_path: str
) -> None:
    scene = GuardedScene(guarded, spare, tmp_path, tool_path)
    scene.client.admin.command("createUser", "poor", pwd=PASSWORD, roles=[{"role": "read", "db": "shop"}])
    scene.client["shop"].orders.drop()
    scene.client["shop"].orders.insert_many([{"_id": n} for n in range(20)])
    backup = scene.backup("--oplog")
    _, limit = limit_of(scene)
    plan = await scene.plan(backup, limit, uri=guarded.uri_of("poor"))
    assert "privileges" in ids(plan)
    assert plan.steps.commands == ()
    scene.client.close()
    scene.spare_client.close()
