"""Every error is one clear sentence with advice and the right exit code, without traceback or password."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from access_control import LEAKS, PASSWORD, GuardedSet
from tallyglass.demo.server import HOST, ReplicaSet, Standalone, free_port
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

QUICK = "serverSelectionTimeoutMS=2000"
HANDSHAKE = "serverSelectionTimeoutMS=4000"
BACKUP = [f"--backup={Path(__file__).parent}", "--before=1795197974:14"]
COMMANDS = {
    "counters": ["counters"],
    "check": ["check"],
    "repair": ["repair"],
    "oplog": ["oplog"],
    "follow": ["oplog", "--follow"],
    "incidents": ["incidents"],
    "plan": ["restore", "plan", *BACKUP],
    "prepare": ["restore", "prepare"],
    "doctor": ["doctor"],
}
NEED_OPLOG = ("oplog", "follow", "incidents", "prepare")


def run(words: list[str]) -> Result:
    return CliRunner().invoke(main, words)


ECHOED_TIME = re.compile(r"^tallyglass: --(since|until|before|to) is .* local, ")
"""A time that was typed is echoed before it is used."""


def assert_one_sentence(result: Result, words: str, *, code: int, on_stdout: bool = False) -> None:
    output = result.stdout if on_stdout else result.stderr
    lines = [line for line in output.splitlines() if "warning:" not in line and not ECHOED_TIME.search(line)]
    assert len(lines) == 1, result.output
    assert "Errno" not in lines[0]
    assert words in lines[0]
    assert lines[0].isprintable()
    assert result.exit_code == code, result.output
    if not on_stdout:
        assert result.stdout == ""
    assert "Traceback" not in result.output
    assert not [leak for leak in (*LEAKS, PASSWORD) if leak in result.output]


@dataclass(frozen=True)
class Certificates:
    server: Path
    authority: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A self-signed certificate for another host name."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=db.example.com"]
    argv += ["-addext", "subjectAltName=DNS:db.example.com", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    return Certificates(both, certificate)


@pytest.fixture(scope="module")
def tls_server(certificates: Certificates) -> Iterator[str]:
    """Host and port of a server that requires TLS."""
    options = ["--tlsMode=requireTLS", f"--tlsCertificateKeyFile={certificates.server}"]
    options += [f"--tlsCAFile={certificates.authority}", "--tlsAllowConnectionsWithoutCertificates"]
    with Standalone(options=options) as servers:
        yield servers.members[0].address


@pytest.fixture(scope="module")
def frozen_server() -> Iterator[str]:
    """Host and port of a server that accepts connections and never answers."""
    with Standalone() as servers:
        servers.freeze(0)
        yield servers.members[0].address
        servers.thaw(0)


ErrorCase = Callable[[pytest.FixtureRequest], tuple[str, str]]


def _tls(request: pytest.FixtureRequest, options: str) -> str:
    return f"mongodb://{request.getfixturevalue('tls_server')}/?{HANDSHAKE}{options}"


def _guarded(request: pytest.FixtureRequest) -> GuardedSet:
    guarded = request.getfixturevalue("guarded_set")
    assert isinstance(guarded, GuardedSet)
    return guarded


def _authority(request: pytest.FixtureRequest) -> Path:
    certificates = request.getfixturevalue("certificates")
    assert isinstance(certificates, Certificates)
    return certificates.authority


ERRORS: dict[str, ErrorCase] = {
    "not listening": lambda _: (f"mongodb://{HOST}:{free_port()}/?{QUICK}", "No server listens"),
    "unknown host": lambda _: (f"mongodb://nowhere.invalid/?{QUICK}", "host name"),
    "wrong password": lambda r: (_guarded(r).uri("admin", PASSWORD + "x"), "does not accept"),
    "requires TLS": lambda r: (_tls(r, ""), "closes every connection"),
    "untrusted": lambda r: (_tls(r, "&tls=true"), "not signed by an authority"),
    "other name": lambda r: (_tls(r, f"&tls=true&tlsCAFile={_authority(r)}"), "another host name"),
    "without TLS": lambda r: (r.getfixturevalue("replica_set").uri + f"&tls=true&{HANDSHAKE}", "does not speak TLS"),
    "other set": lambda r: (
        r.getfixturevalue("replica_set").uri.replace("=tally", "=other") + f"&{QUICK}",
        "another replica set",
    ),
    "frozen": lambda r: (f"mongodb://{r.getfixturevalue('frozen_server')}/", "does not answer"),
}


# All commands share the code that connects: test every error once, and every command with two of them.
@pytest.mark.parametrize(
    ("name", "error"),
    [
        *(("doctor", error) for error in ERRORS),
        *((name, error) for name in COMMANDS if name != "doctor" for error in ("not listening", "wrong password")),
    ],
)
def test_unreachable_server_is_one_sentence(name: str, error: str, request: pytest.FixtureRequest) -> None:
    uri, words = ERRORS[error](request)
    result = run([*COMMANDS[name], uri])
    assert_one_sentence(result, words, code=3, on_stdout=name == "check")


@pytest.mark.parametrize("name", NEED_OPLOG)
def test_standalone_has_no_oplog(name: str, standalone: Standalone) -> None:
    result = run([*COMMANDS[name], standalone.uri])
    assert_one_sentence(result, "standalone has no oplog", code=3)


def test_plan_on_a_standalone_is_blocked(standalone: Standalone) -> None:
    result = run([*COMMANDS["plan"], standalone.uri])
    assert result.exit_code == 2
    assert "blocked: There is no oplog here. A standalone has no oplog." in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", ["counters", "check", "repair", "oplog", "follow", "incidents", "doctor"])
def test_user_without_privileges_is_one_sentence(name: str, guarded_set: GuardedSet) -> None:
    result = run([*COMMANDS[name], guarded_set.uri(guarded_set.create_user())])
    assert "Traceback" not in result.output
    assert not [leak for leak in LEAKS if leak in result.output]
    if name == "doctor":
        assert result.exit_code == 1
        assert "createRole" in result.stdout
    elif name in ("counters", "repair"):
        assert "doctor" in result.stderr
        assert result.exit_code == 3
    else:
        words = "no collection" if name == "check" else "may not"
        assert_one_sentence(result, words, code=3, on_stdout=name == "check")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["oplog", "--since", "yes\x1b[2Jterday"], "is not a time"),
        (["oplog", "--since", "now", "--until", "now-1h"], "empty"),
        (["oplog", "--op", "x\x1b"], "letters"),
        (["oplog", "--text", "/(/"], "cannot be read"),
        (["oplog", "--ns", ""], "--ns is empty"),
        (["doctor", "--db", ""], "--db is empty"),
        (["oplog", "--limit", "-1"], "--limit"),
        (["incidents", "--ns", "shop."], "is no collection"),
        (["incidents", "--ns", ".orders"], "is no collection"),
        (["oplog", "--timeout", "0"], "--timeout"),
        (["incidents", "--since", "99999999999:1"], "not a"),
        (["counters", "--config", "/nowhere/at\x1b/all.toml"], "all.toml"),
        (["check", "--warn-used", "150%"], "75%"),
        (["check", "--warn-days", "soon"], "'soon' is not a number"),
        (["restore", "plan", "--backup=/nowhere", "--before=5"], "is not a time"),
        (["restore", "plan", "--backup=/nowhere"], "--before"),
        (["restore", "plan", *BACKUP, "--count=5"], "need --incident"),
        (["restore", "plan", "--backup=/", "--incident=1", "--statement=drop()"], "is not an updateMany"),
        (["restore", "plan", "--before=1700000000:5"], "--backup"),
        (["restore", "plan", *BACKUP, "--spare=mongodb://x y/"], "contains a space"),
        (["restore", "plan", "--backup=/nowhere/at/all", "--before=1795197974:14"], "/nowhere/at/all"),
        (["restore", "plan", *BACKUP, "--script=/nowhere/x.sh"], "/nowhere is missing"),
        (["restore", "plan", *BACKUP, "--out=~no such user/x"], "parent is missing"),
        (["restore", "verify", "/nowhere/plan.json", "--spare=mongodb://h/"], "plan.json"),
        (["restore"], "Name a subcommand: backups, drill, look"),
    ],
)
def test_malformed_arguments_are_one_sentence(words: list[str], expected: str, replica_set: ReplicaSet) -> None:
    uri = [] if words[:2] == ["restore", "verify"] or words == ["restore"] else [replica_set.uri]
    result = run([*words, *uri])
    assert_one_sentence(result, expected, code=3 if words[0] == "check" else 2, on_stdout=words[0] == "check")
