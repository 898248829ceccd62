"""Bank accounts: random 12-digit numbers that reveal neither how many accounts exist nor their order.

python -m examples.bank_accounts mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import sys
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import NumberSpace, RandomIds, ensure_unique


def main(uri: str, accounts: int = 200) -> list[int]:
    """Open some accounts and return their numbers."""
    client: MongoClient[Any] = MongoClient(uri)
    collection = client.examples.accounts
    ensure_unique(collection, "number")
    numbers = RandomIds(collection, "number", NumberSpace.digits(12))
    opened = [numbers.insert({"holder": f"holder {n}", "cents": 0}) for n in range(accounts)]
    fill = numbers.fill()
    print(f"{accounts} accounts, such as {opened[0]}; {numbers.stats().collisions} collisions.")
    print(f"{fill.used:,} of {fill.size:,} numbers are used: {fill.expected_tries:.12f} inserts per account.")
    client.close()
    return opened


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
