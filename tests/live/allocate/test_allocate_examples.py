"""The example programs run and hand out no id twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallyglass.demo.server import ReplicaSet

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[3]
NEEDS = {
    "celery_tasks": "celery",
    "fastapi_service": "fastapi",
    "invoices": "sqids",
    "moving_from_mongoengine": "mongoengine",
}
UNIQUE = {
    "celery_tasks": None,
    "fastapi_service": None,
    "invoices": ("invoices", "_id", 20),
    "moving_from_mongoengine": None,
    "bank_accounts": ("accounts", "number", 200),
    "order_numbers": None,
    "bulk_import": ("products", "_id", 25_000),
    "preloaded_workers": None,
    "sharded_tickets": ("tickets", "number", 200),
}


@pytest.fixture(scope="module")
def servers(replica_set: ReplicaSet) -> Iterator[ReplicaSet]:
    with replica_set.client() as client:
        client.drop_database("examples")
        yield replica_set
        client.drop_database("examples")


@pytest.mark.parametrize("name", list(UNIQUE))
def test_example(servers: ReplicaSet, name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    argv = [sys.executable, "-m", f"examples.{name}", servers.uri]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
    said = [line for line in ran.stdout.splitlines() if "twice" in line]
    assert all(", 0 of them twice" in line for line in said), said
    expected = UNIQUE[name]
    if expected:
        collection, field, count = expected
        with servers.client() as client:
            values = client.examples[collection].distinct(field)
            assert len(values) == client.examples[collection].count_documents({}) == count


def test_the_start_in_the_documentation_runs(servers: ReplicaSet) -> None:
    text = (ROOT / "docs" / "library.md").read_text()
    code = text.split("```python\n", 1)[1].split("```", 1)[0]
    placed = code.replace("mongodb://localhost/?replicaSet=rs0", servers.uri)
    assert placed != code
    ran = subprocess.run([sys.executable, "-c", placed], capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    with servers.client() as client:
        assert [row["_id"] for row in client.shop.orders.find({"customer": "Sarah"})] == [1]
        client.shop.orders.delete_many({"customer": "Sarah"})
        client.shop.counters.delete_one({"_id": "orders"})
