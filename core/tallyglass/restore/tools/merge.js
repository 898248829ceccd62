// A repair, a document of a staging collection: {_id, r: wanted, f: [{k, l, r}] fields that differ, l: live, x: why left out}
async function liveInfo(ns) {
  const [name, rest] = split(ns);
  const info = (await db.getSiblingDB(name).getCollectionInfos({name: rest}))[0];
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
const mark = (side) => ({$merge: {into: split(side)[1], whenMatched: "merge", whenNotMatched: "discard"}});
// $merge takes no _id that is null: that document is written by itself.
const OPEN = {$match: {x: {$exists: false}, _id: {$ne: null}}};
const exactly = (value) => shell.EJSON.stringify(value, {relaxed: false});
// Leaves out the documents that the stages find; they see each as it is wanted, and say why in x.
async function leaveOut(side, stages, collation) {
  const pipeline = [OPEN, {$replaceWith: "$r"}, ...stages];
  if (isSimple(collation)) {
    await aggregate(side, [...pipeline, mark(side)], collation);
    return;
  }
  // A $merge compares with the collation of its pipeline: it would mark every repair whose _id is alike.
  const cursor = await collection(side).aggregate(pipeline, {collation: collation, allowDiskUse: true});
  const found = await cursor.toArray();
  const others = found.filter((row) => exactly(row.x.by) !== exactly(row._id));
  const writes = others.map((row) => ({updateOne: {filter: {_id: row._id}, update: {$set: {x: row.x}}}}));
  if (writes.length === 0) {
    return;
  }
  const marked = (await collection(side).bulkWrite(writes, {writeConcern: MAJORITY})).matchedCount;
  if (marked !== writes.length) {
    throw new Error(quoted(side) + ": " + (writes.length - marked) + " documents that must be left out cannot be"
      + " marked: mongosh does not read their _id exactly. Nothing live was written.");
  }
}
async function leaveOutConflicts(ns, side, index) {
  const name = (field) => ({$ifNull: ["$" + field, null]});
  const fields = Object.keys(index.key);
  const joins = parseInt(await db.version()) >= 5;
  const compared = joins ? fields.slice(1) : fields;
  const collation = plainCollation(index.collation);
  const given = {id: "$_id"};
  compared.forEach((field, at) => { given["k" + at] = name(field); });
  const same = compared.map((field, at) => ({$eq: [name(field), "$$k" + at]}));
  // Under another collation two documents may have an _id that is alike: leaveOut compares them exactly.
  const other = isSimple(collation) ? [{$ne: ["$_id", "$$id"]}] : [];
  const lookup = {from: split(ns)[1], let: given, as: "by", pipeline: [{$match: condition(index)},
    {$match: {$expr: {$and: [...other, ...same]}}}, {$limit: 2}, {$project: {_id: 1}}]};
  const join = joins ? {localField: fields[0], foreignField: fields[0]} : {};
  await leaveOut(side, [{$match: condition(index)}, {$lookup: {...lookup, ...join}}, {$unwind: "$by"},
    {$project: {x: {index: {$literal: index.name}, by: "$by._id"}}}], collation);
  const key = {};
  fields.forEach((field, at) => { key["k" + at] = name(field); });
  await leaveOut(side, [{$match: condition(index)}, {$sort: {_id: 1}}, {$group: {_id: key, ids: {$push: "$_id"}}},
    {$match: {"ids.1": {$exists: true}}},
    {$project: {_id: 0, id: {$slice: ["$ids", 1, {$size: "$ids"}]}, by: {$first: "$ids"}}}, {$unwind: "$id"},
    {$project: {_id: "$id", x: {index: {$literal: index.name}, by: "$by"}}}], collation);
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
  const before = new Date(Date.now() - Number(index.expireAfterSeconds) * 1000);
  await leaveOut(side, [{$match: {$and: [condition(index), {[field]: {$lte: before, $type: "date"}}]}},
    {$project: {x: {expired: {$literal: index.name}}}}], {locale: "simple"});
}
async function report(ns, what, rows) {
  if (rows.length > 0) {
    const ids = rows.slice(0, 5).map((row) => quoted(shell.EJSON.stringify(row._id, {relaxed: false})));
    await shell.print(quoted(ns) + ": " + rows.length + " documents " + what + ", such as _id " + ids.join(", "));
  }
}
// Before anything live is written: what would break a rule of the live collection is left out, and reported.
async function reviewRepairs(ns, side, indexes) {
  const info = await liveInfo(ns);
  if (nullIdOf(ns) !== undefined) {
    await shell.print(quoted(ns) + ": the document whose _id is null is written by itself");
  }
  if (!await exists(side)) {
    await shell.print(quoted(ns) + ": nothing more to write");
    return;
  }
  const live = await collection(ns).getIndexes();
  const lost = indexes.filter((one) => !live.some((other) => other.name === one.name));
  const all = [...live, ...lost].filter((one) => one.name !== "_id_");
  if (info.options.clusteredIndex && info.options.expireAfterSeconds !== undefined) {
    all.push({key: {_id: 1}, name: "_id_ of the collection", expireAfterSeconds: info.options.expireAfterSeconds});
  }
  const copy = collection(side);
  await leaveOutAlikeIds(ns, side, plainCollation(info.options.collation));
  for (const one of all) {
    if (one.unique) { await leaveOutConflicts(ns, side, one); }
    if (one.expireAfterSeconds !== undefined) { await leaveOutExpired(side, one); }
  }
  const found = await (await copy.aggregate([{$match: {x: {$exists: true}}}, {$project: {x: 1}}])).toArray();
  for (const one of all) {
    await report(ns, "are left out: index " + quoted(one.name) + " holds their value for another document",
      found.filter((row) => row.x.index === one.name));
    await report(ns, "are left out: TTL index " + quoted(one.name) + " would remove them within a minute",
      found.filter((row) => row.x.expired === one.name));
  }
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
async function writeNullId(ns) {
  const one = nullIdOf(ns);
  if (one === undefined) {
    return;
  }
  const [name, rest] = split(ns);
  const update = {q: {_id: null, $expr: {$eq: ["$$ROOT", {$literal: one.was}]}},
    u: [{$replaceWith: {$literal: one.wanted}}], collation: {locale: "simple"}};
  const change = one.was ? {update: rest, updates: [update]} : {insert: rest, documents: [one.wanted]};
  const result = await db.getSiblingDB(name).runCommand(
    {...change, bypassDocumentValidation: true, writeConcern: MAJORITY});
  const problem = result.ok ? (result.writeErrors || [])[0] || result.writeConcernError : result;
  await shell.print(quoted(ns) + ": the document whose _id is null "
    + (problem ? "is left out: " + quoted(String(problem.errmsg)) : "is written by itself"));
}
async function writeRepairs(ns, side) {
  const collation = plainCollation((await liveInfo(ns)).options.collation);
  const [into, staged] = [split(ns)[1], split(side)];
  // The oplog then tells what others wrote before and after from the repairs.
  const updates = await collection(side).countDocuments({x: {$exists: false}, f: {$exists: true}});
  const note = async (change) => await write(staged[0], {update: staged[1], updates: [{q: {}, u: change}]});
  await note({$set: {b: new Date(), n: updates}});
  await writeNullId(ns);
  // Descending: a key that was just deleted is looked up by walking over all deleted neighbours up to a live one.
  const insert = (matched) => aggregate(side, [OPEN, {$match: {f: {$exists: false}}}, {$sort: {_id: -1}},
    {$replaceWith: "$r"}, {$merge: {into: into, whenMatched: matched, whenNotMatched: "insert"}}], collation);
  try {
    await insert("fail");
  } catch (error) {
    if (error.code !== 11000) { throw error; }
    // Not keepExisting: it sorts the fields, and takes a dot in a name for a path.
    await insert([{$replaceWith: "$$ROOT"}]);
  }
  // A hash is of the bytes of a text, under any collation. Servers before 6.0 have none: there the _id is found without
  // its index, which has a collation.
  const hashed = !isSimple(collation) && parseInt(await db.version()) >= 6;
  const stages = repairStages((value) => (hashed ? {$toHashedIndexKey: value} : value));
  await aggregate(side, [OPEN, {$match: {f: {$exists: true}}},
    {$merge: {into: into, whenMatched: stages, whenNotMatched: "discard"}}], hashed ? collation : {locale: "simple"});
  await note({$unset: {n: ""}});
}
// The repairs are dropped once all of them are written; those that are left out stay, with the reason.
async function mergeRepairs(ns, side, indexes) {
  await reviewRepairs(ns, side, indexes);
  if (!await exists(side)) {
    return;
  }
  try {
    await writeRepairs(ns, side);
  } catch (error) {
    if (error.code !== 11000) { throw error; }
    // A conflict came up since the review.
    await reviewRepairs(ns, side, indexes);
    await writeRepairs(ns, side);
  }
  if (await collection(side).countDocuments({x: {$exists: true}}) === 0) {
    const [name, rest] = split(side);
    await write(name, {drop: rest});
  }
}
// What others wrote since the accident joins the copy; or, once the names have changed, the collection.
async function carryOver(ns, staging, kept, since, count) {
  const early = await exists(staging) && !(await exists(ns) && await exists(kept));
  if (early) {
    await mustHold(staging, count, true);
  }
  await mergeRepairs(early ? staging : ns, since, []);
}
// The definitions of a collection that was made again without them.
async function restoreDefinitions(ns, indexes, options) {
  const [name, rest] = split(ns);
  const home = db.getSiblingDB(name);
  const live = (await collection(ns).getIndexes()).map((one) => one.name);
  for (const one of indexes.filter((index) => !live.includes(index.name))) {
    const result = await home.runCommand({createIndexes: rest, indexes: [one], writeConcern: MAJORITY});
    if (!result.ok) {
      await shell.print(quoted(ns) + ": the index " + quoted(one.name) + " cannot be built: "
        + quoted(String(result.errmsg)));
    }
  }
  if (Object.keys(options).length > 0) {
    await write(name, {collMod: rest, ...options});
  }
}
