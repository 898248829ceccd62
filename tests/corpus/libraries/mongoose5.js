// Let libraries for mongoose 5 and the driver 3 hand out ids: node mongoose5.js URI ROUNDS PAUSE_MS [NAME...].
const { Mongoose } = require('mongoose');
const { MongoClient } = require('mongodb');

const [uri, rounds, pause] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const wait = () => new Promise((done) => setTimeout(done, pause * (0.5 + Math.random())));
const options = { useNewUrlParser: true, useUnifiedTopology: true, useCreateIndex: true, useFindAndModify: false };
const called = (work) => new Promise((done, failed) => work((error, value) => (error ? failed(error) : done(value))));

const plugins = {
  mongoose_auto_increment(mongoose) {
    const library = require('mongoose-auto-increment');
    library.initialize(mongoose.connection);
    const schema = new mongoose.Schema({ title: String });
    schema.plugin(library.plugin, { model: 'Letter', field: 'number', startAt: 100 });
    return mongoose.model('Letter', schema);
  },
  auto_increment_reworked(mongoose) {
    const { MongooseAutoIncrementID } = require('mongoose-auto-increment-reworked');
    MongooseAutoIncrementID.initialise('idcounters');
    const schema = new mongoose.Schema({ title: String });
    new MongooseAutoIncrementID(schema, 'Parcel').applyPlugin();
    return mongoose.model('Parcel', schema);
  },
  auto_number(mongoose) {
    const library = require('mongoose-auto-number');
    library.init(mongoose);
    const schema = new mongoose.Schema({ number: { type: Number, autoIncrement: true }, title: String });
    schema.plugin(library.plugin, 'voucher');
    return mongoose.model('Voucher', schema);
  },
  mongoose_increment(mongoose) {
    const library = require('mongoose-increment')(mongoose);
    const schema = new mongoose.Schema({ title: String });
    schema.plugin(library, { type: Number, modelName: 'Badge', model: 'Badge', fieldName: 'number', field: 'number' });
    return mongoose.model('Badge', schema);
  },
  autoinc(mongoose) {
    const library = require('mongoose-autoinc');
    library.initialize(mongoose.connection, mongoose);
    const schema = new mongoose.Schema({ title: String });
    schema.plugin(library.plugin, { model: 'Ticket', field: 'number', startAt: 500, incrementBy: 5 });
    return mongoose.model('Ticket', schema);
  },
  easy_auto_increment(mongoose) {
    const schema = new mongoose.Schema({ title: String });
    schema.plugin(require('mongoose-easy-auto-increment'), { field: 'sn' });
    return mongoose.model('Device', schema);
  },
};

// It was written for a driver whose findAndModify gives the document alone.
const older = (db) => ({
  findAndModify: (query, sort, update, how, done) => db.collection('counters').findAndModify(
    query, sort, update, how, (error, found) => done(error, found && found.value)),
});

const drivers = {
  mongo_autoincrement(db) {
    const next = require('mongo-autoincrement');
    return async (n) => db.collection('tickets').insertOne({ number: await next(db, 'tickets', 'number'), n: n % 5 });
  },
  mongodb_autoincrement(db) {
    const library = require('mongodb-autoincrement');
    return async (n) => {
      const _id = await called((done) => library.getNextSequence(db, 'members', done));
      return db.collection('members').insertOne({ _id, n: n % 5 });
    };
  },
  // Its own database/mongo/hash.js, from the folder nodebb.
  nodebb(db) {
    const module = { helpers: { mongo: require('./nodebb/helpers') } };
    require('./nodebb/hash')(db, module);
    const next = (field) => called((done) => module.incrObjectField('global', field, done));
    return async (n) => {
      const tid = await next('nextTid');
      await db.collection('objects').insertOne({ _key: `topic:${tid}`, tid, cid: n % 5 });
      for (let post = 0; post < 2; post++) {
        const pid = await next('nextPid');
        await db.collection('objects').insertOne({ _key: `post:${pid}`, pid, tid });
      }
    };
  },
  mongodb_counter(db) {
    const next = require('mongodb-counter').createCounters({ collection: older(db) })('jobs');
    return async (n) => db.collection('jobs').insertOne({ _id: await called((done) => next.increment(1, done)), n: n % 5 });
  },
  // A commit takes the positions of all its events at once.
  eventstore(db) {
    const store = require('eventstore')({
      type: 'mongodb', url: uri.replace('/?', `/${db.databaseName}?`), positionsCollectionName: 'positions',
      options: { useNewUrlParser: true, useUnifiedTopology: true },
    });
    const ready = called((done) => store.init(done));
    return async (n) => {
      await ready;
      const stream = await called((done) => store.getEventStream(`basket${n % 10}`, done));
      stream.addEvents(Array.from({ length: 1 + (n % 3) }, (_, part) => ({ event: 'itemAdded', part })));
      await called((done) => stream.commit(done));
    };
  },
  mongodb_counter_ranges(db) {
    const next = require('mongodb-counter').createCounters({ collection: older(db) })('clicks');
    return async () => {
      for (let n = 0; n < 20; n++) {
        await db.collection('clicks').insertOne({ _id: await called((done) => next.getNextUniqueId(done)), n: n % 5 });
      }
    };
  },
};

async function plugin(name, prepare) {
  // It uses the one mongoose of the process.
  const mongoose = name === 'auto_increment_reworked' ? require('mongoose') : new Mongoose();
  await mongoose.connect(uri, { ...options, dbName: `lib_${name}` });
  const Model = await prepare(mongoose);
  await Model.init();
  for (let n = 0; n < rounds; n++) {
    await new Model({ title: `t${n}` }).save();
    await wait();
  }
  await mongoose.disconnect();
}

async function driver(name, prepare) {
  const client = await MongoClient.connect(uri, { useNewUrlParser: true, useUnifiedTopology: true });
  const insert = prepare(client.db(`lib_${name}`));
  for (let n = 0; n < rounds; n++) {
    await insert(n);
    await wait();
  }
  await client.close();
}

async function mongo_sequence() {
  const db = require('mongojs')(uri.replace('/?', '/lib_mongo_sequence?'));
  const sequence = require('mongo-sequence')(db, 'lots');
  for (let n = 0; n < rounds; n++) {
    const _id = await called((done) => sequence.getNext(done));
    await called((done) => db.collection('lots').insert({ _id, n: n % 5 }, done));
    await wait();
  }
  await called((done) => db.close(done));
}

const wanted = (name) => process.argv.length < 6 || process.argv.slice(5).includes(name);
const report = (name, work) => wanted(name) && work().then(() => console.log(name, 'ran'), (error) => console.log(name, 'failed:', error.message));
process.on('uncaughtException', (error) => console.log('failed:', error.message));
Promise.all([
  ...Object.entries(plugins).map(([name, prepare]) => report(name, () => plugin(name, prepare))),
  ...Object.entries(drivers).map(([name, prepare]) => report(name, () => driver(name, prepare))),
  report('mongo_sequence', mongo_sequence),
]).then(() => process.exit(0));
