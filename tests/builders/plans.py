"""Plans by their fields, in whichever of the records of a plan a field is."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from tallyglass.moment import Ts
from tallyglass.restore.model.plan import Plan, PlanFacts
from tallyglass.restore.model.source import FromBackup, FromImages


def make_plan(limit: Ts, source: FromBackup | FromImages, made: datetime, **values: Any) -> Plan:
    return changed(Plan(PlanFacts(limit, "rs", made), source), **values)


def changed(plan: Plan, **values: Any) -> Plan:
    for name, value in values.items():
        records = {one.name: getattr(plan, one.name) for one in fields(plan)}
        if name in records:
            plan = replace(plan, **{name: value})
            continue
        (part,) = (one for one in records if one != "checks" and name in {of.name for of in fields(records[one])})
        plan = replace(plan, **{part: replace(records[part], **{name: value})})
    return plan
