// The old application of moving_from_mongoose.py: node mongoose_writer.js URI COUNT saves documents, one number a line.
"use strict";

let mongoose, AutoIncrement;
try {
  mongoose = require("mongoose");
  AutoIncrement = require("mongoose-sequence")(mongoose);
} catch (error) {
  if (error.code !== "MODULE_NOT_FOUND") throw error;
  console.error("Install two packages where NODE_PATH finds them: npm install mongoose@8 mongoose-sequence@6");
  process.exit(1);
}

async function main() {
  await mongoose.connect(process.argv[2], { dbName: "examples" });
  const schema = new mongoose.Schema({ number: Number });
  schema.plugin(AutoIncrement, { inc_field: "number" });
  const Order = mongoose.model("Order", schema);
  await Order.init();
  for (let n = 0; n < Number(process.argv[3]); n++) {
    console.log((await new Order({}).save()).number);
  }
  await mongoose.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
