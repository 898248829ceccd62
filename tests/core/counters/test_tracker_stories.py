"""What a tracker shows at the end of a story, whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Decimal128, Int64

from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.history.oplog_samples import PastValue
from tallyglass.counters.numbers import read_number
from tallyglass.counters.recognise.config import IdField, Resets
from tallyglass.counters.recognise.identity import Identity
from tallyglass.counters.snapshot import Grade, NumericType, Semantics
from tallyglass.counters.standing import _COLLIDES, IdSpan
from tallyglass.mongo.gateway import Namespace

T0 = datetime(2026, 6, 10, 12, tzinfo=UTC).timestamp()
SHOP, ORDERS = Namespace("shop", "counters"), IdField(Namespace("shop", "orders"), "_id")
PLAIN = Identity("k", SHOP, "shop.counters", "a", "a", "seq", "seq", "manual", "MongoDB manual", Semantics.LAST)

Readings = list[tuple[float, Any]]
INT, DOUBLE = NumericType.INT64, NumericType.DOUBLE

# Changes of the identity; (seconds, value) read before, in the oplog; (seconds, value) while it is watched; the ids.
STORIES: dict[str, tuple[dict[str, Any], Readings, Readings, IdSpan | None]] = {
    "rises": ({}, [], [(0, 5), (10, 15), (20, 15), (40, 45), (45, 46)], IdSpan(1, 46)),
    "rises by ten": ({}, [], [(n, 100 + 10 * n) for n in range(8)], IdSpan(10, 190)),
    "stores the next": ({"semantics": Semantics.NEXT}, [], [(0, 6), (5, 7)], IdSpan(1, 7)),
    "is idle": ({}, [], [(n, 7) for n in range(70)], IdSpan(1, 9, 6, 8)),
    "is idle, above a hole": ({}, [], [(0, 70)], IdSpan(1, 900, 2, 900)),
    "is idle at its start": ({"start": 100}, [], [(0, 100)], IdSpan(101, 140)),
    "was set back": ({}, [], [(0, 50), (10, 60), (20, 55), (30, 57)], IdSpan(1, 60)),
    "was set back twice": ({}, [], [(0, 50), (10, 60), (20, 40), (30, 45), (40, 20)], IdSpan(1, 60)),
    "was set back and is past it": ({}, [], [(0, 50), (10, 60), (20, 55), (30, 61)], IdSpan(1, 61)),
    "began again": ({}, [], [(0, 500), (10, 600), (20, 1)], IdSpan(1, 600)),
    "began again each day": (
        {}, [], [(n * 86_400 + k * 3_600, v) for n in range(4) for k, v in ((0, 1), (9, 300 + 40 * n))], IdSpan(1, 420)
    ),
    "is reset each day, as configured": (
        {"resets": Resets.DAILY}, [], [(0, 900), (60, 1), (3_600, 40), (7_200, 0)], IdSpan(1, 900)
    ),
    "cycles, as configured": ({"cycle": True, "bound": 99}, [], [(0, 98), (10, 99), (20, 1), (30, 5)], IdSpan(1, 99)),
    "descends": ({}, [], [(n, 100 - n) for n in range(6)], IdSpan(96, 99, until_smallest=3)),
    "descends, as configured": (
        {"step": -5, "is_step_known": True, "is_step_configured": True, "start": 200, "bound": 10, "bound_name": "min"},
        [], [(0, 100), (10, 95), (20, 90)], IdSpan(80, 195, until_smallest=2),
    ),
    "descends in the oplog": (
        {}, [(-400, 105), (-300, 104), (-200, 103), (-100, 102)], [(0, 101)], IdSpan(101, 105, until_smallest=0)
    ),
    "rose in the oplog": ({}, [(-4_000, 5), (-3_000, 9), (-2_000, 30), (-1_000, 31)], [(0, 31)], IdSpan(1, 40)),
    "fell in the oplog": ({}, [(-4_000, 50), (-3_000, 90), (-2_000, 30), (-1_000, 31)], [(0, 32)], IdSpan(1, 90)),
    "fell in the oplog, and is past it": ({}, [(-4_000, 50), (-3_000, 9), (-2_000, 51)], [(0, 52)], IdSpan(1, 50)),
    "turned into a double": ({}, [], [(0, 5), (10, 6.0), (20, 7.0)], IdSpan(1, 7)),
    "was a double in the oplog": ({}, [(-4_000, 5.0), (-3_000, 6)], [(0, 7)], IdSpan(1, 7)),
    "is near 2^31": ({}, [], [(0, 2**31 - 9), (10, 2**31 - 8)], IdSpan(1, 2**31 - 8)),
    "passed 2^31": ({}, [], [(0, 2**31 - 9), (10, Int64(2**31 + 1))], IdSpan(1, 2**31 + 1)),
    "is read by Node": ({"consumers": (Consumer.JAVASCRIPT,)}, [], [(0, Int64(2**53 - 5))], None),
    "has blocks": ({"block": 1_000, "step": 1}, [], [(0, 4), (9, 5)], IdSpan(1, 5_900)),
    "has a bound": ({"bound": 60, "bound_name": "max"}, [], [(0, 20), (9, 45)], IdSpan(1, 80)),
    "has digits": ({"digits": 3, "text": True}, [], [(0, "A-997"), (9, "A-998")], IdSpan(1, 999)),
    "is full": ({"bound": 60, "bound_name": "max"}, [], [(0, 59), (9, 60)], IdSpan(1, 60)),
    "is a decimal": ({}, [], [(0, Decimal128("12")), (5, Decimal128("13"))], IdSpan(1, 12)),
    "has fractions": ({}, [], [(0, 1.5), (5, 2.5)], None),
    "is a common name that fell": ({"confidence": 0.5, "grade": Grade.POSSIBLE}, [], [(0, 5), (5, 3)], None),
}  # fmt: skip


def told(tracker: Tracker) -> dict[str, Any]:
    """What is not as usual in the view of a tracker."""
    view = tracker.view()
    usual: dict[str, Any] = {
        "flags": (), "notes": (), "rate": None, "recent": (), "drift": None, "repair": "", "burn": None, "step": 1,
        "crossing_used": None, "near": None, "cycles": False, "used": None, "rewound_at": None, "at": None,
    }  # fmt: skip
    found = {name: getattr(view, name) for name in usual}
    if view.ceiling is not None:
        found["ends"] = (view.ceiling.value, view.ceiling.reason)
    found |= {
        "left": view.left,
        "movement": tracker.movement.value,
        "history": view.history,
        "listed": tracker.is_listed,
    }
    found["at"], found["rewound_at"] = (one and one.timestamp() - T0 for one in (view.at, view.rewound_at))
    found["near"] = view.near and view.near.reason
    found["notes"] = tuple(note.replace(f", {_COLLIDES}", " ...") for note in view.notes)
    found["repair"] = view.repair.partition('{"_id": "a"}, ')[2].partition(", {")[0]
    found["flags"] = tuple(flag.value for flag in view.flags)
    found["history"] = tuple((round(at - T0), value) for at, value in view.history)
    for name in ("rate", "used", "crossing_used", "burn"):
        found[name] = found[name] if found[name] is None else float(f"{found[name]:.4g}")
    found["recent"] = tuple(float(f"{one:.4g}") for one in found["recent"][-4:])
    return {name: value for name, value in found.items() if name not in usual or value != usual[name]}


EXPECTED: dict[str, dict[str, Any]] = {
    "rises": {
        "rate": 1.033,
        "recent": (1.0, 0.0, 1.5, 0.2),
        "drift": 0,
        "burn": 0.25,
        "crossing_used": 2.142e-08,
        "used": 4.987e-18,
        "at": 45.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775761,
        "movement": "rises",
        "history": ((0, 5.0), (10, 15.0), (20, 15.0), (40, 45.0), (45, 46.0)),
        "listed": True,
    },
    "rises by ten": {
        "flags": ("BEHIND",),
        "notes": ("20 behind: ids up to 190 exist ...",),
        "rate": 10.0,
        "recent": (10.0, 10.0, 10.0, 10.0),
        "drift": -20,
        "repair": '{"$max": {"seq": NumberInt(190)}}',
        "burn": 0.25,
        "step": 10,
        "crossing_used": 7.916e-08,
        "used": 1.843e-17,
        "at": 7.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775637,
        "movement": "rises",
        "history": ((0, 100.0), (1, 110.0), (2, 120.0), (3, 130.0), (4, 140.0), (5, 150.0), (6, 160.0), (7, 170.0)),
        "listed": True,
    },
    "stores the next": {
        "flags": ("BEHIND",),
        "notes": ("1 behind: ids up to 7 exist ...",),
        "rate": 0.2,
        "recent": (0.2,),
        "drift": -1,
        "repair": '{"$max": {"seq": NumberInt(8)}}',
        "burn": 0.25,
        "crossing_used": 2.794e-09,
        "used": 6.505e-19,
        "at": 5.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775801,
        "movement": "rises",
        "history": ((0, 6.0), (5, 7.0)),
        "listed": True,
    },
    "is idle": {
        "flags": ("BEHIND",),
        "notes": ("2 behind: ids up to 9 exist ...",),
        "rate": 0.0,
        "drift": -2,
        "repair": '{"$max": {"seq": NumberInt(9)}}',
        "burn": 0.25,
        "crossing_used": 3.26e-09,
        "used": 7.589e-19,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775800,
        "movement": "unseen",
        "history": ((0, 7.0), (69, 7.0)),
        "listed": True,
    },
    "is idle, above a hole": {
        "flags": ("BEHIND",),
        "notes": ("830 behind: ids up to 900 exist ...",),
        "drift": -830,
        "repair": '{"$max": {"seq": NumberInt(900)}}',
        "burn": 0.25,
        "crossing_used": 3.26e-08,
        "used": 7.589e-18,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775737,
        "movement": "unseen",
        "history": (),
        "listed": True,
    },
    "is idle at its start": {
        "flags": ("BEHIND",),
        "notes": ("40 behind: ids up to 140 exist ...",),
        "drift": -40,
        "repair": '{"$max": {"seq": NumberInt(140)}}',
        "burn": 0.25,
        "crossing_used": 4.657e-08,
        "used": 0.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775707,
        "movement": "unseen",
        "history": (),
        "listed": True,
    },
    "was set back": {
        "flags": ("BEHIND", "REWOUND"),
        "notes": ("Went back from 60 to 55 at 2026-06-10T12:00:20Z.", "3 behind: ids up to 60 exist ..."),
        "rate": 0.2,
        "recent": (0.2,),
        "drift": -3,
        "repair": '{"$max": {"seq": NumberInt(60)}}',
        "burn": 0.25,
        "crossing_used": 2.654e-08,
        "used": 6.18e-18,
        "rewound_at": 20.0,
        "at": 30.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775750,
        "movement": "rises",
        "history": ((20, 55.0), (30, 57.0)),
        "listed": True,
    },
    "was set back twice": {
        "flags": ("UNCLEAR", "REWOUND"),
        "notes": (
            "Went back from 60 to 20 at 2026-06-10T12:00:40Z.",
            "40 behind: ids up to 60 exist, or it does not count up: it rose and fell.",
        ),
        "rate": 0.5,
        "drift": -40,
        "burn": 0.25,
        "crossing_used": 9.313e-09,
        "used": 2.168e-18,
        "rewound_at": 40.0,
        "at": 40.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775787,
        "movement": "mixed",
        "history": (),
        "listed": True,
    },
    "was set back and is past it": {
        "rate": 0.3667,
        "recent": (0.6,),
        "drift": 0,
        "burn": 0.25,
        "crossing_used": 2.841e-08,
        "used": 6.614e-18,
        "at": 30.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775746,
        "movement": "rises",
        "history": ((0, 50.0), (10, 60.0), (30, 61.0)),
        "listed": True,
    },
    "began again": {
        "flags": ("BEHIND", "RESET"),
        "notes": ("Went back from 600 to 1 at 2026-06-10T12:00:20Z.", "599 behind: ids up to 600 exist ..."),
        "rate": 10.0,
        "drift": -599,
        "repair": '{"$max": {"seq": NumberInt(600)}}',
        "burn": 0.25,
        "crossing_used": 4.657e-10,
        "used": 1.084e-19,
        "rewound_at": 20.0,
        "at": 20.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775806,
        "movement": "rises",
        "history": (),
        "listed": True,
    },
    "began again each day": {
        "notes": (
            "It is reset each day; last at 2026-06-13 12:00Z.",
            "It starts again on purpose, so that larger ids than its own are no fault.",
        ),
        "rate": 0.01293,
        "recent": (0.01293,),
        "crossing_used": 1.956e-07,
        "cycles": True,
        "used": 4.554e-17,
        "at": 291600.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775387,
        "movement": "cycles",
        "history": ((259200, 1.0), (291600, 420.0)),
        "listed": True,
    },
    "is reset each day, as configured": {
        "flags": ("RESET",),
        "notes": (
            "Went back from 40 to 0 at 2026-06-10T14:00:00Z.",
            "It starts again on purpose, so that larger ids than its own are no fault.",
        ),
        "rate": 0.01102,
        "crossing_used": 0.0,
        "cycles": True,
        "used": 0.0,
        "rewound_at": 7200.0,
        "at": 7200.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775807,
        "movement": "cycles",
        "history": (),
        "listed": True,
    },
    "cycles, as configured": {
        "notes": (
            "It cycles, as configured; last at 2026-06-10 12:00Z.",
            "It starts again on purpose, so that larger ids than its own are no fault.",
        ),
        "rate": 0.4,
        "recent": (0.4,),
        "cycles": True,
        "used": 0.05051,
        "at": 30.0,
        "ends": (99, "MAX_VALUE"),
        "left": 94,
        "movement": "cycles",
        "history": ((20, 1.0), (30, 5.0)),
        "listed": True,
    },
    "descends": {
        "rate": 1.0,
        "recent": (1.0, 1.0),
        "drift": 1,
        "burn": 0.25,
        "step": -1,
        "at": 5.0,
        "ends": (0, "0 (it descends)"),
        "left": 95,
        "movement": "descends",
        "history": ((0, 100.0), (1, 99.0), (2, 98.0), (3, 97.0), (4, 96.0), (5, 95.0)),
        "listed": True,
    },
    "descends, as configured": {
        "flags": ("BEHIND",),
        "notes": ("It descends and is 10 behind: ids down to 80 exist ...",),
        "rate": 0.5,
        "recent": (0.5, 0.5),
        "drift": -10,
        "repair": '{"$min": {"seq": NumberInt(80)}}',
        "burn": 0.25,
        "step": -5,
        "used": 0.5789,
        "at": 20.0,
        "ends": (10, "min"),
        "left": 80,
        "movement": "descends",
        "history": ((0, 100.0), (10, 95.0), (20, 90.0)),
        "listed": True,
    },
    "descends in the oplog": {
        "rate": 0.01,
        "drift": 0,
        "burn": 0.25,
        "step": -1,
        "ends": (0, "0 (it descends)"),
        "left": 101,
        "movement": "descends",
        "history": ((-400, 105.0), (-300, 104.0), (-200, 103.0), (-100, 102.0), (0, 101.0)),
        "listed": True,
    },
    "rose in the oplog": {
        "flags": ("BEHIND",),
        "notes": ("9 behind: ids up to 40 exist ...",),
        "rate": 0.0,
        "drift": -9,
        "repair": '{"$max": {"seq": NumberInt(40)}}',
        "burn": 0.25,
        "crossing_used": 1.444e-08,
        "used": 3.361e-18,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775776,
        "movement": "rises",
        "history": ((-4000, 5.0), (-3000, 9.0), (-2000, 30.0), (-1000, 31.0), (0, 31.0)),
        "listed": True,
    },
    "fell in the oplog": {
        "flags": ("BEHIND", "REWOUND"),
        "notes": ("Went back from 90 to 30 at 2026-06-10T11:26:40Z.", "58 behind: ids up to 90 exist ..."),
        "rate": 0.001,
        "drift": -58,
        "repair": '{"$max": {"seq": NumberInt(90)}}',
        "burn": 0.25,
        "crossing_used": 1.49e-08,
        "used": 3.469e-18,
        "rewound_at": -2000.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775775,
        "movement": "rises",
        "history": ((-2000, 30.0), (-1000, 31.0), (0, 32.0)),
        "listed": True,
    },
    "fell in the oplog, and is past it": {
        "rate": 0.0005,
        "drift": 2,
        "burn": 0.25,
        "crossing_used": 2.421e-08,
        "used": 5.638e-18,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775755,
        "movement": "rises",
        "history": ((-4000, 50.0), (-2000, 51.0), (0, 52.0)),
        "listed": True,
    },
    "turned into a double": {
        "flags": ("DOUBLE",),
        "notes": ("Turned from int32 into double at 2026-06-10T12:00:10Z.",),
        "rate": 0.1,
        "recent": (0.1, 0.1),
        "drift": 0,
        "burn": 0.25,
        "crossing_used": 3.26e-09,
        "used": 7.772e-16,
        "at": 20.0,
        "ends": (9007199254740992, "double (2^53)"),
        "left": 9007199254740985,
        "movement": "rises",
        "history": ((10, 6.0), (20, 7.0)),
        "listed": True,
    },
    "was a double in the oplog": {
        "notes": ("Turned from double into int64 at 2026-06-10T11:10:00Z.",),
        "rate": 0.0003333,
        "drift": 0,
        "burn": 0.25,
        "crossing_used": 3.26e-09,
        "used": 7.589e-19,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775800,
        "movement": "rises",
        "history": ((-3000, 6.0), (0, 7.0)),
        "listed": True,
    },
    "is near 2^31": {
        "rate": 0.1,
        "recent": (0.1,),
        "drift": 0,
        "burn": 0.25,
        "crossing_used": 1.0,
        "near": "int32",
        "used": 2.328e-10,
        "at": 10.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372034707292167,
        "movement": "rises",
        "history": ((0, 2147483639.0), (10, 2147483640.0)),
        "listed": True,
    },
    "passed 2^31": {
        "rate": 1.0,
        "recent": (1.0,),
        "drift": 0,
        "burn": 0.25,
        "used": 2.328e-10,
        "at": 10.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372034707292158,
        "movement": "rises",
        "history": ((0, 2147483639.0), (10, 2147483649.0)),
        "listed": True,
    },
    "is read by Node": {
        "near": "double (2^53)",
        "used": 1.0,
        "ends": (9007199254740991, "JavaScript consumer (2^53-1)"),
        "left": 4,
        "movement": "unseen",
        "history": (),
        "listed": True,
    },
    "has blocks": {
        "rate": 0.1111,
        "recent": (0.1111,),
        "crossing_used": 2.328e-06,
        "used": 5.421e-16,
        "at": 9.0,
        "ends": (9223372036854775, "int64, 1,000 ids a block"),
        "left": 9223372036854770,
        "movement": "rises",
        "history": ((0, 4.0), (9, 5.0)),
        "listed": True,
    },
    "has a bound": {
        "flags": ("BEHIND",),
        "notes": ("35 behind: ids up to 80 exist ... There is no command: 80 would be beyond its limit, 60 (max).",),
        "rate": 2.778,
        "recent": (2.778,),
        "drift": -35,
        "burn": 0.25,
        "used": 0.75,
        "at": 9.0,
        "ends": (60, "max"),
        "left": 15,
        "movement": "rises",
        "history": ((0, 20.0), (9, 45.0)),
        "listed": True,
    },
    "has digits": {
        "flags": ("BEHIND",),
        "notes": (
            "1 behind: ids up to 999 exist ... It is a text, which no command of mongosh moves: "
            "write the new text yourself.",
        ),
        "rate": 0.1111,
        "recent": (0.1111,),
        "drift": -1,
        "burn": 0.25,
        "used": 0.999,
        "at": 9.0,
        "ends": (999, "3 digits"),
        "left": 1,
        "movement": "rises",
        "history": ((0, 997.0), (9, 998.0)),
        "listed": True,
    },
    "is full": {
        "flags": ("FULL",),
        "rate": 0.1111,
        "recent": (0.1111,),
        "drift": 0,
        "burn": 0.25,
        "near": "max",
        "used": 1.0,
        "at": 9.0,
        "ends": (60, "max"),
        "left": 0,
        "movement": "rises",
        "history": ((0, 59.0), (9, 60.0)),
        "listed": True,
    },
    "is a decimal": {
        "rate": 0.2,
        "recent": (0.2,),
        "drift": 1,
        "burn": 0.25,
        "crossing_used": 6.054e-09,
        "used": 1.3e-33,
        "at": 5.0,
        "ends": (10000000000000000000000000000000000, "Decimal128 (34 digits)"),
        "left": 9999999999999999999999999999999987,
        "movement": "rises",
        "history": ((0, 12.0), (5, 13.0)),
        "listed": True,
    },
    "has fractions": {
        "flags": ("DOUBLE",),
        "notes": ("Not a whole number.",),
        "rate": 0.0,
        "recent": (0.2,),
        "crossing_used": 1.164e-09,
        "used": 2.776e-16,
        "at": 5.0,
        "ends": (9007199254740992, "double (2^53)"),
        "left": 9007199254740990,
        "movement": "rises",
        "history": (),
        "listed": True,
    },
    "is a common name that fell": {
        "flags": ("GUESS",),
        "recent": (0.0,),
        "crossing_used": 1.397e-09,
        "used": 3.253e-19,
        "at": 5.0,
        "ends": (9223372036854775807, "int64"),
        "left": 9223372036854775804,
        "movement": "unseen",
        "history": (),
        "listed": False,
    },
}


def story(name: str) -> Tracker:
    """The tracker at the end of one."""
    changes, past, readings, ids = STORIES[name]
    tracker = Tracker(replace(PLAIN, **changes))
    for n, (seconds, raw) in enumerate(readings):
        read = read_number(raw, text=tracker.identity.text)
        assert read is not None
        tracker.observe(*read, T0 + seconds)
        if n == 0:
            tracker.add_past([PastValue(T0 + at, value, DOUBLE if type(value) is float else INT) for at, value in past])
        tracker.settle(T0 + seconds)
    if ids is not None:
        tracker.compare([ORDERS], ids, 0.25)
    return tracker


@pytest.mark.parametrize("name", STORIES)
def test_what_is_shown_at_the_end_of_a_story(name: str) -> None:
    assert told(story(name)) == EXPECTED[name]
