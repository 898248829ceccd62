// Measures peers for Node.js as their users call them: node peers.js URI WHICH SECONDS. Prints one JSON document.
"use strict";

const { MongoClient } = require("mongodb");

async function mongooseSequence(uri) {
  const mongoose = require("mongoose");
  const AutoIncrement = require("mongoose-sequence")(mongoose);
  await mongoose.connect(uri, { dbName: "bench" });
  const schema = new mongoose.Schema({ name: String });
  schema.plugin(AutoIncrement, { inc_field: "number" });
  const Order = mongoose.model("Order", schema);
  await Order.init();
  return { next: () => new Order({ name: "x" }).save(), close: () => mongoose.disconnect() };
}

async function oneACall(uri) {
  const client = await MongoClient.connect(uri, { writeConcern: { w: "majority" } });
  const ids = client.db("bench").collection("ids");
  const next = async () =>
    (await ids.findOneAndUpdate({ _id: "single" }, { $inc: { index: 1 } }, { upsert: true, returnDocument: "after" })).index;
  return { next, close: () => client.close() };
}

async function cachedPattern(uri) {
  const client = await MongoClient.connect(uri, { writeConcern: { w: "majority" } });
  const ids = client.db("bench").collection("ids");
  const batch = 1000;
  let at = 0;
  let end = 0;
  const next = async () => {
    if (at === end) {
      const found = await ids.findOneAndUpdate(
        { _id: "cached" }, { $inc: { index: batch } }, { upsert: true, returnDocument: "after" });
      end = found.index + 1;
      at = end - batch;
    }
    return at++;
  };
  return { next, close: () => client.close() };
}

async function main() {
  const [uri, which, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
  const { next, close } = await [mongooseSequence, oneACall, cachedPattern][which](uri);
  let all = 0;
  let ids = 0;
  const began = process.hrtime.bigint();
  const end = began + BigInt(Math.round(seconds * 1e9));
  while (process.hrtime.bigint() < end) {
    for (let n = 0; n < 20; n++) await next();
    ids += 20;
  }
  const elapsed = Number(process.hrtime.bigint() - began) / 1e9;
  all = ids;
  const times = [];
  const half = process.hrtime.bigint() + BigInt(Math.round(seconds * 0.5e9));
  while (times.length < 500000 && process.hrtime.bigint() < half) {
    const start = process.hrtime.bigint();
    await next();
    times.push(Number(process.hrtime.bigint() - start) / 1000);
  }
  all += times.length;
  times.sort((a, b) => a - b);
  const share = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))];
  await close();
  console.log(JSON.stringify({ ids, all, seconds: elapsed, p50: share(0.5), p99: share(0.99), p999: share(0.999) }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
