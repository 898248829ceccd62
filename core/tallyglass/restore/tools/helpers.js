const fs = require("fs");
// `shell` has the functions of mongosh that a module does not see; `db` is the server that is connected.
let shell;
let db;

function must(result) {
  if (!result.ok || result.writeConcernError || (result.writeErrors && result.writeErrors.length)) {
    throw Object.assign(new Error(JSON.stringify(result)), {code: result.code});
  }
  return result;
}
async function run(name, body) {
  return must(await db.getSiblingDB(name).runCommand(body));
}
// What a server answers, also where it refuses: mongosh throws that.
async function answer(name, body) {
  try {
    return await db.getSiblingDB(name).runCommand(body);
  } catch (error) {
    if (error.code === undefined) { throw error; }  // there was no answer
    return {ok: 0, code: error.code, errmsg: error.message};
  }
}
// Whatever the server's default: an acknowledgement by one member alone is lost with that member.
const MAJORITY = {w: "majority"};
async function write(name, body) {
  return await run(name, {...body, writeConcern: MAJORITY});
}
// Each is done, also where another is refused: one index that cannot be built keeps no other from being built.
async function doAll(works) {
  const refused = [];
  for (const work of works) {
    try {
      await work();
    } catch (error) {
      refused.push(error.message);
    }
  }
  if (refused.length > 0) {
    throw new Error([refused.length + " of " + works.length + " could not be done:", ...refused].join("\n"));
  }
}
async function dropIfThere(name, body) {
  const missing = [26, 27];
  try {
    await write(name, body);
  } catch (error) {
    if (!missing.includes(error.code)) { throw error; }
  }
}
function split(ns) {
  const dot = ns.indexOf(".");
  return [ns.slice(0, dot), ns.slice(dot + 1)];
}
function collection(ns) {
  const [name, rest] = split(ns);
  return db.getSiblingDB(name).getCollection(rest);
}
function quoted(ns) {
  return JSON.stringify(ns).replace(/[^ -~]/g, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}
// The tools' configuration file. The script adds the password to it while it runs; without one, mongosh asks.
async function connectTo(file) {
  const text = fs.readFileSync(file, "utf8");
  const uri = JSON.parse(/^uri: (.*)$/m.exec(text)[1]);
  const at = uri.indexOf("@");
  if (at < 0 || /authMechanism=(MONGODB-X509|GSSAPI|MONGODB-OIDC)/.test(uri)) {
    return await shell.connect(uri);
  }
  const held = /^password: (.*)$/m.exec(text);
  const plain = (value) => (value.startsWith('"') ? JSON.parse(value) : value.slice(1, -1).replaceAll("''", "'"));
  const password = held ? plain(held[1]) : await shell.passwordPrompt();
  return await shell.connect(uri.slice(0, at) + ":" + encodeURIComponent(password) + uri.slice(at));
}
// An address may lead elsewhere by now: a tunnel that was opened again, a name that moved. Who may not read the id of
// the set cannot compare it.
async function onLive(id) {
  db = await connectTo("source.yml");
  const {config} = id ? await answer("admin", {replSetGetConfig: 1}) : {};
  const here = config && config.settings && config.settings.replicaSetId;
  if (here && String(here) !== id) {
    throw new Error("This is another set than that of the plan, of the same name. Nothing was written.");
  }
  return db;
}
async function onSpare(liveSet) {
  db = await connectTo("spare.yml");
  if ((await run("admin", {hello: 1})).setName === liveSet) {
    throw new Error("This is a member of the live set, not the spare. Nothing was written.");
  }
  return db;
}
// Makes a replica set of one member; a spare that was started again is one already. It takes writes a moment later.
async function startSet(name, host) {
  const made = await answer("admin", {replSetInitiate: {_id: name, members: [{_id: 0, host}]}});
  if (!made.ok && made.code !== 23) { throw new Error(made.errmsg); }
  while (!(await run("admin", {hello: 1})).isWritablePrimary) {
    await new Promise((done) => { setTimeout(done, 100); });
  }
}
// Drops everything on a spare that bears the mark of this restore.
async function emptySpare(mark) {
  const found = db.getSiblingDB("admin").getCollection("tallyglass_spare");
  if (await found.countDocuments({_id: mark}) === 0) {
    throw new Error("This spare does not bear the mark of this restore. Nothing was dropped.");
  }
  for (const {name} of (await run("admin", {listDatabases: 1, nameOnly: true})).databases) {
    if (!["admin", "config", "local"].includes(name)) {
      await run(name, {dropDatabase: 1});
    }
  }
}
async function exists(ns) {
  const [name, rest] = split(ns);
  return (await db.getSiblingDB(name).getCollectionInfos({name: rest}, {nameOnly: true})).length === 1;
}
// Undefined where there is no such collection.
async function infoOf(ns) {
  const [name, rest] = split(ns);
  return (await db.getSiblingDB(name).getCollectionInfos({name: rest}))[0];
}
// The field of a validator that says which folder made a collection.
const RESERVED = "tallyglass_reserved_by";
async function mustHold(ns, count, orMore = false) {
  const info = await infoOf(ns);
  if (!info || RESERVED in (info.options.validator || {})) {
    throw new Error(quoted(ns) + " is missing: load it again first. Nothing was written.");
  }
  const found = count === null ? null : await collection(ns).countDocuments({});
  if (orMore ? found < count : found !== count) {
    throw new Error(quoted(ns) + " holds " + found + " documents, not the " + count + " computed."
      + " Nothing was written.");
  }
}
async function mustBeAbsent(ns, loaded) {
  if (await exists(ns)) {
    throw new Error(quoted(ns) + " was created since the plan: plan again. Nothing was written. What was loaded stays in "
      + quoted(loaded) + ": drop that if it is not needed.");
  }
}
// createIndexes would make a collection that is not there.
async function mustExist(ns) {
  if (!await exists(ns)) {
    throw new Error(quoted(ns) + " no longer exists, so no index was built in it: plan again.");
  }
}
// Another run of the same plan has the same names, and would load its data over those of this one.
async function reserve(ns, file) {
  if (!fs.existsSync(file)) {
    fs.writeFileSync(file, require("crypto").randomUUID());
  }
  const [folder, done] = fs.readFileSync(file, "utf8").split(" ");
  if (done) {
    return;
  }
  const validator = {[RESERVED]: folder};
  const [name, rest] = split(ns);
  const taken = 48;
  const result = await answer(name, {create: rest, validator: validator, writeConcern: MAJORITY});
  if (result.code !== taken) {
    must(result);
  } else {
    const info = await infoOf(ns);  // undefined while another run, which has it, drops and creates it to load it
    if (JSON.stringify(info && info.options.validator) !== JSON.stringify(validator)) {
      throw new Error("[name-taken] " + quoted(ns) + " is there already: another run of this plan made it, or somebody"
        + " since. If no run is in progress and nobody needs it, drop it, and run this again. Nothing was written.");
    }
  }
  fs.appendFileSync(file, " done");
}
async function dropLike(name, pattern) {
  const where = db.getSiblingDB(name);
  for (const one of await where.getCollectionNames()) {
    if (new RegExp(pattern).test(one)) {
      await where.getCollection(one).drop();
    }
  }
}
function mustMatch(result, missing) {
  if (result.matchedCount + (result.upsertedCount || 0) < 1) {
    throw new Error(missing);
  }
}
function condition(index) {
  const some = Object.keys(index.key).map((field) => ({[field]: {$exists: true}}));
  return {$and: [index.partialFilterExpression || {}, index.sparse ? {$or: some} : {}]};
}
// By the server's clock: that of this host may be another.
async function expiredBefore(seconds) {
  return new Date((await run("admin", {hello: 1})).localTime.getTime() - Number(seconds) * 1000);
}
// The indexes of a collection that is not live yet. A TTL index that would empty it at once is built as one without
// expiry: no number of seconds spares every date, and MongoDB 4.4 refuses large ones. Once there is a TTL index,
// documents may expire: they are counted before.
async function buildIndexes(staging, indexes, count) {
  if (!await exists(staging)) {
    return;
  }
  const [name, rest] = split(staging);
  if (!(await collection(staging).getIndexes()).some((one) => one.expireAfterSeconds !== undefined)) {
    await mustHold(staging, count);
  }
  for (const one of indexes) {
    if (one.expireAfterSeconds !== undefined) {
      const before = await expiredBefore(one.expireAfterSeconds);
      const expired = {$and: [condition(one), {[Object.keys(one.key)[0]]: {$lte: before, $type: "date"}}]};
      const count = await collection(staging).countDocuments(expired);
      if (count > 0) {
        await shell.print(quoted(staging) + ": the TTL index " + quoted(one.name) + " would remove " + count
          + " documents within a minute. It is built without its expireAfterSeconds of " + one.expireAfterSeconds
          + ": set it back manually.");
        delete one.expireAfterSeconds;
      }
    }
    const result = await answer(name, {createIndexes: rest, indexes: [one], writeConcern: MAJORITY});
    // 85: a run that was stopped built it, before a document expired; or the server takes no such options.
    if (result.code !== 85 || !(await collection(staging).getIndexes()).some((other) => other.name === one.name)) {
      must(result);
    }
  }
}
// The same for a collection that expires by its own option, and that was loaded without it.
async function expireAgain(copy, seconds, count) {
  if (!await exists(copy)) {
    return;
  }
  const {options} = await infoOf(copy);
  if (options.expireAfterSeconds !== undefined) {
    return;
  }
  await mustHold(copy, count);
  const field = options.timeseries ? options.timeseries.timeField : "_id";
  const before = await expiredBefore(seconds);
  const expired = await collection(copy).countDocuments({[field]: {$lte: before, $type: "date"}});
  if (expired > 0) {
    await shell.print(quoted(copy) + ": its expireAfterSeconds " + seconds + " would remove " + expired
      + " documents within a minute. It is left off: set it back manually.");
  } else {
    const [name, rest] = split(copy);
    await write(name, {collMod: rest, expireAfterSeconds: seconds});
  }
}
async function rename(source, target) {
  await write("admin", {renameCollection: source, to: target});
}
// Each collection was loaded under its name with this ending; all are checked before the first one is renamed.
async function takeNames(ending, databases) {
  const waiting = [];
  for (const [name, counts] of databases) {
    for (const [rest, count] of Object.entries(counts)) {
      const ns = name + rest;
      if (!await exists(ns) || await exists(ns + ending)) {
        waiting.push(ns);
        await mustHold(ns + ending, count);
        await mustBeAbsent(ns, ns + ending);
      }
    }
  }
  for (const ns of waiting) {
    await rename(ns + ending, ns);
  }
}
const noCounters = (paths) => paths.map((path) => ({$match: {[path]: {$not: {$type: "number"}}}}));
const greatest = (path) => ({$set: {[path]: {$max: ["$" + path, "$$new." + path]}}});
// A pipeline that changes a document with one field name twice drops a value, or ends the server.
async function mustHaveDistinctNames(ns, path) {
  const names = (part) => ({$map: {input: {$objectToArray: part}, as: "field", in: "$$field.k"}});
  const repeats = (part) => ({$cond: [{$eq: [{$type: part}, "object"]},
    {$ne: [{$size: names(part)}, {$size: {$setUnion: [names(part)]}}]}, false]});
  const parts = path.split(".").map((_, at, all) => (at === 0 ? "$$ROOT" : "$" + all.slice(0, at).join(".")));
  const [name, rest] = split(ns);
  const found = await run(name, {aggregate: rest, cursor: {}, collation: {locale: "simple"}, pipeline: [
    {$match: {[path]: {$type: "number"}}}, {$match: {$expr: {$or: parts.map(repeats)}}}, {$limit: 1},
    {$project: {_id: 1}}]});
  for (const row of found.cursor.firstBatch) {
    throw new Error("[name-twice] " + quoted(ns) + ": the counter with the _id "
      + quoted(shell.EJSON.stringify(row._id, {relaxed: false})) + " has one field name twice, which no update leaves as"
      + " it is. Repair it manually, and run this again. Its number was not raised.");
  }
}
async function raiseCounters(source, target, path, wanted, missing) {
  await mustHaveDistinctNames(target, path);
  const pipeline = [
    {$match: {...wanted, [path]: {$type: "number"}}},
    {$merge: {into: split(target)[1], on: "_id", whenMatched: [greatest(path)], whenNotMatched: missing}},
  ];
  const [name, rest] = split(source);
  await write(name, {aggregate: rest, pipeline: pipeline, cursor: {}});
}
// Whether the oplog shows that the collection was renamed away, and nothing renamed to its place since.
async function isTorn(ns, staging, kept) {
  const parts = [{"o.renameCollection": ns, "o.to": kept}, {"o.renameCollection": staging, "o.to": ns}];
  const filter = {op: "c", ns: split(ns)[0] + ".$cmd", $or: parts};
  const body = {find: "oplog.rs", filter: filter, sort: {$natural: -1}, limit: 1, singleBatch: true};
  const [last] = (await run("local", body)).cursor.firstBatch;
  return last !== undefined && last.o.to === kept;
}
async function copyCounters(source, target, path) {
  await raiseCounters(source, target, path, {}, "discard");
  await raiseCounters(source, target, path, {_id: {$not: {$type: "objectId"}}}, "insert");
}
const IN_PLACE = ["validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages"];
async function optionsOf(ns) {
  const {options} = await infoOf(ns);
  const part = (wanted) => Object.fromEntries(Object.entries(options).filter(
    ([option]) => IN_PLACE.includes(option) === wanted));
  return {changeable: part(true), fixed: JSON.stringify(part(false))};
}
// The collection was created again before the copy had its name. What was written there stays, and the copy joins it.
async function putTogether(ns, staging, kept, paths) {
  const [name, rest] = split(ns);
  const copy = split(staging)[1];
  const [live, wanted] = [await optionsOf(ns), await optionsOf(staging)];
  if (live.fixed !== wanted.fixed) {
    throw new Error(quoted(ns) + " was created again with other options than " + quoted(staging) + " has. Stop the"
      + " application, rename " + quoted(ns) + " to a name of your own, and run this again. Nothing was written.");
  }
  await shell.print(quoted(ns) + " was created again while it was replaced: what was written there since stays");
  const indexes = (await collection(staging).getIndexes()).filter((one) => one.name !== "_id_")
    .map((one) => ({...(Number(one.v) === 1 ? {} : {collation: {locale: "simple"}}), ...one}));
  if (indexes.length > 0) {
    await write(name, {createIndexes: rest, indexes: indexes});
  }
  if (Object.keys(wanted.changeable).length > 0) {
    await write(name, {collMod: rest, ...wanted.changeable});
  }
  for (const path of paths) {
    await copyCounters(kept, staging, path);
    await mustHaveDistinctNames(ns, path);
    const matched = [greatest(path), {$replaceWith: {$mergeObjects: ["$$new", "$$ROOT"]}}];
    await write(name, {aggregate: copy, cursor: {}, bypassDocumentValidation: true, pipeline: [
      {$match: {[path]: {$type: "number"}}}, {$merge: {into: rest, whenMatched: matched, whenNotMatched: "insert"}}]});
  }
  await write(name, {aggregate: copy, cursor: {}, bypassDocumentValidation: true, pipeline: [{$sort: {_id: -1}},
    {$merge: {into: rest, whenMatched: [{$replaceWith: "$$ROOT"}], whenNotMatched: "insert"}}]});
  await write(name, {aggregate: copy, cursor: {}, allowDiskUse: true, collation: {locale: "simple"}, pipeline: [
    ...noCounters(paths), {$replaceWith: {one: "$$ROOT"}},
    {$lookup: {from: rest, localField: "one._id", foreignField: "_id", as: "live"}},
    {$match: {"live.0": {$exists: true}, $expr: {$ne: [{$arrayElemAt: ["$live", 0]}, "$one"]}}},
    {$replaceWith: "$one"}, {$out: copy}]});
  const left = await collection(staging).countDocuments({});
  if (left === 0) {
    await write(name, {drop: copy});
  } else {
    await shell.print(quoted(ns) + ": " + left + " documents were created again under an _id that comes back; these stay,"
      + " and those that should have come back are in " + quoted(staging));
  }
}
async function finishReplacing(ns, staging, kept, paths) {
  const taken = 48;
  try {
    await rename(staging, ns);
  } catch (error) {
    if (error.code !== taken) { throw error; }
    await putTogether(ns, staging, kept, paths);
  }
}
// How far a counter is set beyond the live one: enough for what is handed out there until the names change, which takes
// milliseconds. Where it moves in steps of many, ten times as far as it moved while the collection was copied.
const HEAD_ROOM = 100;
async function raiseAhead(ns, staging, copy, path) {
  await mustHaveDistinctNames(staging, path);
  const [name, rest] = split(ns);
  const moved = {$max: [0, {$subtract: ["$" + path, {$max: "$tallyglass_was." + path}]}]};
  const ahead = {$add: ["$" + path, HEAD_ROOM, {$multiply: [10, {$ifNull: [moved, 0]}]}]};
  const pipeline = (wanted, missing) => [{$match: {...wanted, [path]: {$type: "number"}}},
    {$lookup: {from: split(copy)[1], localField: "_id", foreignField: "_id", as: "tallyglass_was"}},
    {$set: {[path]: ahead}}, {$unset: "tallyglass_was"},
    {$merge: {into: split(staging)[1], on: "_id", whenMatched: [greatest(path)], whenNotMatched: missing}}];
  await write(name, {aggregate: rest, pipeline: pipeline({}, "discard"), cursor: {}});
  await write(name, {aggregate: rest, pipeline: pipeline({_id: {$not: {$type: "objectId"}}}, "insert"), cursor: {}});
}
// What was inserted from the moment in the file on, straight from the oplog: the sooner it is there, the sooner others'
// updates find it. The step after this one sets it to what others left. Counters are raised, not joined.
async function joinInserted(ns, uuid, file, target, paths) {
  const [t, i] = fs.readFileSync(file, "utf8").split(":").map(Number);
  const seen = shell.EJSON.parse(JSON.stringify({v: {$timestamp: {t: t, i: i}}})).v;
  const stages = [{$match: {ts: {$gte: seen}, ns: ns, ui: uuid, op: {$in: ["i", "d"]}}}, {$sort: {ts: 1}},
    {$group: {_id: "$o._id", last: {$last: "$op"}, one: {$last: "$o"}}}, {$match: {last: "i"}}, {$replaceWith: "$one"},
    ...noCounters(paths)];
  const [name, rest] = split(target);
  await write("local", {aggregate: "oplog.rs", cursor: {}, allowDiskUse: true, bypassDocumentValidation: true,
    pipeline: [...stages, {$merge: {into: {db: name, coll: rest}, whenMatched: [{$replaceWith: "$$ROOT"}],
      whenNotMatched: "insert"}}]});
}
async function replaceBy(ns, staging, kept, count, paths, seen) {
  const copy = staging + "_kept";
  const live = await exists(ns);
  const ready = await exists(staging);
  const away = await exists(kept);
  if (live && ready && !away) {
    await mustHold(staging, count, true);
    const [name, rest] = split(ns);
    await write(name, {aggregate: rest, pipeline: [{$out: split(copy)[1]}], cursor: {}});
    const {uuid} = (await infoOf(ns)).info;
    for (const path of paths) {
      await raiseAhead(ns, staging, copy, path);
    }
    await joinInserted(ns, uuid, seen, staging, paths);
    await write("admin", {renameCollection: staging, to: ns, dropTarget: true});
    await joinInserted(ns, uuid, seen, ns, paths);
    await rename(copy, kept);
  } else if (live && !ready && !away && await exists(copy)) {
    await rename(copy, kept);
  } else if (!live && ready && away) {
    await finishReplacing(ns, staging, kept, paths);
  } else if (live && ready && away && await isTorn(ns, staging, kept)) {
    await putTogether(ns, staging, kept, paths);
  } else if (!live || ready || !away) {
    const word = (there) => (there ? " exists" : " does not");
    throw new Error(quoted(ns) + word(live) + ", " + quoted(staging) + word(ready) + ", " + quoted(kept) + word(away)
      + ": that is neither before nor after the replacement. Find out what was created or dropped since."
      + " Nothing was written.");
  }
  for (const path of paths) {
    await copyCounters(kept, ns, path);
  }
}
