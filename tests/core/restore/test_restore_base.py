"""What the backup lacks, and what it need not have."""

from __future__ import annotations

from tallyglass.restore.base import read_base
from tallyglass.restore.catalog import Catalog, Collection


def test_an_update_of_a_user_is_no_lack_of_the_backup() -> None:
    catalog = Catalog({})
    for ns in ("admin.system.users", "shop.orders"):
        catalog.collections[ns] = Collection("collection", b"", {}, {}, touched={b"id": True}, unborn={b"id": [1]})
    assert read_base({}, catalog).missing == {"shop.orders": 1}
