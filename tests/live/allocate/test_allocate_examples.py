"""The example programs run and hand out no id twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from programs import MONGOOSE, install_node_packages
from tallyglass.demo.server import ReplicaSet

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[3]
NEEDS = {
    "celery_tasks": ["celery"],
    "django_orders": ["django", "gunicorn"],
    "fastapi_service": ["fastapi"],
    "invoices": ["sqids"],
    "motor_service": ["motor"],
    "moving_from_mongoengine": ["mongoengine"],
    "preloaded_workers": ["gunicorn"],
}
UNIQUE = {
    "celery_tasks": None,
    "django_orders": None,
    "fastapi_service": None,
    "invoices": ("invoices", "_id", 20),
    "motor_service": ("motor_orders", "_id", 1_000),
    "moving_from_hibernate": None,
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


def run_example(name: str, uri: str, **environ: str) -> str:
    """What a program prints: it succeeds, and found no number twice."""
    argv = [sys.executable, "-m", f"examples.{name}", uri]
    ran = subprocess.run(
        argv, cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
    said = [line for line in ran.stdout.splitlines() if "twice" in line]
    assert all(", 0 of them twice" in line for line in said), said
    return ran.stdout


@pytest.mark.parametrize("name", list(UNIQUE))
def test_example(servers: ReplicaSet, name: str) -> None:
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module)
    run_example(name, servers.uri)
    expected = UNIQUE[name]
    if expected:
        collection, field, count = expected
        with servers.client() as client:
            values = client.examples[collection].distinct(field)
            assert len(values) == client.examples[collection].count_documents({}) == count


@pytest.mark.needs("node", "npm")
def test_mongoose_sequence_and_the_library_share_a_counter(servers: ReplicaSet, tmp_path: Path) -> None:
    install_node_packages(tmp_path, MONGOOSE)
    said = run_example("moving_from_mongoose", servers.uri, NODE_PATH=str(tmp_path / "node_modules"))
    assert "400 numbers from two writers" in said
    assert "The two ran at the same time." in said


@pytest.mark.needs("node")
def test_an_example_without_its_packages_says_so_in_one_line(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "examples.moving_from_mongoose", "mongodb://127.0.0.1:1/"]
    environ = os.environ | {"NODE_PATH": str(tmp_path)}
    ran = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert "npm install mongoose@8 mongoose-sequence@6" in line


@pytest.mark.soak
@pytest.mark.needs("node")
def test_pyright_accepts_the_examples() -> None:
    pytest.importorskip("pyright")
    argv = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "examples"]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


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
