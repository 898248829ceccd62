// A repair, a document of a staging collection: {_id, r: wanted, f: [{k, l, r}] fields that differ, l: live,
// x: why left out, c: each unique index that holds a value of it for another document, o: its place behind those}
async function liveInfo(ns) {
  const info = await infoOf(ns);
  if (info === undefined) {
    throw new Error(quoted(ns) + " no longer exists: plan again. Nothing was written.");
  }
  return info;
}
function plainCollation(collation) {
  const plain = {...(collation || {locale: "simple"})};
  delete plain.version;
  return plain;
}
function isSimple(collation) {
  return collation.locale === "simple";
}
async function aggregate(ns, pipeline, collation) {
  const [name, side] = split(ns);
  const options = {cursor: {}, allowDiskUse: true, bypassDocumentValidation: true, collation: collation};
  return (await write(name, {aggregate: side, pipeline: pipeline, ...options})).cursor.firstBatch;
}
const mark = (side, how) => ({$merge: {into: split(side)[1], whenMatched: how, whenNotMatched: "discard"}});
const conflict = (x) => ({$set: {x: x, c: {$concatArrays: [{$ifNull: ["$c", []]}, [x]]}}});
// $merge takes no _id that is null: that document is written by itself.
const OPEN = {$match: {x: {$exists: false}, _id: {$ne: null}}};
const exactly = (value) => shell.EJSON.stringify(value, {relaxed: false});
// One that a unique index keeps out is compared with every other index too: it may only wait where all become free.
const OPEN_OR_KEPT = {$match: {_id: {$ne: null}, $or: [{x: {$exists: false}}, {c: {$exists: true}}]}};
// Leaves out the documents that the stages find; they see each as it is wanted, and say why in x, conflicts in c too.
async function leaveOut(side, stages, collation, among = [OPEN]) {
  const conflicts = among.includes(OPEN_OR_KEPT);
  const pipeline = [...among, {$replaceWith: "$r"}, ...stages];
  if (isSimple(collation)) {
    await aggregate(side, [...pipeline, mark(side, conflicts ? [conflict("$$new.x")] : "merge")], collation);
    return;
  }
  // A $merge compares with the collation of its pipeline: it would mark every repair whose _id is alike.
  const cursor = await collection(side).aggregate(pipeline, {collation: collation, allowDiskUse: true});
  const found = await cursor.toArray();
  const others = found.filter((row) => exactly(row.x.by) !== exactly(row._id));
  const set = (x) => (conflicts ? [conflict({$literal: x})] : {$set: {x: x}});
  const writes = others.map((row) => ({updateOne: {filter: {_id: row._id}, update: set(row.x)}}));
  if (writes.length === 0) {
    return;
  }
  const marked = (await collection(side).bulkWrite(writes, {writeConcern: MAJORITY})).matchedCount;
  if (marked !== writes.length) {
    throw new Error(quoted(side) + ": " + (writes.length - marked) + " documents that must be left out cannot be"
      + " marked: mongosh does not read their _id exactly. Nothing live was written.");
  }
}
// The document in `one` once for each value by which an index holds it, as with the elements of an array; `e` tells an
// empty array from a field that is not there.
function perValue(fields) {
  const parts = fields.flatMap((field) => field.split(".").map((_, at, all) => all.slice(0, at + 1).join(".")));
  const paths = [...new Set(parts)].sort((one, other) => one.length - other.length);
  return paths.flatMap((path) => [
    ...(fields.includes(path) ? [{$set: {["e" + fields.indexOf(path)]: {$eq: ["$one." + path, []]}}}] : []),
    {$unwind: {path: "$one." + path, preserveNullAndEmptyArrays: true}}]);
}
async function leaveOutConflicts(ns, side, index) {
  const fields = Object.keys(index.key);
  const collation = plainCollation(index.collation);
  const held = [{$match: condition(index)}, {$replaceWith: {_id: "$_id", one: "$$ROOT"}}, ...perValue(fields)];
  const key = {};
  fields.forEach((field, at) => {
    key["k" + at] = {$ifNull: ["$one." + field, null]};
    key["e" + at] = "$e" + at;
  });
  const same = Object.entries(key).map(([name, value]) => ({$eq: [value, "$$" + name]}));
  // Under another collation two documents may have an _id that is alike: leaveOut compares them exactly.
  const other = isSimple(collation) ? [{$ne: ["$_id", "$$id"]}] : [];
  const lookup = {from: split(ns)[1], let: {id: "$_id", ...key}, as: "by",
    pipeline: [...held, {$match: {$expr: {$and: [...other, ...same]}}}, {$limit: 2}, {$project: {_id: 1}}]};
  const joins = parseInt(await db.version()) >= 5;
  const join = joins ? {localField: "one." + fields[0], foreignField: fields[0]} : {};
  await leaveOut(side, [...held, {$lookup: {...lookup, ...join}}, {$unwind: "$by"},
    {$project: {x: {index: {$literal: index.name}, by: "$by._id"}}}], collation, [OPEN_OR_KEPT]);
  await leaveOut(side, [...held, {$group: {_id: key, ids: {$push: "$_id"}}},
    {$match: {"ids.1": {$exists: true}}},
    {$project: {_id: 0, id: {$slice: ["$ids", 1, {$size: "$ids"}]}, by: {$first: "$ids"}}}, {$unwind: "$id"},
    ...(isSimple(collation) ? [{$match: {$expr: {$ne: ["$id", "$by"]}}}] : []),
    {$project: {_id: "$id", x: {index: {$literal: index.name}, by: "$by", wanted: {$literal: true}}}}], collation,
    [OPEN_OR_KEPT, {$sort: {x: 1, _id: 1}}]);  // open ones come first
}
// Where the live document that has a value is to be repaired too, and that frees it, the other repair is written after
// that one. In a circle none can be the first.
async function letWait(side, indexes) {
  const fields = new Map(indexes.map((one) => [one.name, Object.keys(one.key).map((field) => field.split(".")[0])]));
  const holders = {from: split(side)[1], localField: "c.by", foreignField: "_id", as: "h"};
  const cursor = await collection(side).aggregate([{$match: {c: {$exists: true}}}, {$lookup: holders},
    {$project: {c: 1, h: {_id: 1, x: 1, c: 1, f: {k: 1}}}}], {collation: {locale: "simple"}, allowDiskUse: true});
  const waiting = new Map((await cursor.toArray()).map((row) => [exactly(row._id), row]));
  const behind = new Map([...waiting.keys()].map((key) => [key, []]));
  const free = [];
  for (const [key, row] of waiting) {
    const moving = new Map(row.h.filter((one) => one.f && (!one.x || one.c)).map((one) => [exactly(one._id), one]));
    const frees = ({index, by, wanted}) => !wanted && moving.has(exactly(by))
      && moving.get(exactly(by)).f.some((field) => fields.get(index).includes(field.k));
    row.first = new Set(row.c.map((one) => exactly(one.by)).filter((by) => waiting.has(by)));
    row.stays = row.c.find((one) => !frees(one));
    row.first.forEach((by) => behind.get(by).push(key));
    if (!row.stays && row.first.size === 0) { free.push(key); }
  }
  for (const key of free) {  // grows while it is read
    for (const other of behind.get(key)) {
      const row = waiting.get(other);
      row.first.delete(key);
      if (!row.stays && row.first.size === 0) { free.push(other); }
    }
  }
  const place = new Map(free.map((key, at) => [key, {$set: {o: at}, $unset: {x: ""}}]));
  const leftOut = (row) => ({$set: {x: row.stays || {...row.c[0], waits: true}}});
  const changed = [...waiting].filter(([, row]) => !row.stays || row.c.length > 1);  // x is the last of c
  const writes = changed.map(([key, row]) => ({updateOne: {filter: {_id: row._id},
    update: place.get(key) || leftOut(row)}}));
  if (writes.length > 0) {
    await collection(side).bulkWrite(writes, {writeConcern: MAJORITY});
  }
  return waiting.size;
}
// An _id that the live collation takes for another one would replace that document.
async function leaveOutAlikeIds(ns, side, collation) {
  if (!isSimple(collation)) {
    await leaveOut(side, [{$lookup: {from: split(ns)[1], localField: "_id", foreignField: "_id", as: "by"}},
      {$unwind: "$by"}, {$project: {x: {index: "_id_", by: "$by._id"}}}], collation);
  }
}
async function leaveOutExpired(side, index) {
  const field = Object.keys(index.key)[0];
  const before = await expiredBefore(index.expireAfterSeconds);
  await leaveOut(side, [{$match: {$and: [condition(index), {[field]: {$lte: before, $type: "date"}}]}},
    {$project: {x: {expired: {$literal: index.name}}}}], {locale: "simple"});
}
// What comes back to a capped collection is its newest: where there is no room, the server removes the oldest for it.
async function hasRoom(ns, side, options) {
  const sum = (document) => ({$group: {_id: null, n: {$sum: 1}, bytes: {$sum: {$bsonSize: document}}}});
  const held = await (await collection(ns).aggregate([sum("$$ROOT")])).toArray();
  const open = await aggregate(side, [OPEN, {$match: {f: {$exists: false}}}, sum("$r")], {locale: "simple"});
  const all = [...held, ...open];
  const one = nullIdOf(ns);
  if (one !== undefined && !one.was) { all.push({n: 1, bytes: exactly(one.wanted).length}); }
  const total = (name) => all.reduce((before, row) => before + Number(row[name]), 0);
  return total("bytes") <= Number(options.size) && (!options.max || total("n") <= Number(options.max));
}
async function report(ns, what, rows) {
  if (rows.length > 0) {
    const ids = rows.slice(0, 5).map((row) => quoted(shell.EJSON.stringify(row._id, {relaxed: false})));
    await shell.print(quoted(ns) + ": " + rows.length + " documents " + what + ", such as _id " + ids.join(", "));
  }
}
// Before anything live is written: what would break a rule of the live collection is left out, and reported. Returns
// how many repairs a unique index keeps out for now.
async function reviewRepairs(ns, side, indexes, ordered = true, anyRoom = false) {
  const info = await liveInfo(ns);
  if (nullIdOf(ns) !== undefined) {
    await shell.print(quoted(ns) + ": the document whose _id is null is written by itself");
  }
  if (!await exists(side)) {
    await shell.print(quoted(ns) + ": nothing more to write");
    return 0;
  }
  const live = await collection(ns).getIndexes();
  const lost = indexes.filter((one) => !live.some((other) => other.name === one.name));
  const all = [...live, ...lost].filter((one) => one.name !== "_id_");
  if (info.options.clusteredIndex && info.options.expireAfterSeconds !== undefined) {
    all.push({key: {_id: 1}, name: "_id_ of the collection", expireAfterSeconds: info.options.expireAfterSeconds});
  }
  const copy = collection(side);
  await copy.updateMany({c: {$exists: true}}, {$unset: {c: "", o: "", x: ""}}, {writeConcern: MAJORITY});
  await leaveOutAlikeIds(ns, side, plainCollation(info.options.collation));
  for (const one of all.filter((index) => index.expireAfterSeconds !== undefined)) {
    await leaveOutExpired(side, one);
  }
  if (info.options.capped && !anyRoom && !await hasRoom(ns, side, info.options)) {
    await copy.updateMany({...OPEN.$match, f: {$exists: false}}, {$set: {x: {full: true}}}, {writeConcern: MAJORITY});
  }
  const unique = all.filter((index) => index.unique);
  for (const one of unique) {
    await leaveOutConflicts(ns, side, one);
  }
  const kept = ordered ? await letWait(side, unique) : 0;
  const found = await (await copy.aggregate([{$match: {x: {$exists: true}}}, {$project: {x: 1}}])).toArray();
  for (const one of all) {
    await report(ns, "are left out: index " + quoted(one.name) + " holds their value for another document",
      found.filter((row) => row.x.index === one.name));
    await report(ns, "are left out: TTL index " + quoted(one.name) + " would remove them within a minute",
      found.filter((row) => row.x.expired === one.name));
  }
  await report(ns, "are left out: the capped collection has no room for all that are missing, and would remove its oldest",
    found.filter((row) => row.x.full));
  await report(ns, "are left out: the collation takes their _id for another one",
    found.filter((row) => row.x.index === "_id_"));
  if (info.options.validator) {
    await report(ns, "do not satisfy the validator and are still written (bypassDocumentValidation)",
      await (await copy.aggregate([OPEN, {$replaceWith: "$r"}, {$match: {$nor: [info.options.validator]}},
        {$project: {_id: 1}}], {collation: plainCollation(info.options.collation)})).toArray());
  }
  for (const one of lost) {
    await shell.print(quoted(ns) + ": the index " + quoted(one.name)
      + " was lost with the collection; it is built again");
  }
  const inserted = await copy.countDocuments({...OPEN.$match, f: {$exists: false}});
  const changed = await copy.countDocuments({...OPEN.$match, f: {$exists: true}});
  await shell.print(quoted(ns) + ": " + inserted + " documents to insert, " + changed + " to set back, "
    + found.length + " left out");
  return kept;
}
// A field is set where it still has the value that the accident left: what others wrote since stays. `key` is what
// names and values are compared by besides being equal: under a collation, equal texts may differ.
function repairStages(key) {
  const same = (one, other) => ({$and: [{$eq: [one, other]}, {$eq: [{$type: one}, {$type: other}]},
    {$eq: [key(one), key(other)]}]});
  const fix = {$first: {$filter: {input: "$$new.f", as: "f",
    cond: {$and: [same("$$f.k", "$$now.k"), same("$$f.l", "$$now.v")]}}}};
  const set = {$map: {input: "$$live", as: "now", in: {$let: {vars: {fix: fix},
    in: {$cond: [{$eq: [{$type: "$$fix"}, "missing"]}, "$$now", {k: "$$now.k", v: "$$fix.r"}]}}}}};
  const add = {$map: {input: {$filter: {input: "$$new.f", as: "f", cond: {$and: [{$eq: [{$type: "$$f.l"}, "missing"]},
    {$not: {$in: [key("$$f.k"), "$$names"]}}]}}}, as: "f", in: {k: "$$f.k", v: "$$f.r"}}};
  const rest = {$filter: {input: {$concatArrays: [set, add]}, as: "one", cond: {$ne: [{$type: "$$one.v"}, "missing"]}}};
  const whole = {$cond: [same("$$ROOT", "$$new.l"), "$$new.r", {$arrayToObject: rest}]};
  // A pipeline that changes a document with one field name twice drops a value, or ends the server.
  const twice = {$ne: [{$size: "$$names"}, {$size: {$setUnion: ["$$names"]}}]};
  const names = {$map: {input: "$$live", as: "now", in: key("$$now.k")}};
  return [{$replaceWith: {$let: {vars: {live: {$objectToArray: "$$ROOT"}},
    in: {$let: {vars: {names: names}, in: {$cond: [twice, "$$ROOT", whole]}}}}}}];
}
// A collection has one document at most whose _id is null; each is a line of this file.
function nullIdOf(ns) {
  const rows = fs.readFileSync("history/null-ids.jsonl", "utf8").split("\n").filter((row) => row);
  return rows.map((row) => shell.EJSON.parse(row, {relaxed: false})).find((row) => row.ns === ns);
}
async function writeNullId(ns, side, anyRoom) {
  const one = nullIdOf(ns);
  if (one === undefined) {
    return;
  }
  const [name, rest] = split(ns);
  const update = {q: {_id: null, $expr: {$eq: ["$$ROOT", {$literal: one.was}]}},
    u: [{$replaceWith: {$literal: one.wanted}}], collation: {locale: "simple"}};
  const {options} = await liveInfo(ns);
  if (!one.was && options.capped && !anyRoom && !await hasRoom(ns, side, options)) {
    await shell.print(quoted(ns) + ": the document whose _id is null is left out: the capped collection has no room");
    return;
  }
  const change = one.was ? {update: rest, updates: [update]} : {insert: rest, documents: [one.wanted]};
  const result = await answer(name, {...change, bypassDocumentValidation: true, writeConcern: MAJORITY});
  const problem = result.ok ? (result.writeErrors || [])[0] || result.writeConcernError : result;
  await shell.print(quoted(ns) + ": the document whose _id is null "
    + (problem ? "is left out: " + quoted(String(problem.errmsg)) : "is written by itself"));
}
// The codes with which a server refuses one document for an index: a value that is taken, two arrays, a place or a
// language that is none, an array in a hashed index. An index may be newer than the document.
const REFUSALS = [11000, 171, 13027, 16755, 16766, 17262];
// What may be written is not written again: others may have deleted it. catch-up.sh works out the rest, and
// writes each once.
const CATCHES_UP = process.env.CATCH_UP !== undefined;
const NOT_INSERTED = {$match: {i: {$exists: false}}};
// Returns a function that marks the repairs whose documents anyone has inserted since it was called last. The server
// waits until what precedes can be read in the oplog.
async function insertedMarker(ns, side) {
  const newest = async () => (await run("admin", {hello: 1})).lastWrite.opTime.ts;
  const {uuid} = (await liveInfo(ns)).info;
  const [name, rest] = split(side);
  let since = await newest();
  return async () => {
    const until = await newest();
    const inserted = {$match: {ts: {$gte: since}, ui: uuid, op: "i", "o._id": {$ne: null}}};
    await write("local", {aggregate: "oplog.rs", cursor: {}, pipeline: [inserted, {$replaceWith: {_id: "$o._id"}},
      {$merge: {into: {db: name, coll: rest}, whenMatched: [{$set: {i: true}}], whenNotMatched: "discard"}}]});
    since = until;
  };
}
// Writes `count` of the repairs that `select` gives in order, from one on: in halves where an index refuses some, down
// to those that it refuses. Returns where these are, and why.
async function writeHalves(side, select, last, collation, markInserted, from, count) {
  try {
    await aggregate(side, [...select, {$skip: from}, {$limit: count}, NOT_INSERTED, ...last], collation);
    return [];
  } catch (error) {
    if (!REFUSALS.includes(error.code)) { throw error; }
    if (count === 1) { return [[from, error.message.split(" caused by :: ").pop().slice(0, 300)]]; }
    await markInserted();
    const half = Math.floor(count / 2);
    return [...await writeHalves(side, select, last, collation, markInserted, from, half),
      ...await writeHalves(side, select, last, collation, markInserted, from + half, count - half)];
  }
}
async function writeAllButRefused(ns, side, markInserted, select, last, collation) {
  const [all] = await aggregate(side, [...select, {$count: "n"}], collation);
  const refused = all ? await writeHalves(side, select, last, collation, markInserted, 0, all.n) : [];
  for (const [at, why] of refused.reverse()) {  // what is left out is not selected: those before it keep their places
    const one = [...select, {$skip: at}, {$limit: 1}];
    await report(ns, "are left out: " + quoted(why), await aggregate(side, [...one, {$project: {_id: 1}}], collation));
    await aggregate(side, [...one, {$project: {x: {refused: {$literal: why}}}}, mark(side, "merge")], collation);
  }
}
async function writeRepairs(ns, side, done) {
  const {options} = await liveInfo(ns);
  const collation = plainCollation(options.collation);
  const [into, staged] = [split(ns)[1], split(side)];
  // The oplog then tells what others wrote before and after from the repairs.
  const updates = await collection(side).countDocuments({x: {$exists: false}, f: {$exists: true}});
  const note = async (change) => await write(staged[0], {update: staged[1], updates: [{q: {}, u: change}]});
  await note({$set: {b: new Date(), n: updates}});
  if (!done.alone) {
    await writeNullId(ns, side, done.anyRoom);
    done.alone = true;
  }
  const plainly = (select, last, by) => aggregate(side, [...select, ...last], by);
  const put = done.inHalves ? (...what) => writeAllButRefused(ns, side, done.markInserted, ...what) : plainly;
  const atOnce = {$match: {o: {$exists: false}}};
  const later = [{$match: {o: {$exists: true}}}, {$sort: {o: 1}}];
  // Descending: a key that was just deleted is looked up by walking over all deleted neighbours up to a live one. But a
  // capped collection keeps the order in which documents come, and removes the first of them first.
  const insert = async (which) => {
    const merge = (matched, how) => how([OPEN, {$match: {f: {$exists: false}}}, ...which],
      [{$replaceWith: "$r"}, {$merge: {into: into, whenMatched: matched, whenNotMatched: "insert"}}], collation);
    // keepExisting sorts the fields, and takes a dot in a name for a path.
    await (CATCHES_UP ? merge([{$replaceWith: "$$ROOT"}], put) : merge("fail", plainly));
  };
  if (!done.inserts) {
    await insert([atOnce, {$sort: {_id: options.capped ? 1 : -1}}]);
    done.inserts = true;
  }
  // A hash is of the bytes of a text, under any collation. Servers before 6.0 have none: there the _id is found without
  // its index, which has a collation.
  const hashed = !isSimple(collation) && parseInt(await db.version()) >= 6;
  const stages = repairStages((value) => (hashed ? {$toHashedIndexKey: value} : value));
  const inOrder = done.inHalves ? [{$sort: {_id: 1}}] : [];
  for (const which of [[atOnce, ...inOrder], later]) {
    await put([OPEN, {$match: {f: {$exists: true}}}, ...which],
      [{$merge: {into: into, whenMatched: stages, whenNotMatched: "discard"}}], hashed ? collation : {locale: "simple"});
  }
  await insert(later);
  await note({$unset: {n: ""}});
}
// The repairs are dropped once all of them are written; those that are left out stay, with the reason.
async function mergeRepairs(ns, side, indexes, anyRoom = false) {
  const review = async (ordered) => await reviewRepairs(ns, side, indexes, ordered, anyRoom);
  const [name, rest] = split(side);
  const again = async () => {
    await shell.print(quoted(ns) + ": catch-up.sh works out what is left");
    await write(name, {drop: rest});
  };
  if (await collection(side).countDocuments({b: {$exists: true}}) > 0) {  // by a stopped run
    return await again();
  }
  let kept = await review(true);
  if (!await exists(side)) {
    return;
  }
  const done = {anyRoom: anyRoom, markInserted: await insertedMarker(ns, side)};
  let ordered = true, left = true;
  while (left) {
    try {
      await writeRepairs(ns, side, done);
      left = false;
    } catch (error) {
      if (!REFUSALS.includes(error.code) || done.inHalves) { throw error; }
      if (!CATCHES_UP) { return await again(); }
      await done.markInserted();
      await collection(side).deleteMany({i: true}, {writeConcern: MAJORITY});
      // A conflict came up since the review, or is none that it finds. Those that wait are given up once that brings none on.
      done.inHalves = !ordered;
      const now = await review(true);
      ordered = now < kept;
      kept = ordered ? now : await review(false);
    }
  }
  if (await collection(side).countDocuments({x: {$exists: true}}) === 0) {
    await write(name, {drop: rest});
  }
}
// What others wrote since the accident joins the copy; or, once the names have changed, the collection.
async function carryOver(ns, staging, kept, since, count) {
  const early = await exists(staging) && !(await exists(ns) && await exists(kept));
  if (early) {
    await mustHold(staging, count, true);
  }
  await mergeRepairs(early ? staging : ns, since, [], true);  // newer than what came back: that gives way
}
// The definitions of a collection that was made again without them.
async function restoreDefinitions(ns, indexes, options) {
  const [name, rest] = split(ns);
  const live = (await collection(ns).getIndexes()).map((one) => one.name);
  for (const one of indexes.filter((index) => !live.includes(index.name))) {
    const result = await answer(name, {createIndexes: rest, indexes: [one], writeConcern: MAJORITY});
    if (!result.ok) {
      await shell.print(quoted(ns) + ": the index " + quoted(one.name) + " cannot be built: "
        + quoted(String(result.errmsg)));
    }
  }
  if (Object.keys(options).length > 0) {
    await write(name, {collMod: rest, ...options});
  }
}
