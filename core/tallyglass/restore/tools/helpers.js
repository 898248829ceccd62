const fs = require("fs");
// `shell` has the functions of mongosh that a module does not see; `db` is the server that is connected.
let shell;
let db;

function must(result) {
  if (!result.ok || (result.writeErrors && result.writeErrors.length)) {
    throw Object.assign(new Error(JSON.stringify(result)), {code: result.code});
  }
  return result;
}
async function run(name, body) {
  return must(await db.getSiblingDB(name).runCommand(body));
}
async function dropIfThere(name, body) {
  const missing = [26, 27];
  try {
    await run(name, body);
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
async function onLive() {
  db = await connectTo("source.yml");
  return db;
}
// The spare's address may lead elsewhere by now: a tunnel that was opened again, a name that moved.
async function onSpare(liveSet) {
  db = await connectTo("spare.yml");
  if ((await run("admin", {hello: 1})).setName === liveSet) {
    throw new Error("This is a member of the live set, not the spare. Nothing was written.");
  }
  return db;
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
async function mustHold(ns, count) {
  if (!await exists(ns)) {
    throw new Error(quoted(ns) + " is missing: load it again first. Nothing was written.");
  }
  const found = count === null ? null : await collection(ns).countDocuments({});
  if (found !== count) {
    throw new Error(quoted(ns) + " holds " + found + " documents, not the " + count + " computed."
      + " Nothing was written.");
  }
}
async function mustBeAbsent(ns) {
  if (await exists(ns)) {
    throw new Error(quoted(ns) + " was created since the plan: plan again. Nothing was written.");
  }
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
const NEVER = 2147483647;
// The indexes of a collection that is not live yet. A TTL index that would empty it at once gets a far expiry.
async function buildIndexes(staging, indexes) {
  if (!await exists(staging)) {
    return;
  }
  const [name, rest] = split(staging);
  for (const one of indexes) {
    if (one.expireAfterSeconds !== undefined) {
      const before = new Date(Date.now() - Number(one.expireAfterSeconds) * 1000);
      const expired = {$and: [condition(one), {[Object.keys(one.key)[0]]: {$lte: before, $type: "date"}}]};
      const count = await collection(staging).countDocuments(expired);
      if (count > 0) {
        await shell.print(quoted(staging) + ": the TTL index " + quoted(one.name) + " would remove " + count
          + " documents within a minute. It is built with expireAfterSeconds " + NEVER + ", not "
          + one.expireAfterSeconds + ": set it back manually.");
        one.expireAfterSeconds = NEVER;
      }
    }
    const result = await db.getSiblingDB(name).runCommand({createIndexes: rest, indexes: [one]});
    if (!result.ok && result.code !== 85) {  // 85: it was built by a run that was stopped, before a document expired
      must(result);
    }
  }
}
async function rename(source, target) {
  await run("admin", {renameCollection: source, to: target});
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
        await mustBeAbsent(ns);
      }
    }
  }
  for (const ns of waiting) {
    await rename(ns + ending, ns);
  }
}
async function raiseCounters(source, target, path, wanted, missing) {
  const greater = {$max: ["$" + path, "$$new." + path]};
  const pipeline = [
    {$match: {...wanted, [path]: {$type: "number"}}},
    {$merge: {into: split(target)[1], on: "_id", whenMatched: [{$set: {[path]: greater}}], whenNotMatched: missing}},
  ];
  const [name, rest] = split(source);
  await run(name, {aggregate: rest, pipeline: pipeline, cursor: {}});
}
async function replaceBy(ns, staging, kept, count, paths) {
  const live = await exists(ns);
  const ready = await exists(staging);
  const away = await exists(kept);
  if (live && ready && !away) {
    await mustHold(staging, count);
    for (const path of paths) {
      await raiseCounters(ns, staging, path, {}, "discard");
    }
    await rename(ns, kept);
    await rename(staging, ns);
  } else if (!live && ready && away) {
    await rename(staging, ns);
  } else if (!live || ready || !away) {
    const word = (there) => (there ? " exists" : " does not");
    throw new Error(quoted(ns) + word(live) + ", " + quoted(staging) + word(ready) + ", " + quoted(kept) + word(away)
      + ": that is neither before nor after the replacement. Find out what was created or dropped since."
      + " Nothing was written.");
  }
  for (const path of paths) {
    await raiseCounters(kept, ns, path, {}, "discard");
    await raiseCounters(kept, ns, path, {_id: {$not: {$type: "objectId"}}}, "insert");
  }
}
