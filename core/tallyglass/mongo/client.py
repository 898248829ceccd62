"""From a target to a gateway. The password is never shown, logged or put into an error.

Time limits, measured on a replica set (docs/security.md): a frozen member is noticed after connect timeout plus
heartbeat interval, so both are short. The socket timeout is longer than any ``maxTimeMS``: it catches a server that
answers only heartbeats.
A setting in the connection string overrides every default here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import ConfigurationError, PyMongoError
from pymongo.uri_parser import split_options

from tallyglass.connection.secret import scrub
from tallyglass.connection.target import Driver, Target
from tallyglass.errors import ConnectError, InputError
from tallyglass.mongo.client_certificate import ClientCertificate
from tallyglass.mongo.cluster_gateway import ClusterGateway
from tallyglass.mongo.driver_texts import not_resolved, unusable
from tallyglass.mongo.gateway import Gateway
from tallyglass.mongo.link import Link, OpenClient
from tallyglass.mongo.mongo_gateway import MongoGateway, only_asked_member
from tallyglass.text import clean, clean_name

__all__ = ["APP_NAME", "DEFAULTS", "Driver", "Target", "open_deployment", "open_gateway"]

APP_NAME = "tallyglass"

DEFAULTS: dict[str, Any] = {
    "appName": APP_NAME,
    "connectTimeoutMS": 2_000,
    "heartbeatFrequencyMS": 2_000,
    "serverSelectionTimeoutMS": 5_000,
    "socketTimeoutMS": 75_000,
    "readPreference": "primaryPreferred",
}
"""Client options that apply unless the connection string or the caller sets them."""

_SELDOM: dict[str, Any] = {"heartbeatFrequencyMS": 10_000, "serverMonitoringMode": "poll"}


def seldom_monitored(target: Target) -> dict[str, Any]:
    """Client options with which the driver asks each member for its state every 10 s, unless the target sets them: for
    a program that runs all the time, where nobody waits. A frozen member is noticed after 12 s, a dead one at once."""
    return {name: value for name, value in _SELDOM.items() if name.lower() not in target.options}


def open_gateway(
    uri: str | Target, *, driver: Driver | None = None, tell: Callable[[str], None] | None = None, **options: Any
) -> MongoGateway:
    """A gateway on the deployment that ``uri`` names; nothing is sent yet.

    ``driver`` is that of the target unless given. ``tell`` gets one sentence if a member is read alone because the
    names of the others cannot be reached. ``options`` go to the client as they are.
    Raises InputError for a connection string that is invalid or that the driver would only use in part, ConnectError
    if the name of a DNS seed list returns no servers, or a password is missing.
    """
    target = uri if isinstance(uri, Target) else Target.parse(uri)
    _refuse_warnings(target)
    given = target.options
    settings = {name: value for name, value in DEFAULTS.items() if name.lower() not in given}
    settings |= {"server_selector": only_asked_member}
    settings |= {name: secret.reveal() for name, secret in target.secrets} | options
    chosen = driver or target.driver

    def open_client(at: Target = target) -> OpenClient:
        try:
            client = _client(chosen, at.uri, settings)
            return OpenClient(client, _certificate(client, at, chosen))
        except (PyMongoError, ValueError, OSError) as error:
            raise _refused(error, at) from None

    seeds = {seed: partial(open_client, target.alone(seed)) for seed in target.seeds}
    return MongoGateway(
        Link(open_client, seeds, given.get("replicaset", ""), tell),
        open_sibling=lambda hosts, name: open_gateway(target.at(hosts, name), driver=driver, **options),
        own_preference="readpreference" in given,
    )


def open_deployment(target: Target, *, tell: Callable[[str], None] | None = None, **options: Any) -> Gateway:
    """Open a gateway, also for a target that names the shards of a cluster: those are read as one."""
    if not target.shards:
        return open_gateway(target, tell=tell, **options)
    shards: dict[str, Gateway] = {}
    for shard in target.shards:
        label = shard.label if shard.label not in shards else f"{shard.label} ({len(shards) + 1})"
        shards[label] = open_gateway(shard, tell=tell, **options)
    return ClusterGateway(shards)


def _refuse_warnings(target: Target) -> None:
    """Raise InputError for what this version of the driver would only warn of, such as a missing compressor."""
    query = target.uri.partition("?")[2]
    if not query:
        return
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            split_options(query, validate=True, warn=False)
        except (PyMongoError, ValueError, TypeError, LookupError, OSError) as error:
            raise _refused(error, target) from None
    if warned:
        raise _refused(ValueError(str(warned[0].message)), target)


def _client(driver: Driver, uri: str, settings: dict[str, Any]) -> Any:
    if driver is Driver.MOTOR:
        try:
            from motor.motor_asyncio import AsyncIOMotorClient
        except ImportError:
            raise ConnectError("Motor is not installed.", "Install it: pip install 'tallyglass[tui]'.") from None
        return AsyncIOMotorClient(uri, **settings)
    return AsyncMongoClient(uri, **settings)


def _certificate(client: Any, target: Target, driver: Driver) -> ClientCertificate:
    secrets = {name.lower(): secret for name, secret in target.secrets}
    return ClientCertificate(
        target.options.get("tlscertificatekeyfile", ""),
        lambda: tls_context(client),
        passphrase=secrets.get("tlscertificatekeyfilepassword"),
        renewable=driver is Driver.PYMONGO,
    )


def tls_context(client: Any) -> Any:
    """The ``ssl.SSLContext`` of a client; None without TLS, or if this PyMongo keeps it under another name.

    PyMongo has no public access to it, and creates another one after it resolves a DNS seed list: do not cache it.
    """
    return getattr(client.options.pool_options, "_ssl_context", None)


def _refused(error: Exception, target: Target) -> InputError | ConnectError:
    message = clean(scrub(str(error)), 200)
    if isinstance(error, ConfigurationError):
        unresolved = not_resolved(message)
        if unresolved:
            return unresolved
        if "password is required" in message.lower():
            return ConnectError(
                f"A password is needed for {clean_name(target.user)}.", "Give it at the prompt or with --password-file."
            )
    if isinstance(error, OSError):
        return InputError(f"A file in the connection string cannot be used: {message}.", "Check its path.")
    return unusable(message)
