"""Documents of the demo: a shop and other applications. Deterministic for a given random source."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from bson import Int64, ObjectId

Document = dict[str, Any]

_FIRST = ("Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "John", "Katherine", "Leslie", "Margaret")
_LAST = ("Allen", "Dijkstra", "Hamilton", "Hopper", "Johnson", "Knuth", "Lamport", "Liskov", "Lovelace", "Turing")
_GOODS = ("astrolabe", "barometer", "chronometer", "compass", "hourglass", "octant", "quadrant", "sextant", "spyglass")
_FINISHES = ("brass", "copper", "ebony", "nickel", "oak", "silver", "steel", "walnut")
_WORDS = ("again", "arrived", "broken", "cracked", "late", "lens", "lovely", "order", "perfect", "refund", "thanks")
STATUSES = ("pending", "paid", "shipped")


def object_id_at(rng: random.Random, seconds: float, process: bytes) -> ObjectId:
    """An ObjectId as a process with these five random bytes would have generated it at that second."""
    return ObjectId(int(seconds).to_bytes(4, "big") + process + rng.randbytes(3))


def _name(rng: random.Random) -> str:
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def _text(rng: random.Random) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(3, 8)))


def order(rng: random.Random, number: int, *, status: str = "pending") -> Document:
    """One order, with its number."""
    lines = [
        {"sku": f"{rng.choice(_FINISHES)}-{rng.choice(_GOODS)}", "qty": rng.randint(1, 4)}
        for _ in range(rng.randint(1, 3))
    ]
    return {
        "number": number,
        "customer": _name(rng),
        "lines": lines,
        "total": round(rng.uniform(9, 900), 2),
        "status": status,
        "placed": datetime.now(UTC),
    }


def customer(rng: random.Random, number: float) -> Document:
    """One customer; the number is a double, like its counter."""
    name = _name(rng)
    address = name.lower().replace(" ", ".")
    return {
        "number": number,
        "name": name,
        "email": f"{address}.{number:.0f}@example.com",
        "points": rng.randint(0, 400),
    }


def product(rng: random.Random, index: int) -> Document:
    """One product, keyed by its stock-keeping unit."""
    finish, good = _FINISHES[index % len(_FINISHES)], _GOODS[index // len(_FINISHES) % len(_GOODS)]
    return {"_id": f"{finish}-{good}", "price": round(rng.uniform(9, 300), 2), "stock": rng.randint(0, 500)}


PRODUCTS = len(_FINISHES) * len(_GOODS)


def cart(rng: random.Random, index: int) -> Document:
    """One cart: ``count`` and ``total`` look like counters but are not."""
    return {"_id": f"cart-{index:04d}", "count": rng.randint(1, 9), "total": round(rng.uniform(5, 500), 2)}


def payment(rng: random.Random, number: int) -> Document:
    """One payment, keyed by its number."""
    return {"_id": number, "method": rng.choice(("card", "transfer", "cash")), "amount": round(rng.uniform(9, 900), 2)}


def voucher(rng: random.Random, number: int) -> Document:
    """One voucher, with its number."""
    return {"number": number, "worth": rng.choice((10, 20, 50)), "spent": False}


def reading(rng: random.Random, number: int) -> Document:
    """One sensor reading, keyed by its number."""
    return {"_id": Int64(number), "sensor": f"s{rng.randint(1, 40):02d}", "value": round(rng.gauss(20, 4), 2)}


def message(rng: random.Random, number: int) -> Document:
    """One chat message, keyed by its number."""
    return {"_id": number, "from": _name(rng), "text": _text(rng)}


def comment(rng: random.Random, number: int) -> Document:
    """One comment, with its number."""
    return {"number": number, "author": _name(rng), "text": _text(rng)}


def ticket(rng: random.Random, number: int) -> Document:
    """One support ticket, with its number."""
    return {"ticket_no": number, "from": _name(rng), "subject": _text(rng), "open": True}


def person(rng: random.Random, number: int) -> Document:
    """One contact, keyed by a number that its application reads as an int32."""
    return {"_id": number, "name": _name(rng)}
