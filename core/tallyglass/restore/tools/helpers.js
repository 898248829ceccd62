const MOST_SINCE = 50000;
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
// Whether what was read of a value is the value: an object moves fields that are whole numbers to the front, and takes a
// field called _bsontype for its type; a Date ends in the year 275760.
function isExact(value) {
  if (value === null || typeof value !== "object") {
    return true;
  }
  if (Object.prototype.toString.call(value) === "[object Date]") {
    return !Number.isNaN(value.getTime());
  }
  if (!Array.isArray(value) && value._bsontype !== undefined) {
    return !Object.prototype.hasOwnProperty.call(value, "_bsontype");
  }
  const fields = Array.isArray(value) ? [] : Object.keys(value);
  return (fields.length < 2 || !fields.some((one) => /^[0-9]+$/.test(one))) && Object.values(value).every(isExact);
}
function writtenSince(ns, seen, kinds) {
  const oplog = db.getSiblingDB("local").getCollection("oplog.rs");
  if (oplog.find({ts: seen}).limit(1).toArray().length !== 1) {
    throw new Error("The oplog does not reach back to the plan any more: plan again.");
  }
  const [name, collection] = split(ns);
  const other = [{"o.drop": collection, ns: name + ".$cmd"}, {"o.emptycapped": collection, ns: name + ".$cmd"},
    {"o.renameCollection": ns}, {"o.to": ns}];
  if (oplog.find({ts: {$gt: seen}, op: "c", $or: other}).limit(1).toArray().length > 0) {
    throw new Error(shown(ns) + " was dropped, emptied or replaced since the plan: plan again. Nothing was written.");
  }
  const wanted = {ts: {$gt: seen}, $or: [{ns: ns, op: {$in: kinds}}, {"o.applyOps.ns": ns}]};
  const shape = {op: 1, ns: 1, "o._id": 1, "o2._id": 1};
  ["op", "ns", "o._id", "o2._id"].forEach((one) => { shape["o.applyOps." + one] = 1; });
  const entries = oplog.find(wanted, shape).limit(MOST_SINCE + 1).toArray();
  const ids = [];
  for (const entry of entries) {
    const inner = entry.op === "c" ? (entry.o.applyOps || []) : [entry];
    for (const one of inner) {
      if (one.ns === ns && kinds.includes(one.op)) {
        ids.push(one.op === "u" ? one.o2._id : one.o._id);
      }
    }
  }
  if (entries.length > MOST_SINCE || ids.length > MOST_SINCE) {
    throw new Error("Too many documents were written since the plan: stop the writers and plan again.");
  }
  if (!ids.every(isExact)) {
    throw new Error("Documents were written since the plan that mongosh cannot tell apart: stop the writers and plan again.");
  }
  return ids;
}
function mergeSince(ns, beside, count, seen, body) {
  mustHold(beside, count);
  if (!isThere(ns)) {
    throw new Error(shown(ns) + " is not there any more: plan again. Nothing was written.");
  }
  // What is live stays anyway where only missing documents come back: then others' deletes alone matter, and a merge that
  // was stopped does not meet its own inserts.
  const keeps = body.pipeline[body.pipeline.length - 1].$merge.whenMatched === "keepExisting";
  const ids = writtenSince(ns, seen, keeps ? ["d"] : ["i", "u", "d"]);
  if (ids.length > 0) {
    body.pipeline.unshift({$match: {_id: {$nin: ids}}});
  }
  return must(db.getSiblingDB(split(ns)[0]).runCommand(body));
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
    throw new Error("This user may not bring it back, for want of: " + lacks.join("; ") + ". Nothing was written.");
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
