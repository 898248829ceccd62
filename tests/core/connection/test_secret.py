"""No form of a URI, an error or a target shows its password."""

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
def test_a_password_goes_to_the_driver_whole_and_nowhere_else(extra: str, user: str) -> None:
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
def test_a_password_that_is_not_encoded_leaks_no_part_of_itself(uri: str) -> None:
    with pytest.raises(InputError) as told:
        open_gateway(uri)
    assert CANARY not in str(told.value)
    assert CANARY not in redact(uri)
    assert CANARY not in scrub(f"failed: {uri}")


def test_a_uri_without_a_password_is_left_as_it_is() -> None:
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
    ("uri", "said"),
    [
        ("mongodb://u:p@h/?authMechanism=scram-sha-1", "is not a kind of login"),
        (f"mongodb://u:p@h/?authMechanism={CANARY}%1B[2J", "is not a kind of login"),
        ("mongodb://h/?authMechanism=MONGODB-X509&tls=true", "client certificate, and none is named"),
    ],
)
def test_a_login_that_cannot_work_is_told_before_it_is_tried(uri: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as told:
        Target.parse(uri)
    assert str(told.value).isprintable()


def test_who_is_asked_for_a_password() -> None:
    asked = {"": True, "SCRAM-SHA-1": True, "PLAIN": True, "MONGODB-AWS": True, "GSSAPI": False, "MONGODB-OIDC": False}
    for mechanism, wanted in asked.items():
        assert Target.parse(f"mongodb://u@h/?authMechanism={mechanism}").needs_password is wanted
        assert not Target.parse(f"mongodb://h/?authMechanism={mechanism}").needs_password


def test_secret_options_leave_the_uri_too() -> None:
    uri = (
        f"mongodb://h/?tls=true&tlsCertificateKeyFilePassword={CANARY}a"
        f"&authMechanismProperties=AWS_SESSION_TOKEN:{CANARY}b"
    )
    target = Target.parse(uri)
    assert CANARY not in str(target) + repr(target) + redact(uri)
    assert {name for name, _ in target.secrets} == {"tlsCertificateKeyFilePassword", "authMechanismProperties"}


def test_a_secret_is_masked_and_scrubbed_from_any_later_text() -> None:
    secret = Secret(CANARY + "/@ü")
    assert CANARY not in repr(secret) + str(secret) + f"{secret}" + repr({"p": secret})
    for form in (secret.reveal(), quote_plus(secret.reveal()), repr(secret.reveal())):
        assert CANARY not in scrub(f"before {form} after")
    longer = Secret(f"{CANARY}/@ü and more")
    assert "more" not in scrub(f"before {longer.reveal()} after"), "one that begins with another is masked whole"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


async def test_what_the_uri_says_wins_over_the_defaults() -> None:
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
async def test_a_uri_that_cannot_be_used_is_told_in_one_line(uri: str) -> None:
    with pytest.raises(TallyglassError) as told:
        await open_gateway(uri).command("hello")
    assert str(told.value).isprintable()


PROFILES = """
[prod]
uri = "mongodb://monitor:${PW}@${HOST}/?replicaSet=rs"
driver = "motor"
[careless]
uri = "mongodb://monitor:written-out@h/"
[odd]
uri = "mongodb://h/"
colour = "red"
"""


def test_profiles_take_passwords_from_the_environment_alone(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(PROFILES)
    profile = load_profile("prod", path, {"PW": f"{CANARY}@/:%", "HOST": "db1:27017,db2"})
    assert Target.parse(profile.uri).uri == "mongodb://monitor@db1:27017,db2/?replicaSet=rs"
    assert dict(Target.parse(profile.uri).secrets)["password"].reveal() == f"{CANARY}@/:%"
    assert CANARY not in repr(profile)
    for name, word in [("careless", "holds a password"), ("odd", "colour"), ("none", "no profile"), ("prod", "HOST")]:
        with pytest.raises(InputError, match=word) as told:
            load_profile(name, path, {"PW": "x"})
        assert "written-out" not in str(told.value)
    path.write_text("[[[")
    with pytest.raises(InputError, match="not TOML"):
        load_profile("prod", path)
    with pytest.raises(InputError, match="does not exist"):
        load_profile("prod", tmp_path / "none.toml")
