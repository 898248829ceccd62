"""URIs, errors and targets never show their password."""

from __future__ import annotations

import pickle
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.uri_parser import parse_uri

from tallyglass.connection.profiles import load_profile
from tallyglass.connection.secret import Secret, redact, scrub
from tallyglass.connection.target import Target
from tallyglass.errors import InputError, TallyglassError
from tallyglass.mongo.client import DEFAULTS, open_gateway

CANARY = "kAnArY7secret"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.text("abcdefgh", min_size=4, max_size=12))
def test_password_reaches_only_the_driver(extra: str, user: str) -> None:
    password = CANARY + extra
    uri = f"mongodb://{user}:{quote_plus(password)}@h1:27017,h2/db?replicaSet=rs&authSource=admin"
    target = Target.parse(uri)
    assert target.user == user
    assert dict(target.secrets)["password"].reveal() == password == parse_uri(uri)["password"]
    assert parse_uri(target.uri)["nodelist"] == [("h1", 27017), ("h2", 27017)]
    for shown in (repr(target), str(target), f"{target}", redact(uri), scrub(f"no server at {uri} now"), target.uri):
        assert CANARY not in shown


UNENCODED = [
    f"mongodb://u:{CANARY}/rest@h",
    f"mongodb://u:x/{CANARY}@h/db",
    f"mongodb://u:{CANARY}?rest@h",
    f"mongodb://u:a?b={CANARY}@h",
    f"mongodb://u:a@{CANARY}@h",
    f"mongodb://u:a:{CANARY}@h",
    f"mongodb://u:{CANARY}%zz@h",
    f"mongodb://u@x:{CANARY}/@h",
    f"mongodb+srv://u:{CANARY}#x/@h.example.com",
    f"mongodb://u:{CANARY}/a?b=c&d@h/?replicaSet=x",
    f"mongo://u:{CANARY}@h",
    f"mongodb://u:{CANARY} x@h",
    f"mongodb://u:{CANARY}\x1b[2J@h",
]


@pytest.mark.parametrize("uri", UNENCODED)
def test_unencoded_password_does_not_leak(uri: str) -> None:
    with pytest.raises(InputError) as caught:
        open_gateway(uri)
    assert CANARY not in str(caught.value)
    assert CANARY not in redact(uri)
    assert CANARY not in scrub(f"failed: {uri}")


def test_uri_without_password_is_unchanged() -> None:
    for uri in (
        "mongodb://h:27017/?appName=me@x&replicaSet=rs",
        "mongodb://[::1]:27017,b:1/db",
        "mongodb://u@h/",
        "mongodb+srv://name.example.com/?tls=true",
        "mongodb://u%40corp@h/?authMechanism=GSSAPI",
    ):
        assert redact(uri) == str(Target.parse(uri)) == uri
        assert not Target.parse(uri).secrets


@pytest.mark.parametrize(
    "text", ["localhost", "localhost:27017", "db1.example.com:27017/shop", "[::1]:27017", "db1,db2/?replicaSet=rs0"]
)
def test_hosts_without_a_scheme_are_a_connection_string(text: str) -> None:
    assert Target.parse(f" {text} ").uri == f"mongodb://{text}"


@pytest.mark.parametrize("text", ["counters", "db1", "db1/shop", "u:p@h:1", "../x", "x:port", "a b:1"])
def test_other_words_are_not(text: str) -> None:
    with pytest.raises(InputError, match="not a connection string"):
        Target.parse(text)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://h/?authMechanism=MONGODB-X509&tls=true", "client certificate, and none is specified"),
    ],
)
def test_invalid_login_is_refused_before_connecting(uri: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected) as caught:
        Target.parse(uri)
    assert str(caught.value).isprintable()


def test_mechanisms_that_need_a_password() -> None:
    asked = {
        "DEFAULT": True,
        "SCRAM-SHA-1": True,
        "PLAIN": True,
        "MONGODB-AWS": True,
        "GSSAPI": False,
        "MONGODB-OIDC": False,
    }
    for mechanism, wanted in asked.items():
        assert Target.parse(f"mongodb://u@h/?authMechanism={mechanism}").needs_password is wanted
        assert not Target.parse(f"mongodb://h/?authMechanism={mechanism}").needs_password


def test_secret_options_are_removed_from_the_uri() -> None:
    uri = (
        f"mongodb://h/?tls=true&tlsCertificateKeyFilePassword={CANARY}a"
        f"&authMechanismProperties=AWS_SESSION_TOKEN:{CANARY}b"
    )
    target = Target.parse(uri)
    assert CANARY not in str(target) + repr(target) + redact(uri)
    assert {name for name, _ in target.secrets} == {"tlsCertificateKeyFilePassword", "authMechanismProperties"}


def test_secret_is_masked_and_scrubbed_from_later_text() -> None:
    secret = Secret(CANARY + "/@ü")
    assert CANARY not in repr(secret) + str(secret) + f"{secret}" + repr({"p": secret})
    for form in (secret.reveal(), quote_plus(secret.reveal()), repr(secret.reveal())):
        assert CANARY not in scrub(f"before {form} after")
    longer = Secret(f"{CANARY}/@ü and more")
    assert "more" not in scrub(f"before {longer.reveal()} after"), "one that begins with another is masked whole"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


async def test_uri_options_override_the_defaults() -> None:
    gateway = open_gateway("mongodb://h/?socketTimeoutMS=1234&readpreference=secondary")
    options = gateway.link.session.client.options
    assert options.pool_options.socket_timeout == 1.234
    assert options.read_preference.mode == 2
    assert options.pool_options.connect_timeout == DEFAULTS["connectTimeoutMS"] / 1000
    await gateway.close()


@pytest.mark.parametrize(
    "uri",
    ["mongodb://h:x/", "mongodb://h/?tlsCAFile=/nowhere/ca.pem", "mongodb://u@h/", "mongodb://", "mongodb+srv://h"],
)
async def test_unusable_uri_is_reported_in_one_line(uri: str) -> None:
    with pytest.raises(TallyglassError) as caught:
        await open_gateway(uri).command("hello")
    assert str(caught.value).isprintable()


PROFILES = """
alone = "mongodb://h/"
[prod]
uri = "mongodb://monitor:${PW}@${HOST}/?replicaSet=rs&appName=ops@corp"
driver = "motor"
[careless]
uri = "mongodb://monitor:written-out@h/"
[odd]
uri = "mongodb://h/"
colour = "red"
"""


def test_profiles_take_passwords_only_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(PROFILES)
    profile = load_profile("prod", path, {"PW": f"{CANARY}@/:%", "HOST": "db1:27017,db2"})
    assert Target.parse(profile.uri).uri == "mongodb://monitor@db1:27017,db2/?replicaSet=rs&appName=ops@corp"
    assert dict(Target.parse(profile.uri).secrets)["password"].reveal() == f"{CANARY}@/:%"
    assert CANARY not in repr(profile)
    wrong = {"careless": "a password", "odd": "colour", "none": "no profile", "prod": "HOST", "alone": "outside"}
    for name, word in wrong.items():
        with pytest.raises(InputError, match=word) as caught:
            load_profile(name, path, {"PW": "x"})
        assert "written-out" not in str(caught.value)
    path.write_text("[[[")
    with pytest.raises(InputError, match="not TOML"):
        load_profile("prod", path)
    with pytest.raises(InputError, match="does not exist"):
        load_profile("prod", tmp_path / "none.toml")


def test_secret_options_of_a_profile_come_only_from_the_environment(tmp_path: Path) -> None:
    path, secrets = tmp_path / "profiles.toml", {"KEY": f"{CANARY}&tls=false%+/=:", "TOKEN": f"{CANARY}+/b=="}
    path.write_text(
        f"""
[key]
uri = "mongodb://h/?tls=true&tlsCertificateKeyFilePassword=${{KEY}}&authMechanismProperties=AWS_SESSION_TOKEN:${{TOKEN}}"
[tlsCertificateKeyFilePassword]
uri = "mongodb://h/?tls=true&tlscertificatekeyfilepassword={CANARY}"
[AWS_SESSION_TOKEN]
shards = ["mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:{CANARY}"]
"""
    )
    target = Target.parse(load_profile("key", path, secrets).uri)
    assert (target.uri, {name: secret.reveal() for name, secret in target.secrets}) == (
        "mongodb://h/?tls=true",
        {
            "tlsCertificateKeyFilePassword": secrets["KEY"],
            "authMechanismProperties": f"AWS_SESSION_TOKEN:{secrets['TOKEN']}",
        },
    )
    for name in ("tlsCertificateKeyFilePassword", "AWS_SESSION_TOKEN"):
        with pytest.raises(InputError, match=f"(?i)contains the secret {name}") as caught:
            load_profile(name, path, {})
        assert CANARY not in str(caught.value)


def test_profile_lists_the_shards_of_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(
        """
[cluster]
shards = ["mongodb://me:${PW}@a/?replicaSet=s0", "mongodb://b/"]
[both]
uri = "mongodb://m/"
shards = ["mongodb://a/"]
[wrong]
shards = [1]
[open]
shards = ["mongodb://me:written-out@a/"]
"""
    )
    assert load_profile("cluster", path, {"PW": "x"}).shards == ("mongodb://me:x@a/?replicaSet=s0", "mongodb://b/")
    for name, word in [("both", "both uri and shards"), ("wrong", "shards that cannot"), ("open", "a password")]:
        with pytest.raises(InputError, match=word):
            load_profile(name, path, {})
