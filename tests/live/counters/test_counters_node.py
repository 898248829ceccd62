"""Counters that the real Node.js libraries write; skipped where node, npm or a package registry is not there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tallyglass.connect import open_gateway
from tallyglass.counters.snapshot import NumericType
from tallyglass.counters.watch import look
from tallyglass.demo.server import ReplicaSet

pytestmark = pytest.mark.live

DB = "counters_node"
PACKAGES = {
    "mongoose": "8.7.3",
    "mongoose-sequence": "6.0.1",
    "@typegoose/auto-increment": "4.7.0",
}

SCRIPT = """
const mongoose = require('mongoose');
const sequence = require('mongoose-sequence')(mongoose);
const { AutoIncrementID } = require('@typegoose/auto-increment');

(async () => {
  await mongoose.connect(process.argv[2]);
  const inhabitants = new mongoose.Schema({ city: String, n: Number });
  inhabitants.plugin(sequence, { id: 'inhabitant_seq', inc_field: 'n', reference_fields: ['city'] });
  const Inhabitant = mongoose.model('Inhabitant', inhabitants);
  const orders = new mongoose.Schema({ order_number: Number });
  orders.plugin(sequence, { inc_field: 'order_number' });
  const Order = mongoose.model('Order', orders);
  const books = new mongoose.Schema({ _id: Number, title: String });
  books.plugin(AutoIncrementID, { field: '_id', startAt: 3000000000 });
  const Book = mongoose.model('Book', books);
  for (let n = 0; n < 3; n++) {
    await new Order({}).save();
    await new Inhabitant({ city: 'Delft' }).save();
    await new Book({ title: 'b' }).save();
  }
  await mongoose.disconnect();
})().catch((error) => { console.error(error); process.exit(1); });
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the libraries installed."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        pytest.skip("node and npm are not here")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": PACKAGES}))
    (folder / "write.js").write_text(SCRIPT)
    command = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--ignore-scripts",
        "--fetch-retries=1",
        "--fetch-timeout=20000",
    ]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not fetch the libraries in time")
    if done.returncode:
        pytest.skip(f"npm could not fetch the libraries: {done.stderr[-200:]}")
    return folder


@pytest.fixture
def written(project: Path, replica_set: ReplicaSet) -> None:
    """Let the libraries write."""
    uri = replica_set.uri.replace("/?", f"/{DB}?")
    subprocess.run(["node", "write.js", uri], cwd=project, check=True, timeout=120)


@pytest.mark.usefixtures("written")
async def test_mongoose_sequence_and_typegoose(replica_set: ReplicaSet) -> None:
    with replica_set.client() as client:
        gateway = open_gateway(replica_set.uri)
        counters = [counter for counter in (await look(gateway)).counters if counter.ns.startswith(f"{DB}.")]
        await gateway.close()
        client.drop_database(DB)
    found = {(counter.shape, counter.id): counter for counter in counters}
    orders = found["mongoose-sequence", "order_number"]
    assert (orders.value, orders.type, orders.confidence) == (3, NumericType.INT32, 1.0)
    scoped = [counter for counter in counters if counter.id.startswith("inhabitant_seq.")]
    assert [(counter.value, counter.shape) for counter in scoped] == [(3, "mongoose-sequence")]
    book = found["typegoose", "Book._id"]
    assert (book.value, book.type, book.confidence) == (3_000_000_002, NumericType.INT64, 1.0)
    # The ids themselves are doubles: Node.js writes every number beyond int32 as one.
    assert (book.target, book.drift) == (f"{DB}.books._id", 0)
