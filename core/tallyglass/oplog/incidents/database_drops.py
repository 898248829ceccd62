"""Which drops belong to a dropDatabase: the server logs one drop per collection, then the dropDatabase."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.incidents.acts import Act
from tallyglass.oplog.incidents.run import GAP_MILLIS, Run
from tallyglass.oplog.snapshot import Harm
from tallyglass.text import clean_name

DATABASE_MILLIS = 10_000
"""How long after its last drop a dropDatabase may be logged: it waits for the majority in between."""

CHAIN_LIMIT = 10_000
REMADE_MILLIS = 1_000
REMADE = "made again within a second: mongorestore --drop, or a reload"


class DatabaseDrops:
    """Keeps drops until their dropDatabase arrives; when reading newest first, keeps the dropDatabase until its drops
    arrive."""

    def __init__(self) -> None:
        self._drops: dict[str, list[Run]] = {}
        self._databases: dict[str, Run] = {}

    def take(self, act: Act, entry: Entry) -> Run | None:
        """One drop as a separate run; None if it is part of a dropDatabase."""
        database = self._databases.get(entry.db)
        if database is not None:
            reach = DATABASE_MILLIS if database.ops == 1 else GAP_MILLIS
            if database.distance(entry.ts, entry.wall_millis) <= reach:
                database.add(entry.ts, entry.wall_millis, 1, act.documents)
                database.samples.append(_collection(act.ns))
                return None
            del self._databases[entry.db]
        run = act.run(entry)
        run.add(entry.ts, entry.wall_millis, 1, act.documents)
        self.hold(run)
        return run

    def hold(self, run: Run) -> None:
        """Remember a drop until its dropDatabase can no longer follow."""
        chain = self._drops.setdefault(run.ns.partition(".")[0], [])
        if chain and chain[-1].distance(run.first, run.first_wall) > GAP_MILLIS:
            chain.clear()
        if len(chain) < CHAIN_LIMIT:
            chain.append(run)

    def take_database(self, entry: Entry, *, backward: bool) -> tuple[Run, list[Run]]:
        """A dropDatabase with the drops before it, and those drops, which are not separate incidents."""
        run = Act("dropDatabase", Harm.LOSS, f"dropDatabase {clean_name(entry.db, 120)}", entry.db).run(entry)
        run.add(entry.ts, entry.wall_millis)
        if backward:
            self._databases[entry.db] = run
        chain = self._drops.pop(entry.db, [])
        if backward or not chain or chain[-1].distance(entry.ts, entry.wall_millis) > DATABASE_MILLIS:
            return run, []
        for drop in chain:
            run.absorb(drop)
            run.samples.append(_collection(drop.ns))
        return run, chain

    def forget(self, db: str) -> None:
        """Another command on the database: what came before it does not belong to what comes after."""
        self._drops.pop(db, None)
        self._databases.pop(db, None)

    def sweep(self, at: Ts, wall: int | None) -> None:
        """Forget what is out of reach of an entry at that time."""
        self._drops = {
            db: chain for db, chain in self._drops.items() if chain[-1].distance(at, wall) <= DATABASE_MILLIS
        }
        self._databases = {db: run for db, run in self._databases.items() if run.distance(at, wall) <= DATABASE_MILLIS}


def _collection(ns: str) -> str:
    return clean_name(ns.partition(".")[2], 120)


class Remakes:
    """Notes which drops were followed at once by a collection of the same name, in either direction of time."""

    def __init__(self) -> None:
        self._dropped: OrderedDict[str, Run] = OrderedDict()
        self._created: OrderedDict[str, tuple[Ts, int | None]] = OrderedDict()

    def dropped(self, run: Run | None) -> None:
        """Take a drop; None if it belongs to a dropDatabase."""
        if run is None:
            return
        created = self._created.get(run.ns)
        if created is not None and created[0] > run.last and run.distance(*created) <= REMADE_MILLIS:
            run.note = REMADE
        _hold(self._dropped, run.ns, run)

    def created(self, ns: str, entry: Entry) -> None:
        """Note that a collection was created."""
        run = self._dropped.get(ns)
        if run is not None and entry.ts > run.last and run.distance(entry.ts, entry.wall_millis) <= REMADE_MILLIS:
            run.note = REMADE
        _hold(self._created, ns, (entry.ts, entry.wall_millis))


Held = TypeVar("Held")


def _hold(held: OrderedDict[str, Held], ns: str, item: Held) -> None:
    held[ns] = item
    held.move_to_end(ns)
    if len(held) > CHAIN_LIMIT:
        held.popitem(last=False)
