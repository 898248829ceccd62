function must(result) {
  if (!result.ok || (result.writeErrors && result.writeErrors.length)) {
    throw Object.assign(new Error(JSON.stringify(result)), {code: result.code});
  }
  return result;
}
function gone(name, body) {
  const missing = [26, 27];
  try {
    must(db.getSiblingDB(name).runCommand(body));
  } catch (error) {
    if (!missing.includes(error.code)) { throw error; }
  }
}
function split(ns) {
  const dot = ns.indexOf(".");
  return [ns.slice(0, dot), ns.slice(dot + 1)];
}
function shown(ns) {
  return JSON.stringify(ns).replace(/[^ -~]/g, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}
function mustNotBeSet(name) {
  if (must(db.getSiblingDB("admin").runCommand({hello: 1})).setName === name) {
    throw new Error("This is a member of the live set, not the spare. Nothing was written.");
  }
}
const MARKS = () => db.getSiblingDB("admin").getCollection("tallyglass_spare");
function markSpare(mark) {
  MARKS().updateOne({_id: mark}, {$set: {used: true}}, {upsert: true});
}
function emptyMarked(mark, opener) {
  if (MARKS().countDocuments({_id: mark}) !== 1) {
    return;
  }
  const listed = must(db.getSiblingDB("admin").runCommand({listDatabases: 1, nameOnly: true})).databases;
  for (const name of listed.map((one) => one.name).filter((one) => !["admin", "config", "local"].includes(one))) {
    const held = db.getSiblingDB(name).getCollectionNames();
    if (held.some((one) => one !== opener && one !== "system.views")) {
      must(db.getSiblingDB(name).runCommand({dropDatabase: 1}));
    }
  }
}
function isThere(ns) {
  const [name, collection] = split(ns);
  return db.getSiblingDB(name).getCollectionInfos({name: collection}, {nameOnly: true}).length === 1;
}
function mustHold(ns, count) {
  if (!isThere(ns)) {
    throw new Error(shown(ns) + " is not there: put it back there first. Nothing was written.");
  }
  const [name, collection] = split(ns);
  const found = count === null ? null : db.getSiblingDB(name).getCollection(collection).countDocuments({});
  if (found !== count) {
    throw new Error(shown(ns) + " holds " + found + " documents, not the " + count + " computed. Nothing was written.");
  }
}
function dropLike(name, pattern) {
  const where = db.getSiblingDB(name);
  for (const one of where.getCollectionNames()) {
    if (new RegExp(pattern).test(one)) {
      where.getCollection(one).drop();
    }
  }
}
function moved(result, missing) {
  if (result.matchedCount + (result.upsertedCount || 0) < 1) {
    throw new Error(missing);
  }
}
// --- repairs beside the live collection: {_id, r: wanted, f: [{k, l, r}] the fields that differ, l: live, x: why left out}

function liveInfo(ns) {
  const [name, collection] = split(ns);
  const info = db.getSiblingDB(name).getCollectionInfos({name: collection})[0];
  if (info === undefined) {
    throw new Error(shown(ns) + " is not there any more: plan again. Nothing was written.");
  }
  return info;
}
function plainCollation(collation) {
  const plain = {...(collation || {locale: "simple"})};
  delete plain.version;
  return plain;
}
function aggregate(ns, pipeline, collation) {
  const body = {pipeline: pipeline, cursor: {}, allowDiskUse: true, bypassDocumentValidation: true, collation: collation};
  const [name, collection] = split(ns);
  return must(db.getSiblingDB(name).runCommand({aggregate: collection, ...body})).cursor.firstBatch;
}
const OPEN = {$match: {x: {$exists: false}}};
// Leaves out the documents that the stages find; they see each as it is wanted, and say why in x.
function leaveOut(side, stages, collation) {
  const mark = {$merge: {into: split(side)[1], whenMatched: "merge", whenNotMatched: "discard"}};
  aggregate(side, [OPEN, {$replaceWith: "$r"}, ...stages, mark], collation);
}
function condition(index) {
  const some = Object.keys(index.key).map((field) => ({[field]: {$exists: true}}));
  return {$and: [index.partialFilterExpression || {}, index.sparse ? {$or: some} : {}]};
}
function leaveOutConflicts(ns, side, index) {
  const name = (field) => ({$ifNull: ["$" + field, null]});
  const fields = Object.keys(index.key);
  const joins = parseInt(db.version()) >= 5;
  const compared = joins ? fields.slice(1) : fields;
  const given = {id: "$_id"};
  compared.forEach((field, at) => { given["k" + at] = name(field); });
  const same = compared.map((field, at) => ({$eq: [name(field), "$$k" + at]}));
  const lookup = {from: split(ns)[1], let: given, as: "by", pipeline: [{$match: condition(index)},
    {$match: {$expr: {$and: [{$ne: ["$_id", "$$id"]}, ...same]}}}, {$limit: 1}, {$project: {_id: 1}}]};
  const join = joins ? {localField: fields[0], foreignField: fields[0]} : {};
  leaveOut(side, [{$match: condition(index)}, {$lookup: {...lookup, ...join}}, {$match: {by: {$ne: []}}},
    {$project: {x: {index: {$literal: index.name}, by: {$arrayElemAt: ["$by._id", 0]}}}}], plainCollation(index.collation));
  const key = {};
  fields.forEach((field, at) => { key["k" + at] = name(field); });
  leaveOut(side, [{$match: condition(index)}, {$sort: {_id: 1}}, {$group: {_id: key, ids: {$push: "$_id"}}},
    {$match: {"ids.1": {$exists: true}}},
    {$project: {_id: 0, id: {$slice: ["$ids", 1, {$size: "$ids"}]}, by: {$arrayElemAt: ["$ids", 0]}}}, {$unwind: "$id"},
    {$project: {_id: "$id", x: {index: {$literal: index.name}, by: "$by"}}}], plainCollation(index.collation));
}
// An _id that the live collation takes for another one would replace that document.
function leaveOutAlikeIds(ns, side, collation) {
  if (collation.locale === "simple") {
    return;
  }
  const into = {into: split(side)[1], whenMatched: "merge", whenNotMatched: "discard"};
  aggregate(side, [OPEN, {$lookup: {from: split(ns)[1], localField: "_id", foreignField: "_id", as: "by"}},
    {$project: {c: "$by._id"}}, {$merge: into}], collation);
  aggregate(side, [OPEN, {$match: {"c.0": {$exists: true}, $expr: {$not: {$in: ["$_id", "$c"]}}}},
    {$project: {x: {index: "_id_", by: {$arrayElemAt: ["$c", 0]}}}}, {$merge: into}], {locale: "simple"});
}
function leaveOutExpired(side, index) {
  const field = Object.keys(index.key)[0];
  const before = new Date(Date.now() - Number(index.expireAfterSeconds) * 1000);
  leaveOut(side, [{$match: {$and: [condition(index), {[field]: {$lte: before, $type: "date"}}]}},
    {$project: {x: {expired: {$literal: index.name}}}}], {locale: "simple"});
}
function tell(ns, what, rows) {
  if (rows.length > 0) {
    const ids = rows.slice(0, 5).map((row) => shown(EJSON.stringify(row._id, {relaxed: false})));
    print(shown(ns) + ": " + rows.length + " documents " + what + ", such as _id " + ids.join(", "));
  }
}
// Before anything live is written: what would break a rule of the live collection is left out, and said.
function look(ns, side, indexes) {
  const info = liveInfo(ns);
  if (!isThere(side)) {
    print(shown(ns) + ": nothing to write");
    return;
  }
  const [name, collection] = split(ns);
  const live = db.getSiblingDB(name).getCollection(collection).getIndexes();
  const lost = indexes.filter((one) => !live.some((other) => other.name === one.name));
  const all = [...live, ...lost].filter((one) => one.name !== "_id_");
  // $merge takes no such _id: one document of that kind would stop all of them.
  db.getSiblingDB(name).getCollection(split(side)[1]).updateMany({_id: {$type: ["null", "undefined"]}},
    {$set: {x: {index: "_id_", by: null}}});
  leaveOutAlikeIds(ns, side, plainCollation(info.options.collation));
  all.filter((one) => one.unique).forEach((one) => leaveOutConflicts(ns, side, one));
  all.filter((one) => one.expireAfterSeconds !== undefined).forEach((one) => leaveOutExpired(side, one));
  const copy = db.getSiblingDB(name).getCollection(split(side)[1]);
  const found = copy.aggregate([{$match: {x: {$exists: true}}}, {$project: {x: 1}}]).toArray();
  for (const one of all) {
    tell(ns, "are left out: index " + shown(one.name) + " holds their value for another document",
      found.filter((row) => row.x.index === one.name));
    tell(ns, "are left out: TTL index " + shown(one.name) + " would remove them within a minute",
      found.filter((row) => row.x.expired === one.name));
  }
  tell(ns, "are left out: the collation takes their _id for another one", found.filter((row) => row.x.index === "_id_"));
  if (info.options.validator) {
    tell(ns, "do not satisfy the validator and are written all the same (bypassDocumentValidation)",
      copy.aggregate([OPEN, {$replaceWith: "$r"}, {$match: {$nor: [info.options.validator]}}, {$project: {_id: 1}}]).toArray());
  }
  for (const one of lost) {
    print(shown(ns) + ": the index " + shown(one.name) + " was lost with the collection; it is built again");
  }
  print(shown(ns) + ": " + copy.countDocuments({x: {$exists: false}}) + " documents to write, " + found.length + " left out");
}
// A field is set where it still has the value that the accident left: what others wrote since stays.
const FIX = {$first: {$filter: {input: "$$new.f", as: "f",
  cond: {$and: [{$eq: ["$$f.k", "$$now.k"]}, {$eq: ["$$f.l", "$$now.v"]}]}}}};
const SET = {$map: {input: {$objectToArray: "$$ROOT"}, as: "now", in: {$let: {vars: {fix: FIX},
  in: {$cond: [{$eq: [{$type: "$$fix"}, "missing"]}, "$$now", {k: "$$now.k", v: "$$fix.r"}]}}}}};
const ADD = {$map: {input: {$filter: {input: "$$new.f", as: "f", cond: {$and: [{$eq: [{$type: "$$f.l"}, "missing"]},
  {$not: {$in: ["$$f.k", {$map: {input: {$objectToArray: "$$ROOT"}, as: "now", in: "$$now.k"}}]}}]}}},
  as: "f", in: {k: "$$f.k", v: "$$f.r"}}};
const KEPT = {$filter: {input: {$concatArrays: [SET, ADD]}, as: "one", cond: {$ne: [{$type: "$$one.v"}, "missing"]}}};
const REPAIR = [{$replaceWith: {$cond: [{$eq: ["$$ROOT", "$$new.l"]}, "$$new.r", {$arrayToObject: KEPT}]}}];
function mergeRepairs(ns, side) {
  const collation = plainCollation(liveInfo(ns).options.collation);
  const into = split(ns)[1];
  if (!isThere(side)) {
    return;
  }
  // Descending: a key that was just deleted is looked up by walking over all deleted neighbours up to a live one.
  const insert = (matched) => aggregate(side, [OPEN, {$match: {f: {$exists: false}}}, {$sort: {_id: -1}},
    {$replaceWith: "$r"}, {$merge: {into: into, whenMatched: matched, whenNotMatched: "insert"}}], collation);
  try {
    insert("fail");
  } catch (error) {
    if (error.code !== 11000) { throw error; }
    // Not keepExisting: it sorts the fields, and takes a dot in a name for a path.
    insert([{$replaceWith: "$$ROOT"}]);
  }
  aggregate(side, [OPEN, {$match: {f: {$exists: true}}},
    {$merge: {into: into, whenMatched: REPAIR, whenNotMatched: "discard"}}], collation);
}
// The definitions of a collection that was made again without them.
function define(ns, indexes, options) {
  const [name, collection] = split(ns);
  const home = db.getSiblingDB(name);
  const live = home.getCollection(collection).getIndexes().map((one) => one.name);
  for (const one of indexes.filter((index) => !live.includes(index.name))) {
    const result = home.runCommand({createIndexes: collection, indexes: [one]});
    if (!result.ok) {
      print(shown(ns) + ": the index " + shown(one.name) + " cannot be built: " + shown(String(result.errmsg)));
    }
  }
  if (Object.keys(options).length > 0) {
    must(home.runCommand({collMod: collection, ...options}));
  }
}
const NEVER = 2147483647;
// The indexes of a copy that is not live yet; a TTL index that would empty it at once is built so that it does not.
function buildIndexes(beside, indexes) {
  if (!isThere(beside)) {
    return;
  }
  const [name, collection] = split(beside);
  for (const one of indexes) {
    if (one.expireAfterSeconds !== undefined) {
      const before = new Date(Date.now() - Number(one.expireAfterSeconds) * 1000);
      const expired = {$and: [condition(one), {[Object.keys(one.key)[0]]: {$lte: before, $type: "date"}}]};
      const count = db.getSiblingDB(name).getCollection(collection).countDocuments(expired);
      if (count > 0) {
        print(shown(beside) + ": the TTL index " + shown(one.name) + " would remove " + count + " documents within a minute."
          + " It is built with expireAfterSeconds " + NEVER + ", not " + one.expireAfterSeconds + ": set it back by hand.");
        one.expireAfterSeconds = NEVER;
      }
    }
    const result = db.getSiblingDB(name).runCommand({createIndexes: collection, indexes: [one]});
    if (!result.ok && result.code !== 85) {  // 85: it was built by a run that was stopped, before a document expired
      must(result);
    }
  }
}
function rename(source, target) {
  must(db.getSiblingDB("admin").runCommand({renameCollection: source, to: target}));
}
function mustBeAbsent(ns) {
  if (isThere(ns)) {
    throw new Error(shown(ns) + " was made since the plan: plan again. Nothing was written.");
  }
}
function takeName(ns, beside, count) {
  const live = isThere(ns);
  const ready = isThere(beside);
  if (!live || ready) {
    mustHold(beside, count);
    mustBeAbsent(ns);
    rename(beside, ns);
  }
}
function mustBeAllowed(wanted) {
  const info = must(db.getSiblingDB("admin").runCommand({connectionStatus: 1, showPrivileges: true})).authInfo;
  if (info.authenticatedUsers.length === 0) {
    return;
  }
  const covers = (held, name, collection) => held.anyResource === true || (held.db !== undefined
    && (held.db === name || (held.db === "" && !["local", "config"].includes(name)))
    && (held.collection === collection || (held.collection === "" && !collection.startsWith("system."))));
  const has = (name, collection, action) => info.authenticatedUserPrivileges.some((one) =>
    covers(one.resource, name, collection) && (one.actions.includes(action) || one.actions.includes("anyAction")));
  const lacks = [];
  for (const [name, collection, actions] of wanted) {
    const missing = actions.filter((action) => !has(name, collection, action));
    if (missing.length > 0) {
      lacks.push(missing.join(", ") + " on " + shown(collection === "" ? name : name + "." + collection));
    }
  }
  if (lacks.length > 0) {
    throw new Error("Missing privileges for the return: " + lacks.join("; ") + ". Nothing was written.");
  }
}
function forward(source, target, path, wanted, missing) {
  const greater = {$max: ["$" + path, "$$new." + path]};
  const pipeline = [
    {$match: {...wanted, [path]: {$type: "number"}}},
    {$merge: {into: split(target)[1], on: "_id", whenMatched: [{$set: {[path]: greater}}], whenNotMatched: missing}},
  ];
  must(db.getSiblingDB(split(source)[0]).runCommand({aggregate: split(source)[1], pipeline: pipeline, cursor: {}}));
}
function replaceBy(ns, beside, kept, count, paths) {
  const live = isThere(ns);
  const ready = isThere(beside);
  const away = isThere(kept);
  if (live && ready && !away) {
    mustHold(beside, count);
    for (const path of paths) {
      forward(ns, beside, path, {}, "discard");
    }
    rename(ns, kept);
    rename(beside, ns);
  } else if (!live && ready && away) {
    rename(beside, ns);
  } else if (!live || ready || !away) {
    const word = (there) => (there ? " is there" : " is not");
    throw new Error(shown(ns) + word(live) + ", " + shown(beside) + word(ready) + ", " + shown(kept) + word(away)
      + ": that is neither before nor after the replacement. Look what was made or dropped meanwhile. Nothing was written.");
  }
  for (const path of paths) {
    forward(kept, ns, path, {}, "discard");
    forward(kept, ns, path, {_id: {$not: {$type: "objectId"}}}, "insert");
  }
}
