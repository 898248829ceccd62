"""Find when ObjectIds were created, and the first id of a moment. Needs no server and no driver.

python -m examples.read_object_ids
"""

from __future__ import annotations

from datetime import UTC, datetime

from tallyglass.objectid import decode, find_all, first_of

LOG = 'insert failed: E11000 dup key: {_id: ObjectId("656b5e7d0f3c2a1b9d8e7f60")}'


def main() -> list[datetime]:
    """Find the ids in a log line and return their times."""
    found = [decode(digits) for digits in find_all(LOG)]
    for parts in found:
        print(f"{parts.hex} was created at {parts.time:%Y-%m-%d %H:%M:%S} UTC with counter {parts.counter:,}.")
    print(f"The first id of 2026 is {first_of(datetime(2026, 1, 1, tzinfo=UTC))}.")
    return [parts.time for parts in found]


if __name__ == "__main__":
    main()
