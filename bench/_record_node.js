// The Node.js applications of a recording: node _record_node.js NAME URI runs one of them until it is ended.
require("reflect-metadata");

const [, , name, uri] = process.argv;
const sleep = (millis) => new Promise((done) => setTimeout(done, millis));
const below = (n) => Math.floor(Math.random() * n);
const to = (db) => uri.replace("/?", `/${db}?`) + `&appName=${name}`;
const answered = (call) => new Promise((done, failed) => call((error) => (error ? failed(error) : done())));

async function collection(db, name) {
  const { MongoClient } = require("mongodb");
  return (await new MongoClient(to(db)).connect()).db(db).collection(name);
}

const applications = {
  // Yjs: an insert for each change of a text; now and then one document is put together, and its parts are deleted.
  async yjs() {
    const { MongodbPersistence } = require("y-mongodb-provider");
    const Y = require("yjs");
    const kept = new MongodbPersistence(to("collab"), { collectionName: "docs", flushSize: 60 });
    const docs = Array.from({ length: 12 }, () => new Y.Doc());
    const changes = docs.map(() => []);
    docs.forEach((doc, i) => doc.on("update", (update) => changes[i].push(update)));
    for (let n = 0; ; n++) {
      const i = below(12);
      docs[i].getText("t").insert(0, `x${n}`);
      while (changes[i].length) await kept.storeUpdate(`doc${i}`, changes[i].shift());
      if (n % 97 === 0) await kept.flushDocument(`doc${below(12)}`);
      await sleep(20);
    }
  },

  // ShareDB: an operation is inserted and its document replaced.
  async sharedb() {
    const ShareDB = require("sharedb");
    const connection = new ShareDB({ db: require("sharedb-mongo")(to("share")) }).connect();
    for (let n = 0; ; n++) {
      const doc = connection.get("notes", `n${below(200)}`);
      await answered((done) => doc.fetch(done));
      if (!doc.type) await answered((done) => doc.create({ n }, done));
      else if (n % 40 === 0) await answered((done) => doc.del(done));
      else await answered((done) => doc.submitOp([{ p: ["n"], na: 1 }], done));
      await sleep(25);
    }
  },

  // Casbin: rules come and go singly and by a field; now and then the whole policy is saved again.
  async casbin() {
    const { newEnforcer, newModelFromString } = require("casbin");
    const adapter = require("casbin-mongodb-adapter");
    const Adapter = adapter.default || adapter.MongoAdapter;
    const model = newModelFromString(
      "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n" +
        "[role_definition]\ng = _, _\n[policy_effect]\ne = some(where (p.eft == allow))\n" +
        "[matchers]\nm = g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act\n",
    );
    const rules = await newEnforcer(model, await Adapter.newAdapter({ uri: to("authz"), database: "authz" }));
    for (let n = 0; ; n++) {
      await rules.addPolicy(`u${below(80)}`, `o${below(30)}`, "read");
      if (n % 3 === 0) await rules.removePolicy(`u${below(80)}`, `o${below(30)}`, "read");
      if (n % 50 === 0) await rules.removeFilteredPolicy(1, `o${below(30)}`);
      if (n % 700 === 699) await rules.savePolicy();
      await sleep(60);
    }
  },

  // Keyv: a cache with a TTL index, single and listed removals, now and then all of a namespace.
  async keyv() {
    const mongo = require("@keyv/mongo");
    const keyv = require("keyv");
    const Store = mongo.default || mongo.KeyvMongo;
    const Keyv = keyv.default || keyv.Keyv;
    const store = new Store(to("cache"), { collection: "entries", db: "cache" });
    const cache = new Keyv({ store, namespace: "a", ttl: 30000 });
    for (let n = 0; ; n++) {
      await cache.set(`k${below(3000)}`, { n, text: "y".repeat(60) });
      if (n % 4 === 0) await cache.delete(`k${below(3000)}`);
      if (n % 300 === 0) await cache.delete(Array.from({ length: 30 }, () => `k${below(3000)}`));
      if (n % 2500 === 2499) await cache.clear();
      await sleep(15);
    }
  },

  // MikroORM: units of work that insert, update and delete several rows at once.
  async mikro() {
    const { MikroORM, EntitySchema } = require("@mikro-orm/mongodb");
    const Task = new EntitySchema({
      name: "Task",
      properties: {
        _id: { type: "ObjectId", primary: true },
        title: { type: "string" },
        done: { type: "boolean" },
        points: { type: "number" },
      },
    });
    const orm = await MikroORM.init({
      clientUrl: to("projects"), dbName: "projects", entities: [Task], implicitTransactions: false, allowGlobalContext: true,
    });
    for (let n = 0; ; n++) {
      const unit = orm.em.fork();
      for (let i = 0; i < 8; i++) unit.create("Task", { title: `t${n}${i}`, done: false, points: i });
      await unit.flush();
      for (const task of await unit.find("Task", { done: false }, { limit: 6 })) {
        task.done = true;
        task.points += 1;
      }
      await unit.flush();
      if (n % 5 === 0) {
        for (const task of await unit.find("Task", { done: true }, { limit: 12 })) unit.remove(task);
        await unit.flush();
      }
      if (n % 60 === 59) await unit.nativeDelete("Task", { done: true, points: { $gt: 6 } });
      await sleep(180);
    }
  },

  // TypeORM: rows are saved, updated by a field and removed singly, now and then many of them.
  async typeorm() {
    const { DataSource, EntitySchema } = require("typeorm");
    const Item = new EntitySchema({
      name: "items",
      columns: {
        id: { type: "string", objectId: true, primary: true },
        sku: { type: String },
        qty: { type: Number },
        price: { type: Number },
      },
    });
    const source = new DataSource({ type: "mongodb", url: to("erp"), database: "erp", entities: [Item] });
    const items = (await source.initialize()).getMongoRepository(Item);
    for (let n = 0; ; n++) {
      await items.save({ sku: `s${below(500)}`, qty: below(9), price: n });
      await items.updateMany({ sku: `s${below(500)}` }, { $inc: { qty: 1 } });
      if (n % 6 === 0) await items.deleteOne({ sku: `s${below(500)}` });
      if (n % 250 === 249) await items.deleteMany({ qty: { $gt: 7 } });
      await sleep(40);
    }
  },

  // Socket.IO: what servers tell each other is inserted, and expires.
  async socketio() {
    const { createAdapter } = require("@socket.io/mongo-adapter");
    const { Server } = require("socket.io");
    const events = await collection("sock", "events");
    await events.createIndex({ createdAt: 1 }, { expireAfterSeconds: 45 });
    const server = new Server();
    server.adapter(createAdapter(events, { addCreatedAtField: true, heartbeatInterval: 1000 }));
    for (let n = 0; ; n++) {
      server.to(`r${below(5)}`).emit("told", n);
      await sleep(40);
    }
  },

  // Feathers: a service that creates, patches and removes, singly and by a query.
  async feathers() {
    const { feathers } = require("@feathersjs/feathers");
    const { MongoDBService } = require("@feathersjs/mongodb");
    const app = feathers();
    const Model = await collection("api", "messages");
    app.use("messages", new MongoDBService({ Model, multi: true, paginate: { default: 10, max: 50 } }));
    const messages = app.service("messages");
    for (let n = 0; ; n++) {
      const { _id } = await messages.create({ text: `m${n}`, room: below(20), read: false });
      await messages.patch(_id, { read: true });
      if (n % 7 === 0) await messages.patch(null, { read: true }, { query: { room: below(20), read: false } });
      if (n % 120 === 119) await messages.remove(null, { query: { room: below(20) } });
      await sleep(45);
    }
  },

  // winston: a log in a capped collection.
  async winston() {
    const winston = require("winston");
    require("winston-mongodb");
    const target = { db: to("logs"), dbName: "logs", collection: "app", capped: true, cappedSize: 200000 };
    const log = winston.createLogger({ transports: [new winston.transports.MongoDB(target)] });
    for (let n = 0; ; n++) {
      log.info(`request ${n}`, { metadata: { n } });
      await sleep(30);
    }
  },

  // Umzug: migrations up and down: an update of all rows, and a collection that is filled and dropped.
  async umzug() {
    const { Umzug, MongoDBStorage } = require("umzug");
    const people = await collection("mig", "people");
    const index = await collection("mig", "people_index");
    await people.insertMany(Array.from({ length: 400 }, (_, n) => ({ _id: n, n })));
    const migrations = [
      {
        name: "01",
        up: () => people.updateMany({}, { $set: { v: 1 } }),
        down: () => people.updateMany({}, { $unset: { v: "" } }),
      },
      {
        name: "02",
        up: () => index.insertMany(Array.from({ length: 50 }, (_, n) => ({ n }))),
        down: () => index.drop(),
      },
    ];
    const storage = new MongoDBStorage({ collection: await collection("mig", "migrations") });
    const umzug = new Umzug({ migrations, storage, logger: undefined });
    for (;;) {
      await umzug.up();
      await sleep(15000);
      await umzug.down({ to: 0 });
      await sleep(9000);
    }
  },
};

process.on("unhandledRejection", (error) => {
  console.error(name, error);
  process.exit(1);
});
process.on("SIGTERM", () => process.exit(0));
applications[name]();
