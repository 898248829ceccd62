"""Which servers a connection string names, and how another server of the same cluster is reached with it."""

from __future__ import annotations

import pytest

from tallyglass.connection.secret import Secret
from tallyglass.connection.target import Target, is_address

CANARY = "kAnArY8secret"


@pytest.mark.parametrize(
    ("uri", "seeds", "label"),
    [
        ("mongodb://h", ("h:27017",), "h"),
        ("mongodb://u%40corp@A:1,b,[::1]:7/db?replicaSet=rs0", ("a:1", "b:27017", "[::1]:7"), "rs0"),
        ("mongodb://[::1]/?appName=x", ("[::1]:27017",), "[::1]"),
        ("mongodb://%2Ftmp%2Fmongodb-1.sock,h:2/", ("h:2",), "%2Ftmp%2Fmongodb-1.sock,h:2"),
        ("mongodb://h:1/?directConnection=true", (), "h:1"),
        ("mongodb://h:1/?directConnection=false&loadBalanced=false", ("h:1",), "h:1"),
        ("mongodb://h:1/?loadBalanced=true", (), "h:1"),
        ("mongodb+srv://name.example.com/", (), "name.example.com"),
        ("MONGODB+SRV://name.example.com/?tls=false", (), "name.example.com"),
    ],
)
def test_the_servers_through_which_others_are_found(uri: str, seeds: tuple[str, ...], label: str) -> None:
    target = Target.parse(uri)
    assert (target.seeds, target.label) == (seeds, label)


@pytest.mark.parametrize(
    ("uri", "other"),
    [
        ("mongodb://h", "mongodb://x:1,y:2/?"),
        ("mongodb://u%40corp@h:1/shop?replicaSet=rs0&tls=true", "mongodb://u%40corp@x:1,y:2/shop?tls=true&"),
        ("mongodb://u@h/?directConnection=true&appName=a", "mongodb://u@x:1,y:2/?appName=a&"),
        ("mongodb+srv://u@n.example.com/?srvMaxHosts=1", "mongodb://u@x:1,y:2/?tls=true&"),
        ("mongodb+srv://u@n.example.com/db?ssl=false", "mongodb://u@x:1,y:2/db?ssl=false&"),
    ],
)
def test_another_set_and_one_server_have_the_same_user_and_options(uri: str, other: str) -> None:
    target = Target.parse(uri)
    assert target.at("x:1,y:2", "s 0/é").uri == f"{other}replicaSet=s%200%2F%C3%A9"
    assert target.alone("x:1,y:2").uri == f"{other}directConnection=true"
    assert target.at("x:1,y:2", "s0").secrets == target.secrets


def test_several_shards_are_one_target_and_a_single_one_itself() -> None:
    first, second = Target.parse(f"mongodb://u:{CANARY}@a/?replicaSet=s0"), Target.parse("mongodb://b/?replicaSet=s1")
    both = Target.of_shards([first, second])
    assert (both.uri, both.secrets, both.shards) == (first.uri, first.secrets, (first, second))
    assert str(both) == "mongodb://u@a/?replicaSet=s0 mongodb://b/?replicaSet=s1"
    assert Target.of_shards([first]) is first
    assert both.at("x:1", "s2").shards == ()


@pytest.mark.parametrize("text", ["h:1", "a.b-c:27017", "[::1]:65535"])
def test_a_host_with_a_port_is_an_address(text: str) -> None:
    assert is_address(text)
    for other in (text.rpartition(":")[0], f"{text}/", f"{text},b:1", f"u@{text}", f"{text}x"):
        assert not is_address(other)


def test_a_password_that_is_given_later_replaces_that_of_the_target() -> None:
    target = Target.parse(f"mongodb://u:{CANARY}1@h/?tlsCertificateKeyFilePassword={CANARY}2")
    other = target.with_password(Secret(f"{CANARY}3"))
    assert {name: secret.reveal() for name, secret in other.secrets} == {
        "tlsCertificateKeyFilePassword": f"{CANARY}2", "password": f"{CANARY}3",
    }  # fmt: skip
    assert len(other.secrets) == 2
    assert (other.uri, target.needs_password, Target.parse("mongodb://u@h/").needs_password) == (
        "mongodb://u@h/?", False, True,
    )  # fmt: skip
