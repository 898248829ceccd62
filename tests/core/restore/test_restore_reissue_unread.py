"""A counter whose value at the point cannot be read is moved forward all the same: $max never lowers one."""

from __future__ import annotations

from tallyglass.restore.reissue import Seen, _row


def test_a_counter_in_an_archive_is_moved_forward_and_never_made() -> None:
    unknown: list[str] = []
    row = _row(Seen("s.counters", "orders", "seq", issued=7, live=True, unread=True), unknown)
    assert row is not None
    assert (row.restored, row.live) == (None, 7)
    assert '{"$max": {"seq": NumberInt(7)}}' in row.fix
    assert "upsert" not in row.fix
    assert _row(Seen("s.counters", "orders", "seq", issued=7, live=True), unknown) is None, "begun after the point"
    made = _row(Seen("s.counters", "orders", "seq", issued=7), unknown)
    assert made is not None
    assert "upsert" in made.fix
