"""Layouts, the device plugin and claims on one node: no unit is allocated twice, and none is lost.

Random histories (``interlock_world``) of layout changes, Allocate, Prepare and Unprepare, with
crashes and lost connections between any two steps.
"""

import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from device_plugin.agent import loop
from device_plugin.inventory import claims
from gpu_operator.api import claim_devices as names
from support.worlds.interlock_world import World

HISTORIES, STEPS = 40, 200


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_no_unit_is_given_twice_and_none_is_lost(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # thousands of journals are written, and no power fails
    monkeypatch.setattr(os, "fsync", lambda _: None)
    world = World(tmp_path, random.Random(seed))
    clock = SimpleNamespace(monotonic=lambda: world.now)
    monkeypatch.setattr(loop, "time", clock)
    for _ in range(STEPS):
        world.happen()
    world.end()


@pytest.mark.parametrize("seed", range(5))
def test_claims_that_share_slices_come_and_go_without_layouts(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without layouts only claims use the GPUs, so that several share a slice at a time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    world = World(tmp_path, random.Random(seed))
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: world.now))
    world.wanted = {uuid: [] for uuid in world.wanted}
    monkeypatch.setattr(world, "layout_changes", world.claim_is_prepared)
    for _ in range(10 * STEPS):
        world.happen()
    assert world.most_sharers >= 2
    world.end()


def test_the_driver_is_called_the_same_everywhere() -> None:
    assert claims.DRIVER == names.DRIVER
