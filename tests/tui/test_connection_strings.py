"""A wrong connection string is one sentence and exit code 2, wherever it is given, and nothing is connected to."""

from __future__ import annotations

import socket
import warnings
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from pymongo.common import URI_OPTIONS_VALIDATOR_MAP
from pymongo.uri_parser import split_options

from pseudo_terminal import Terminal, dashboard, environment
from tallyglass.connection.uri_options import OPTIONS, check_options
from tallyglass.errors import InputError
from tallyglass_tui.cli.main import main

CANARY = "kAnArY7uri"

WRONG = {
    "mongodb://h/?tls=ture": "'ture' is not a value of tls. It can be true or false.",
    "mongodb://h/?tls=True": "'True' is not a value of tls. It can be true or false.",
    "mongodb://h/?tls=": "tls has no value in the connection string. It can be true or false.",
    "mongodb://h/?tls": "The option 'tls' of the connection string is not of the form name=value.",
    "mongodb://h/?tls=true=1": "The option 'tls' of the connection string is not of the form name=value.",
    "mongodb://h/?tsl=true": "'tsl' is not an option of a connection string. Did you mean tls?",
    "mongodb://h/?t%6Cs=true": "'t%6Cs' is not an option of a connection string.",
    "mongodb://h/?ssl=yes": "'yes' is not a value of ssl. It can be true or false.",
    "mongodb://h/?tls=true&tls=false": "The connection string has tls twice.",
    "mongodb://h/?tls=true&TLS=true": "The connection string has tls twice.",
    "mongodb://h/?tls=true&ssl=false": "ssl and tls in the connection string contradict each other.",
    "mongodb://h/?tls=false&tlsAllowInvalidHostnames=false": "The connection string has TLS options, and not tls=true.",
    "mongodb://h/?tls=true;readPreference=nearest": "contains a semicolon among its options. Separate the options",
    "mongodb://h/?tls=true&": "The option '' of the connection string is not of the form name=value.",
    "mongodb://h/&tls=true": "options that do not follow a question mark",
    "mongodb://h/tls=true": "options that do not follow a question mark",
    "mongodb://h:1&tls=true": "options that do not follow a question mark",
    "mongodb://h/?tlsCAFile=/nowhere/ca.pem": "The file '/nowhere/ca.pem' in tlsCAFile cannot be read: No such file",
    "mongodb://h/?tlsCertificateKeyFile=/": "The file '/' in tlsCertificateKeyFile cannot be read: Is a directory",
    f"mongodb://h/?tlsCAFile={__file__}": "cannot be used",
    "mongodb://h/?tlsInsecure=1": "'1' is not a value of tlsInsecure. It can be true or false.",
    "mongodb://h/?tlsInsecure=true&tlsAllowInvalidCertificates=true": "cannot be specified simultaneously",
    "mongodb://h/?directconnection=yes": "'yes' is not a value of directConnection. It can be true or false.",
    "mongodb://h,g/?directConnection=true": "directConnection=true needs a single host.",
    "mongodb://h/?connect=direct": "directConnection=true connects to one server alone",
    "mongodb://h/?replicaSet=": "replicaSet has no value",
    "mongodb://h/?replSet=rs0": "'replSet' is not an option of a connection string. Did you mean replicaSet?",
    "mongodb://h/?readPreference=secondry": "It can be primary, primaryPreferred, secondary, secondaryPreferred or",
    "mongodb://h/?readPreference=primary&readPreferenceTags=dc:1": "cannot be combined with tags",
    "mongodb://h/?readPreference=secondary&readPreferenceTags=east": "'east' is not a value of readPreferenceTags.",
    "mongodb://h/?readPreference=secondary&maxStalenessSeconds=10": "It can be -1 or a whole number of seconds, 90",
    "mongodb://h/?readConcernLevel=majorty": "It can be local, available, majority, linearizable or snapshot.",
    "mongodb://h/?connectTimeoutMS=2s": "'2s' is not a value of connectTimeoutMS. It can be a whole number of mill",
    "mongodb://h/?socketTimeoutMS=1000000000": "'1000000000' is not a value of socketTimeoutMS.",
    "mongodb://h/?heartbeatFrequencyMS=0": "It can be a whole number of milliseconds above 0.",
    "mongodb://h/?maxPoolSize=-1": "It can be a whole number, 0 or more.",
    "mongodb://h/?minPoolSize=9&maxPoolSize=2": "minPoolSize is larger than maxPoolSize.",
    "mongodb://h/?zlibCompressionLevel=12": "It can be a whole number from -1 to 9.",
    "mongodb://h/?compressors=gzip": "It can be zlib, zstd and snappy with a comma between them.",
    "mongodb://h/?compressors=zlib,snappy": "compression with snappy is not available",  # only warned of
    "mongodb://h/?uuidRepresentation=java": "or csharpLegacy.",
    "mongodb://h/?proxyHost=bastion": "The driver does not support the option proxyHost. PyMongo connects through no",
    "mongodb://h/?w=-1": "'-1' is not a value of w.",
    "mongodb://h/?appName=" + 129 * "x": "a text of at most 128 bytes",
    "mongodb://u@h/?authMechanism=scram-sha-1": "It can be SCRAM-SHA-256, SCRAM-SHA-1, MONGODB-X509,",
    f"mongodb://u@h/?authMechanism={CANARY}%1B[2J": "is not a value of authMechanism.",
    f"mongodb://h/?authMechanismProperties=AWS_SESSION_TOKN:{CANARY}": "This is not a value of authMechanismProperties",
    f"mongodb://h/?password={CANARY}": "'password' is not an option of a connection string.",
    f"mongodb://h/?tlsCertificateKeyFilePassword={CANARY}=": "'tlsCertificateKeyFilePassword' of the connection string",
    "mongodb://h:port/": "A port in the connection string is not a number from 1 to 65535.",
    "mongodb://h:70000/": "A port in the connection string is not a number from 1 to 65535.",
    "mongodb+srv://h.example.com:27017/": "must not include a port number",
    "mongodb://h/?srvMaxHosts=2": "only allowed with 'mongodb+srv://' URIs",
}  # fmt: skip


@pytest.mark.parametrize("uri", WRONG)
def test_a_wrong_connection_string_is_one_sentence(uri: str) -> None:
    result = CliRunner().invoke(main, ["counters", "--password-file=-", uri] if "u@" in uri else ["counters", uri])
    (line,) = [line for line in result.stderr.splitlines() if "(ps)" not in line]
    assert WRONG[uri] in line
    assert line.isprintable()
    assert CANARY not in line or "is not a value of authMechanism." in line
    assert (result.exit_code, result.stdout) == (2, "")


@example("tlsCAFile", "\0")
@given(st.sampled_from(sorted(OPTIONS)), st.sampled_from(["true", "0", "1", "90", "-1", "x", "a:b", ""]) | st.text())
def test_what_passes_is_applied_by_the_driver(name: str, value: str) -> None:
    """Each option is one of the driver, which warns of no value that is accepted here."""
    option = f"{name}={quote(value, safe=':,')}"
    try:
        check_options(f"mongodb://h/?{option}")
    except InputError:
        return
    if name.lower() in URI_OPTIONS_VALIDATOR_MAP and name != "compressors":  # which depends on what is installed
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert split_options(option, validate=True, warn=True)


def test_every_option_that_can_be_text_is_known() -> None:
    assert set(URI_OPTIONS_VALIDATOR_MAP) - {name.lower() for name in OPTIONS} == {"driver", "server_api"}


@pytest.mark.terminal
@pytest.mark.parametrize("place", ["dashboard", "argument", "shard", "environment", "profile", "spare"])
def test_misspelt_tls_opens_no_connection(tmp_path: Path, place: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        uri = f"mongodb://{host}:{port}/?tls=ture"
        (tmp_path / "tallyglass").mkdir()
        (tmp_path / "tallyglass" / "profiles.toml").write_text(f'[p]\nuri = "{uri}"\n')
        words = {
            "dashboard": [uri],
            "argument": ["counters", uri],
            "shard": ["counters", "--shard", uri],
            "environment": ["counters"],
            "profile": ["--profile=p"],
            "spare": ["restore", "plan", "--before=1795197974:14", f"--backup={tmp_path}", f"--spare={uri}", "h:1"],
        }
        environ = environment(tmp_path, XDG_CONFIG_HOME=str(tmp_path), TALLYGLASS_URI=uri)
        with Terminal(dashboard(*words[place]), environ, size=(200, 10)) as terminal:
            terminal.wait("'ture' is not a value of tls. It can be true or false.")
            assert terminal.wait_for_exit() == 2
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
