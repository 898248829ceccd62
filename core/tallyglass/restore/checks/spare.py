"""Checks of the spare and of the URIs that the commands use."""

from __future__ import annotations

from tallyglass.deployment.cluster import Kind
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES
from tallyglass.restore.model.check import Checks, block, ok, warn
from tallyglass.restore.proof.findings import Findings
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.spare.spare import Spare
from tallyglass.restore.tools.toolset import version_pair
from tallyglass.text import first_names


def spare_server(found: Findings) -> Checks:
    """Can the commands reach their servers, and is the spare fit to be restored onto?"""
    inputs = found.inputs
    if inputs.uri_trouble:
        yield block("uri", inputs.uri_trouble)
    for uri in (inputs.source_uri, inputs.spare_uri):
        for word in uri.warnings if uri else ():
            yield warn("uri-option", word)
    fcv = found.located.fcv if found.located else None
    if inputs.own_spare:
        yield from _own_spare(inputs, fcv)
    spare = inputs.spare
    if spare is None:
        return
    if spare.trouble:
        yield block("spare-unreachable", f"The spare {spare.address} does not answer: {spare.trouble}")
        return
    yield from _identity(inputs, spare, fcv)
    yield from _state(inputs, spare)


def _own_spare(inputs: Inputs, fcv: str | None) -> Checks:
    version = inputs.deployment.version
    yield warn(
        "spare-not-given",
        f"No spare was named: the commands start an empty mongod on 127.0.0.1:{inputs.own_spare}.",
        f"mongod {version} must be installed where they run; the script checks its version. "
        "It uses a random key that only you can read, and the phase clean stops it.",
    )
    if not fcv:
        yield warn("fcv-unknown", "Feature compatibility could not be compared.")
    elif version_pair(fcv) != version_pair(version):
        yield block(
            "fcv-differs",
            f"Feature compatibility is {fcv} on the source; a new mongod starts with its own version's.",
            "Start a spare, set the same on it (setFeatureCompatibilityVersion), and name it with --spare.",
        )


def _identity(inputs: Inputs, spare: Spare, fcv: str | None) -> Checks:
    source = inputs.deployment
    ours = {member.address for member in source.members} | {source.me, source.primary} - {""}
    ours |= set(inputs.source_uri.hosts if inputs.source_uri else ())
    if (spare.set_name and spare.set_name == source.set_name) or ours & {spare.address, *spare.members}:
        yield block("spare-is-source", "The spare is the source itself.", "Start an empty mongod of its own.")
    if spare.sharded or spare.kind is Kind.MONGOS:
        yield block("spare-sharded", "The spare is part of a sharded cluster.", "Use a standalone mongod.")
    elif spare.kind is Kind.REPLICA_SET:
        yield warn("spare-in-set", "The spare is a replica set: the replay is about five times slower there.")
    if version_pair(spare.version) != version_pair(source.version):
        yield block(
            "spare-version",
            f"The spare runs MongoDB {spare.version}, the source {source.version}.",
            "Both must be of the same major version.",
        )
    if spare.fcv is None or fcv is None:
        yield warn("fcv-unknown", "Feature compatibility could not be compared.")
    elif spare.fcv != fcv:
        yield block("fcv-differs", f"Feature compatibility is {spare.fcv} on the spare, {fcv} on the source.")


def _state(inputs: Inputs, spare: Spare) -> Checks:
    if spare.databases and inputs.contents.backup.form != DATA_FILES:
        shown = first_names(spare.databases)
        yield block("spare-not-empty", f"The spare is not empty: it holds {shown}.", "Empty it, or start another.")
    if spare.ttl_monitor:
        yield block(
            "spare-ttl",
            "The spare's TTL monitor is on: it would delete restored documents.",
            "Start it with --setParameter ttlMonitorEnabled=false.",
        )
    elif spare.ttl_monitor is None:
        yield warn("spare-ttl", "Whether the spare's TTL monitor is off could not be read.")
    if spare.free_to_apply is False:
        yield block(
            "spare-privileges",
            "The user on the spare may not apply every operation.",
            "Give it a role with anyAction on anyResource, or run the spare without access control on loopback.",
        )
    elif spare.free_to_apply is None:
        yield warn("spare-privileges", "Whether the user on the spare may apply everything could not be read.")
    if spare.free_to_apply and inputs.spare_uri is not None and not inputs.spare_uri.user:
        yield warn(
            "spare-open",
            "The spare has no access control: whoever reaches it can read and change what is restored.",
            "Run it on a host where nobody else logs in, or name none: the commands then start one with a key.",
        )
    if not spare.databases:
        yield ok("spare", f"The spare {spare.address} is empty, MongoDB {spare.version}.")


def encrypted_collections(found: Findings) -> Checks:
    """Can the spare hold the collections of Queryable Encryption?"""
    if found.covered is None or not found.covered.replay.needs_set:
        return
    spare = found.inputs.spare
    if spare is not None and spare.kind is Kind.STANDALONE:
        yield block(
            "encrypted-collections",
            "There are collections with Queryable Encryption, which a standalone server does not create.",
            "Start a spare as a replica set of one member (--replSet, rs.initiate()), and name it with --spare.",
        )
    else:
        yield warn(
            "encrypted-collections",
            "There are collections with Queryable Encryption: their values come back encrypted, as they were.",
            "Reading them needs the same keys in the key vault.",
        )


def archived_users(found: Findings) -> Checks:
    """Would unpacking an archive replace the users of the spare?"""
    inputs = found.inputs
    if inputs.contents.backup.form != ARCHIVE or not (inputs.contents.users and inputs.contents.backup.has_oplog):
        return  # else admin is left out of what is unpacked
    if inputs.spare_uri is not None and inputs.spare_uri.user and not inputs.own_spare:
        yield block(
            "archive-users",
            "The archive holds users: unpacking it would replace those of the spare, your own login too.",
            "Run the spare without access control on loopback.",
        )
    else:
        yield warn("archive-users", "The archive holds users: they come onto the spare with it.", "Keep it private.")
