// Let libraries for mongoose 8 hand out ids: node mongoose8.js URI ROUNDS PAUSE_MS, each in a database of its own.
const { Mongoose } = require('mongoose');

const [uri, rounds, pause] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const wait = () => new Promise((done) => setTimeout(done, pause * (0.5 + Math.random())));

const libraries = {
  mongoose_sequence(mongoose) {
    const sequence = require('mongoose-sequence')(mongoose);
    const orders = new mongoose.Schema({ order_number: { type: Number, index: true }, total: Number });
    orders.plugin(sequence, { inc_field: 'order_number' });
    return mongoose.model('Order', orders);
  },
  mongoose_sequence_scoped(mongoose) {
    const sequence = require('mongoose-sequence')(mongoose);
    const people = new mongoose.Schema({ city: String, n: Number });
    people.plugin(sequence, { id: 'inhabitants', inc_field: 'n', reference_fields: ['city'] });
    return mongoose.model('Inhabitant', people);
  },
  typegoose(mongoose) {
    const { AutoIncrementID } = require('@typegoose/auto-increment');
    const books = new mongoose.Schema({ _id: Number, title: String });
    books.plugin(AutoIncrementID, { field: '_id', startAt: 3000 });
    return mongoose.model('Book', books);
  },
  plugin_autoinc(mongoose) {
    const { plugin } = require('mongoose-plugin-autoinc');
    const pens = new mongoose.Schema({ maker: String, n: Number });
    pens.plugin(plugin, { model: 'Pen', field: 'n' });
    return mongoose.model('Pen', pens);
  },
};

async function run(name, prepare) {
  const mongoose = new Mongoose();
  await mongoose.connect(uri, { dbName: `lib_${name}` });
  const Model = await prepare(mongoose);
  await Model.init();
  for (let n = 0; n < rounds; n++) {
    await new Model({ city: ['Delft', 'Gent'][n % 2], maker: 'a', title: `t${n}`, total: n % 7 }).save();
    await wait();
  }
  await mongoose.disconnect();
  console.log(name, 'ran');
}

Promise.all(Object.entries(libraries).map(([name, prepare]) => run(name, prepare).catch((error) => {
  console.log(name, 'failed:', error.message);
}))).then(() => process.exit(0));
