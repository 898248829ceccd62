"""The tools' URI means for them what the operator's means for PyMongo, and never holds a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from pymongo.common import URI_OPTIONS_VALIDATOR_MAP
from pymongo.uri_parser import parse_uri

from tallyglass.errors import InputError
from tallyglass.restore.tools.tool_uri import CARRIED, DROPPED, REFUSED, WARNED, tool_uri


def test_every_option_of_pymongo_has_a_row() -> None:
    groups = (CARRIED, DROPPED, WARNED.keys(), REFUSED.keys())
    assert not set(URI_OPTIONS_VALIDATOR_MAP).difference(*groups), (
        "PyMongo knows new URI options: say in one of the groups what the tools make of them"
    )
    assert sum(map(len, groups)) == len(set().union(*groups)), "an option is in two groups"
    assert all((*WARNED.values(), *REFUSED.values()))


@pytest.mark.parametrize(
    ("given", "set_name", "wanted"),
    [
        ("mongodb://h:1/", "rs0", "mongodb://h:1/?replicaSet=rs0"),
        ("mongodb://h:1/", "", "mongodb://h:1/?directConnection=true"),
        ("mongodb://h:1/", "rs &a=b", "mongodb://h:1/?replicaSet=rs%20%26a%3Db"),
        ("mongodb://u:p@h:1/", "rs0", "mongodb://u@h:1/?authSource=admin&replicaSet=rs0"),
        ("mongodb://u:p@h:1/app", "rs0", "mongodb://u@h:1/?authSource=app&replicaSet=rs0"),
        ("mongodb://u%40x:p%2F@h:1/?authSource=b", "rs0", "mongodb://u%40x@h:1/?authSource=b&replicaSet=rs0"),
        ("mongodb://h:1,[::1]:2/?replicaSet=old&w=1&readPreference=secondary&appName=x", "rs0",
         "mongodb://h:1,[::1]:2/?replicaSet=rs0"),
        ("mongodb://h:1/?serverSelectionTimeoutMS=500&connectTimeoutMS=3", "s", "mongodb://h:1/?replicaSet=s"),
        ("mongodb://h:1/?directConnection=true", "s", "mongodb://h:1/?directConnection=true"),
        ("mongodb://h:1/?directConnection=false&tls=false", "s",
         "mongodb://h:1/?directConnection=false&replicaSet=s&tls=false"),
        ("mongodb://h:1/?loadBalanced=false&tls=true&tlsAllowInvalidHostnames=false", "s",
         "mongodb://h:1/?replicaSet=s&tls=true"),
        ("mongodb://h:1/?ssl=true", "s", "mongodb://h:1/?replicaSet=s&tls=true"),
        ("mongodb://u:p@h:1/?authMechanism=PLAIN", "s",
         "mongodb://u@h:1/?authMechanism=PLAIN&authSource=%24external&replicaSet=s"),
        ("mongodb+srv://u:p@c.example.net/", "s",
         "mongodb+srv://u@c.example.net/?authSource=admin&replicaSet=s&tls=true"),
        ("mongodb+srv://c.example.net/?srvMaxHosts=2&srvServiceName=db", "s",
         "mongodb+srv://c.example.net/?replicaSet=s&srvServiceName=db&tls=true"),
        ("mongodb://u@h:1/?authMechanism=MONGODB-X509", "s",
         "mongodb://u@h:1/?authMechanism=MONGODB-X509&authSource=%24external&replicaSet=s"),
    ],
)  # fmt: skip
def test_uri_for_the_tools(given: str, set_name: str, wanted: str) -> None:
    made = tool_uri(given, set_name)
    assert made.text == wanted
    if not wanted.startswith("mongodb+srv"):
        assert not parse_uri(wanted)["password"]


@pytest.mark.parametrize(
    ("given", "query", "asks", "said"),
    [
        ("u%40R@h:1/?authMechanism=GSSAPI&authMechanismProperties=SERVICE_NAME:m,CANONICALIZE_HOST_NAME:true",
         "authMechanism=GSSAPI&authMechanismProperties=SERVICE_NAME%3Am&authSource=%24external", False,
         ("CANONICALIZE_HOST_NAME is left out", "kinit")),
        ("h:1/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:azure,TOKEN_RESOURCE:api%3A%2F%2Fx",
         "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT%3Aazure%2CTOKEN_RESOURCE%3Aapi%3A%2F%2Fx"
         "&authSource=%24external", False, ("100.11.0",)),
        ("AKIA:secret@h:1/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:secret",
         "authMechanism=MONGODB-AWS&authSource=%24external", True, ("AWS_SESSION_TOKEN",)),
        ("h:1/?authMechanism=MONGODB-AWS", "authMechanism=MONGODB-AWS&authSource=%24external", False, ("AWS_",)),
        ("u:secret@h:1/?authMechanism=DEFAULT", "authSource=admin", True, ()),
        ("u:secret@h:1/app?authMechanism=SCRAM-SHA-1", "authMechanism=SCRAM-SHA-1&authSource=app", True, ()),
    ],
)  # fmt: skip
def test_kinds_of_login(given: str, query: str, asks: bool, said: tuple[str, ...]) -> None:
    made = tool_uri(f"mongodb://{given}", "s")
    assert made.text.partition("?")[2] == f"{query}&replicaSet=s"
    assert made.asks is asks
    words = " ".join(made.warnings)
    assert all(word in words for word in said)
    assert "secret" not in made.text + words


def test_files_of_tls_are_carried_over_by_their_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, key = tmp_path / "ca file.pem", tmp_path / "key.pem"
    authority.write_text("x")
    key.write_text("x")
    made = tool_uri(f"mongodb://h:1/?tls=true&tlsCAFile={authority}&tlsCertificateKeyFile={key}", "s")
    options = parse_uri(made.text)["options"]
    assert options["tlsCAFile"] == str(authority)
    assert options["tlsCertificateKeyFile"] == str(key)
    monkeypatch.chdir(tmp_path)
    made = tool_uri("mongodb://h:1/?tls=true&tlsCAFile=key.pem", "s")
    assert parse_uri(made.text)["options"]["tlsCAFile"] == str(key), "the commands run in the plan's folder"


@pytest.mark.parametrize("head", ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED"])
def test_an_encrypted_key_is_refused_wherever_its_passphrase_is(tmp_path: Path, head: str) -> None:
    key = tmp_path / "key.pem"
    key.write_text(f"{head}\nx\n")
    for more in ("", "&tlsCertificateKeyFilePassword=secret"):
        with pytest.raises(InputError, match="is encrypted") as caught:
            tool_uri(f"mongodb://h:1/?tls=true&tlsCertificateKeyFile={key}{more}", "s")
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://h/?tlsInsecure=true", "mongodb://h/?tls=true&tlsAllowInvalidCertificates=true",
        "mongodb://h/?tls=true&tlsAllowInvalidHostnames=true", "mongodb://h/?loadBalanced=true", "http://h/", "",
        "mongodb://h/?tls=true&tlsCAFile=/no/such/file", "mongodb://u:secret/word@h/",
        "mongodb://h/?authMechanism=MONGODB-OIDC", "mongodb://h/?tls=ture", "mongodb://h/&tls=true",
    ],
)  # fmt: skip
def test_a_uri_without_an_equivalent_is_refused(uri: str) -> None:
    with pytest.raises(InputError) as caught:
        tool_uri(uri, "s")
    assert "secret" not in str(caught.value)
    assert "word" not in str(caught.value)
