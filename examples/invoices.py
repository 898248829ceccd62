"""Invoices: gapless numbers for each tenant and year, with their printed form.

python -m examples.invoices mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import sys
from datetime import date
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import GaplessInsert
from tallyglass.allocate.format import Digits, Luhn, NumberFormat


def main(uri: str, invoices: int = 20) -> list[str]:
    """Write invoices for two tenants, and return their printed numbers."""
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    db = client.examples
    numbers = GaplessInsert(db.counters, db.invoices, "number", within=("tenant", "year"))
    numbers.create()
    paper = NumberFormat("INV", "%Y", Digits(6), Luhn())
    printed = []
    for n in range(invoices):
        number = numbers.insert({"tenant": f"tenant {n % 2}", "year": 2026, "cents": 100 * n})
        printed.append(paper.format(number, date(2026, 11, 22)))
    print(f"{len(printed)} invoices, the last one {printed[-1]}: number {paper.parse(printed[-1]).number}.")
    client.close()
    return printed


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
