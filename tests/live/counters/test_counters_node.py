"""Counters that the real Node.js libraries write."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bson.int64 import Int64
from click.testing import CliRunner

from programs import MONGOOSE, install_node_packages
from tallyglass.counters.follow.watch import look
from tallyglass.counters.snapshot import NumericType
from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import open_gateway
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.needs("node", "npm")]

DB, DB_OF_GROUPS, DB_DOWN = "counters_node", "counters_node_groups", "node_down"
PACKAGES = {
    **MONGOOSE,
    "@typegoose/auto-increment": "4.7.0",
    "mongoose-plugin-autoinc": "1.1.9",
    "mongo-autoincrement": "1.0.1",
}

SCRIPT = """
const mongoose = require('mongoose');
const sequence = require('mongoose-sequence')(mongoose);
const { AutoIncrementID } = require('@typegoose/auto-increment');
const mongoAutoIncrement = require('mongo-autoincrement');

// It was written for a driver whose findOneAndUpdate gives more than the document.
const older = (db) => ({
  collection: (name) => ({
    findOneAndUpdate: (filter, update, options) => db.collection(name).findOneAndUpdate(
      filter, update, { ...options, returnDocument: 'after', includeResultMetadata: true }),
  }),
});

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
    await mongoAutoIncrement(older(mongoose.connection.db), 'tickets', 'number', { filter: { tenant: 7 } });
    await new Order({}).save();
    await new Inhabitant({ city: 'Delft' }).save();
    await new Book({ title: 'b' }).save();
  }
  await mongoose.disconnect();
})().catch((error) => { console.error(error); process.exit(1); });
"""


# In a separate process and database: it shares the names of its model and collection with typegoose.
GROUPS = """
const mongoose = require('mongoose');
const { plugin } = require('mongoose-plugin-autoinc');

(async () => {
  await mongoose.connect(process.argv[2]);
  const pens = new mongoose.Schema({ maker: String, n: Number });
  pens.plugin(plugin, { model: 'Pen', field: 'n', groupingField: 'maker' });
  const Pen = mongoose.model('Pen', pens);
  for (let n = 0; n < 3; n++) await new Pen({ maker: n ? 'b' : 'a' }).save();
  await mongoose.disconnect();
})().catch((error) => { console.error(error); process.exit(1); });
"""


DOWN = """
const mongoose = require('mongoose');
const sequence = require('mongoose-sequence')(mongoose);

(async () => {
  await mongoose.connect(process.argv[2]);
  const tickets = new mongoose.Schema({ number: { type: Number, index: true } });
  tickets.plugin(sequence, { inc_field: 'number', inc_amount: -1, start_seq: 1000 });
  const Ticket = mongoose.model('Ticket', tickets);
  await Ticket.init();
  for (let n = 0; n < Number(process.argv[3]); n++) console.log((await new Ticket({}).save()).number);
  await mongoose.disconnect();
})().catch((error) => { console.error(error); process.exit(1); });
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the libraries installed."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "write.js").write_text(SCRIPT)
    (folder / "groups.js").write_text(GROUPS)
    (folder / "down.js").write_text(DOWN)
    install_node_packages(folder, PACKAGES)
    return folder


@pytest.fixture
def written(project: Path, replica_set: ReplicaSet) -> None:
    """Let the libraries write."""
    for script, db in (("write.js", DB), ("groups.js", DB_OF_GROUPS)):
        uri = replica_set.uri.replace("/?", f"/{db}?")
        subprocess.run(["node", script, uri], cwd=project, check=True, timeout=120)


@pytest.mark.usefixtures("written")
async def test_counters_written_by_libraries_are_recognised(replica_set: ReplicaSet) -> None:
    with replica_set.client() as client:
        gateway = open_gateway(replica_set.uri)
        counters = [counter for counter in (await look(gateway)).counters if counter.ns.startswith(DB)]
        await gateway.close()
        client.drop_database(DB)
        client.drop_database(DB_OF_GROUPS)
    found = {(counter.shape, counter.id): counter for counter in counters}
    orders = found["mongoose-sequence", "order_number"]
    assert (orders.value, orders.type, orders.confidence) == (3, NumericType.INT32, 1.0)
    scoped = [counter for counter in counters if counter.id.startswith("inhabitant_seq.")]
    assert [(counter.value, counter.shape) for counter in scoped] == [(3, "mongoose-sequence")]
    book = found["typegoose", "Book._id"]
    assert (book.value, book.type, book.confidence) == (3_000_000_002, NumericType.INT64, 1.0)
    # The ids themselves are doubles: Node.js writes every number beyond int32 as one.
    assert (book.target, book.drift) == (f"{DB}.books._id", 0)
    # Each group has its own numbers: none of them is behind another's.
    for group, value in (("a", 0), ("b", 1)):
        pen = found["mongoose-auto-increment", f"Pen.n.{group}"]
        assert (pen.value, pen.type, pen.confidence, pen.drift) == (value, NumericType.INT32, 1.0, None)
    ticket = found["mongo-autoincrement", 'tickets.number.{"tenant":7}']
    assert (ticket.value, ticket.type, ticket.confidence) == (3, NumericType.INT32, 1.0)


def test_a_descending_counter_is_repaired_so_that_the_library_goes_on(project: Path, replica_set: ReplicaSet) -> None:
    uri = replica_set.uri.replace("/?", f"/{DB_DOWN}?")

    def numbers(count: int) -> list[int]:
        command = ["node", "down.js", uri, str(count)]
        done = subprocess.run(command, cwd=project, check=True, timeout=120, capture_output=True, text=True)
        return [int(line) for line in done.stdout.split()]

    config = project / "down.toml"
    config.write_text(
        f'[[counter]]\ncollection = "{DB_DOWN}.counters"\nfield = "seq"\ntarget = "{DB_DOWN}.tickets.number"\n'
    )
    repair = ["repair", replica_set.uri, "--config", str(config), "--no-history", "--match", f"{DB_DOWN}.*"]
    with replica_set.client() as client:
        db = client[DB_DOWN]
        assert numbers(15) == [*range(1000, 985, -1)]
        db.tickets.insert_many([{"number": number} for number in range(966, 986)])
        shown = CliRunner().invoke(main, repair)
        assert (shown.exit_code, '{"$min": {"seq": NumberInt(966)}}' in shown.stdout) == (1, True), shown.stdout
        db.counters.update_one({}, {"$min": {"seq": Int64(966)}})
        assert CliRunner().invoke(main, repair).exit_code == 0
        assert numbers(3) == [965, 964, 963]
        client.drop_database(DB_DOWN)
