"""Whatever is wrong gets one clear sentence, advice, the right exit code; never a traceback, never a password."""

from __future__ import annotations

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

QUICK = "serverSelectionTimeoutMS=700"
HANDSHAKE = "serverSelectionTimeoutMS=1900"
BACKUP = [f"--backup={Path(__file__).parent}", "--before=1795197974:14"]
ASKING = {
    "counters": ["counters"],
    "check": ["check"],
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


def assert_one_sentence(result: Result, words: str, *, code: int, on_stdout: bool = False) -> None:
    told = result.stdout if on_stdout else result.stderr
    lines = [line for line in told.splitlines() if "warning:" not in line]
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
    """A certificate for another host name, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=db.example.com"]
    argv += ["-addext", "subjectAltName=DNS:db.example.com", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    return Certificates(both, certificate)


@pytest.fixture(scope="module")
def tls_server(certificates: Certificates) -> Iterator[str]:
    """A server that takes TLS only; its host and port."""
    options = ["--tlsMode=requireTLS", f"--tlsCertificateKeyFile={certificates.server}"]
    options += [f"--tlsCAFile={certificates.authority}", "--tlsAllowConnectionsWithoutCertificates"]
    with Standalone(options=options) as servers:
        yield servers.members[0].address


@pytest.fixture(scope="module")
def frozen_server() -> Iterator[str]:
    """A server that takes connections and answers nothing; its host and port."""
    with Standalone() as servers:
        servers.freeze(0)
        yield servers.members[0].address
        servers.thaw(0)


Trouble = Callable[[pytest.FixtureRequest], tuple[str, str]]


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


TROUBLES: dict[str, Trouble] = {
    "not there": lambda _: (f"mongodb://{HOST}:{free_port()}/?{QUICK}", "No server listens"),
    "unknown host": lambda _: (f"mongodb://nowhere.invalid/?{QUICK}", "host name"),
    "wrong password": lambda r: (_guarded(r).uri("admin", PASSWORD + "x"), "does not accept"),
    "wants TLS": lambda r: (_tls(r, ""), "closes each connection"),
    "untrusted": lambda r: (_tls(r, "&tls=true"), "not signed by an authority"),
    "other name": lambda r: (_tls(r, f"&tls=true&tlsCAFile={_authority(r)}"), "another host name"),
    "no TLS": lambda r: (r.getfixturevalue("replica_set").uri + f"&tls=true&{HANDSHAKE}", "does not speak TLS"),
    "other set": lambda r: (
        r.getfixturevalue("replica_set").uri.replace("=tally", "=other") + f"&{QUICK}",
        "another replica set",
    ),
    "frozen": lambda r: (f"mongodb://{r.getfixturevalue('frozen_server')}/", "does not answer"),
}


# All commands connect by one piece of code: every trouble once, and every command with two of them.
@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        *(("doctor", trouble) for trouble in TROUBLES),
        *((name, trouble) for name in ASKING if name != "doctor" for trouble in ("not there", "wrong password")),
    ],
)
def test_a_server_that_cannot_be_asked(name: str, trouble: str, request: pytest.FixtureRequest) -> None:
    uri, words = TROUBLES[trouble](request)
    result = run([*ASKING[name], uri])
    assert_one_sentence(result, words, code=3, on_stdout=name == "check")


@pytest.mark.parametrize("name", NEED_OPLOG)
def test_where_there_is_no_oplog(name: str, standalone: Standalone) -> None:
    result = run([*ASKING[name], standalone.uri])
    assert_one_sentence(result, "standalone has no oplog", code=3)


def test_a_plan_where_there_is_no_oplog(standalone: Standalone) -> None:
    result = run([*ASKING["plan"], standalone.uri])
    assert result.exit_code == 2
    assert "blocked: There is no oplog here. A standalone has no oplog." in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", ["counters", "check", "oplog", "follow", "incidents", "doctor"])
def test_a_user_who_may_do_nothing(name: str, guarded_set: GuardedSet) -> None:
    result = run([*ASKING[name], guarded_set.uri(guarded_set.user())])
    assert "Traceback" not in result.output
    assert not [leak for leak in LEAKS if leak in result.output]
    if name == "doctor":
        assert result.exit_code == 1
        assert "createRole" in result.stdout
    elif name == "counters":
        assert "doctor" in result.stderr
        assert result.exit_code == 3
    else:
        words = "no collection" if name == "check" else "may not"
        assert_one_sentence(result, words, code=3, on_stdout=name == "check")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["oplog", "--since", "yes\x1b[2Jterday"], "not a moment"),
        (["oplog", "--since", "now", "--until", "now-1h"], "empty"),
        (["oplog", "--op", "x\x1b"], "letters"),
        (["oplog", "--text", "/(/"], "cannot be read"),
        (["oplog", "--ns", ""], "--ns is empty"),
        (["doctor", "--db", ""], "--db is empty"),
        (["oplog", "--limit", "-1"], "--limit"),
        (["oplog", "--timeout", "0"], "--timeout"),
        (["incidents", "--since", "99999999999:1"], "not a"),
        (["counters", "--config", "/nowhere/at\x1b/all.toml"], "all.toml"),
        (["check", "--warn-used", "150%"], "75%"),
        (["check", "--warn-days", "soon"], "'soon' is not a number"),
        (["restore", "plan", "--backup=/nowhere", "--before=5"], "not a moment"),
        (["restore", "plan", "--backup=/nowhere"], "--before"),
        (["restore", "plan", "--before=5:5"], "--backup"),
        (["restore", "plan", *BACKUP, "--spare=mongodb://x y/"], "holds a blank"),
        (["restore", "plan", "--backup=/nowhere/at/all", "--before=1795197974:14"], "/nowhere/at/all"),
        (["restore", "verify", "/nowhere/plan.json", "--spare=mongodb://h/"], "plan.json"),
        (["restore"], "plan, prepare or verify"),
    ],
)
def test_malformed_words(words: list[str], told: str, replica_set: ReplicaSet) -> None:
    uri = [] if words[:2] == ["restore", "verify"] or words == ["restore"] else [replica_set.uri]
    result = run([*words, *uri])
    assert_one_sentence(result, told, code=3 if words[0] == "check" else 2, on_stdout=words[0] == "check")
