"""How fast the tools work, for estimates. Measured with two CPUs; a busy host is slower."""

from __future__ import annotations

from tallyglass.restore.proof.findings import Covered

_OPS_A_SECOND, _OPS_A_SECOND_IN_SET = 5_000, 1_100
"""Replay on a standalone and on a replica set of one: one command per operation."""

BYTES_A_SECOND = 30e6
"""What mongodump and mongorestore read or write on one host."""

DOCUMENTS_A_SECOND = 6_000
"""Damaged documents in one pass of a return: with 100,000 deleted, from 6,000 to 12,000 a second (`bench returns`)."""


def replay_seconds(covered: Covered) -> float:
    """How long the replay takes, about."""
    spare, replay = covered.inputs.spare, covered.replay
    in_set = replay.needs_set if covered.inputs.own_spare else spare is not None and bool(spare.set_name)
    return replay.applied / (_OPS_A_SECOND_IN_SET if in_set else _OPS_A_SECOND)
