#!/usr/bin/env node
// Starts mongosh from one file, with the code that V8 compiled for it in an earlier run. Loading its 2,000 modules one by
// one takes half a second of processor, and the tests start mongosh hundreds of times. (MongoDB's own packages of mongosh
// are one file, too.)
const fs = require("fs");
const Module = require("module");
const path = require("path");
const vm = require("vm");

const file = path.join(__dirname, "..", "mongosh.js");
const compiled = `${file}.${process.version}.cache`;

let cachedData;
try {
  cachedData = fs.readFileSync(compiled);
} catch {
  // The first run writes it.
}
const script = new vm.Script(Module.wrap(fs.readFileSync(file, "latin1")), { filename: file, cachedData });
if (!cachedData || script.cachedDataRejected) {
  process.on("exit", () => {
    const own = `${compiled}.${process.pid}`;
    fs.writeFileSync(own, script.createCachedData());
    fs.renameSync(own, compiled);
  });
}
const main = new Module(file);
main.filename = file;
main.paths = Module._nodeModulePaths(__dirname);
script.runInThisContext()(main.exports, main.require.bind(main), main, file, path.dirname(file));
