"""Make a recording of ten applications for Node.js and a shop, with labelled acts of people among them.

``python -m bench._record_node DIR`` installs their libraries into a temporary folder with npm and writes the files of
:mod:`bench._record`. Each act is done once. Many have the size of what the application changes there itself.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from pymongo import DeleteOne

from bench._record import (
    Kind,
    command,
    delete,
    each,
    few,
    in_transaction,
    pool,
    program_of,
    record,
    update,
)

PACKAGES = (
    "y-mongodb-provider@0.2", "yjs@13", "sharedb@7", "sharedb-mongo@6", "casbin@5", "casbin-mongodb-adapter@1",
    "keyv@5", "@keyv/mongo@3", "@mikro-orm/core@6", "@mikro-orm/mongodb@6", "typeorm@1", "reflect-metadata@0.2",
    "@socket.io/mongo-adapter@0.4", "socket.io@4", "umzug@3", "winston@3", "winston-mongodb@7",
    "@feathersjs/feathers@5", "@feathersjs/mongodb@5", "mongodb@7",
)  # fmt: skip
APPLICATIONS = (
    "yjs", "sharedb", "casbin", "keyv", "mikro", "typeorm", "socketio", "feathers", "winston", "umzug",
)  # fmt: skip

RARE = (
    delete("collab.docs", 150), delete("share.o_notes", 300), delete("share.notes", 20), delete("authz.casbin", 60),
    delete("cache.entries", 500), delete("projects.task", 40), delete("erp.items", 120), delete("sock.events", 100),
    delete("api.messages", 200), delete("mig.people", 30), delete("erp.items", 4), delete("projects.task", 9),
    delete("shop.reviews", 900), delete("shop.carts", 30), delete("shop.customers", 12),
    update("share.notes", 80, {"$set": {"_o": None}}), update("projects.task", 90),
    update("erp.items", 60, {"$set": {"price": 0}}), update("api.messages", 150, [{"$set": {"old": "$text"}}]),
    update("authz.casbin", 50, {"$set": {"v2": "write"}}), update("cache.entries", 100, {"$set": {"value": ""}}),
    update("mig.people", 100, {"$set": {"email": "x"}}), update("collab.docs", 60, {"$set": {"version": "v2"}}),
    update("api.messages", 12, {"$set": {"read": False}}), update("shop.customers", 300),
    update("shop.stock", 200, {"$mul": {"left": 3}}), update("shop.invoices", 700, {"$set": {"paid": True}}),
    Kind("deleteOne loop 40 of authz.casbin", "authz.casbin", "d", few(40), each("delete_one"), True),
    Kind("updateOne loop 80 of erp.items", "erp.items", "u", few(80),
         each("update_one", {"$set": {"qty": 0, "checked": 1}}), True),
    Kind("findOneAndDelete loop 25 of api.messages", "api.messages", "d", few(25), each("find_one_and_delete"), True),
    Kind("bulkWrite 100 of projects.task", "projects.task", "d", few(100),
         lambda c, q: [c.bulk_write([DeleteOne({"_id": one}) for one in q["_id"]["$in"]])], True),
    Kind("pool 120 of api.messages", "api.messages", "d", few(120), pool, True),
    Kind("transaction 30 of erp.items", "erp.items", "applyOps", few(30), in_transaction, True),
    Kind("replaceOne loop 30 of projects.task", "projects.task", "u", few(30),
         each("replace_one", {"title": ""}), True),
    command("createIndexes", "api.messages", lambda c, q: c.create_index("room", expireAfterSeconds=10**7)),
    command("collMod", "projects.task",
            lambda c, q: c.database.command("collMod", c.name, validationLevel="moderate")),
    command("renameCollection", "shop.pages", lambda c, q: c.rename("pages_old")),
    command("renameCollection", "shop.tickets",
            lambda c, q: list(c.aggregate([{"$match": {"n": 1}}, {"$out": c.name}])), "out over shop.tickets"),
    command("drop", "share.o_notes", lambda c, q: c.drop(), "drop share.o_notes"),
    command("drop", "mig.people_index", lambda c, q: c.drop(), "drop mig.people_index"),
    command("dropDatabase", "hr.people", lambda c, q: c.database.client.drop_database("hr")),
)  # fmt: skip


def main() -> None:
    """Install the libraries, and record."""
    parser = argparse.ArgumentParser(prog="python -m bench._record_node", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1_500.0)
    parser.add_argument("--seed", type=int, default=281126)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as libraries:
        script = Path(libraries) / "applications.js"
        shutil.copy(Path(__file__).parent / "_record_node.js", script)
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--legacy-peer-deps", "--prefix", libraries]
        subprocess.run([*install, *PACKAGES], check=True)
        programs = {name: ["node", str(script), name] for name in APPLICATIONS}
        record(given.folder, given.seconds, given.seed, RARE, programs | {"storefront": program_of("storefront")})


if __name__ == "__main__":
    main()
