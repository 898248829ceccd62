"""Time-series keep no pre-images: nothing advises to switch them on, which the server refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from builders.incidents import incident as make_incident
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.restore.checks import images_held
from tallyglass.restore.model.proof import Loss
from tallyglass.restore.plan import way_from_images as ways
from tallyglass.restore.pre_images.image_proof import ImageProof
from tallyglass.restore.pre_images.settings import Retention
from tallyglass.restore.proof.request import RestoreRequest

BUCKETS = CollectionInfo(Namespace("shop", "system.buckets.m"), "collection", {"timeseries": {"timeField": "t"}})


def test_no_check_advises_to_switch_them_on() -> None:
    proof = ImageProof("shop.system.buckets.m", BUCKETS, 12, 12, 0, Loss("", 0, 0, 0), 0, missing_count=12)
    (found,) = images_held._gaps([proof], Retention(seconds=60))
    assert "cannot keep pre-images" in found.advice
    assert "collMod" not in found.advice


async def test_no_way_advises_to_switch_them_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def entry(*_: Any) -> SimpleNamespace:
        return SimpleNamespace(ui=b"", ts=incident.first)

    async def none(*_: Any) -> AsyncIterator[Any]:
        return
        yield

    incident = make_incident(1, 1_000)
    monkeypatch.setattr(ways, "edge", entry)
    monkeypatch.setattr(ways, "images_between", none)
    gateway: Any = None
    way = await ways._first_image(gateway, incident, BUCKETS, RestoreRequest(None, "", incident=incident))
    assert way.possible is False
    assert "cannot keep pre-images" in way.why
    assert "collMod" not in way.advice
