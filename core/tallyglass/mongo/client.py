"""From a target to a gateway. The password is never shown, logged or put into an error.

Time limits, measured on a replica set (docs/security.md): a frozen member is noticed after connect timeout plus
heartbeat interval, so both are short. The socket timeout is longer than any ``maxTimeMS``: it catches a server that
answers only heartbeats.
A setting in the connection string overrides every default here.
"""

from __future__ import annotations

from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import ConfigurationError, PyMongoError

from tallyglass.connection.secret import scrub
from tallyglass.connection.target import Driver, Target
from tallyglass.errors import ConnectError
from tallyglass.mongo.client_certificate import ClientCertificate
from tallyglass.mongo.cluster_gateway import ClusterGateway
from tallyglass.mongo.gateway import Gateway
from tallyglass.mongo.link import Link, OpenClient
from tallyglass.mongo.mongo_gateway import MongoGateway, only_asked_member
from tallyglass.mongo.unreachable import not_resolved
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
    "retryReads": True,
}
"""Client options that apply unless the connection string or the caller sets them."""


def open_gateway(uri: str | Target, *, driver: Driver | None = None, **options: Any) -> MongoGateway:
    """A gateway on the deployment that ``uri`` names; nothing is sent yet.

    ``driver`` is that of the target unless given. ``options`` go to the client as they are.
    Raises InputError for an invalid connection string, ConnectError for one that cannot be used.
    """
    target = uri if isinstance(uri, Target) else Target.parse(uri)
    given = target.options
    settings = {name: value for name, value in DEFAULTS.items() if name.lower() not in given}
    settings |= {"server_selector": only_asked_member}
    settings |= {name: secret.reveal() for name, secret in target.secrets} | options
    chosen = driver or target.driver

    def open_client() -> OpenClient:
        try:
            client = _client(chosen, target.uri, settings)
            return OpenClient(client, _certificate(client, target, chosen))
        except (PyMongoError, ValueError, OSError) as error:
            raise _refused(error, target) from None

    return MongoGateway(
        Link(open_client),
        open_sibling=lambda hosts, name: open_gateway(target.at(hosts, name), driver=driver, **options),
        own_preference="readpreference" in given,
    )


def open_deployment(target: Target, **options: Any) -> Gateway:
    """As :func:`open_gateway`, also for a target that names the shards of a cluster: those are read as one."""
    if not target.shards:
        return open_gateway(target, **options)
    shards: dict[str, Gateway] = {}
    for shard in target.shards:
        label = shard.label if shard.label not in shards else f"{shard.label} ({len(shards) + 1})"
        shards[label] = open_gateway(shard, **options)
    return ClusterGateway(shards)


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


def _refused(error: Exception, target: Target) -> ConnectError:
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
        return ConnectError(f"A file in the connection string cannot be used: {message}.", "Check its path.")
    return ConnectError(
        f"The connection string cannot be used: {message.rstrip('.')}.", "Check host, port and options."
    )
