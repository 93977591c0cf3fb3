"""The interlock of Allocate and destruction, also while gpud is away."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from device_plugin.agent.loop import Agent
from device_plugin.backends.gpud import Gpud as GpudClient
from device_plugin.config import Settings
from device_plugin.dp.allocations import LISTED_WITHIN_S, Allocations
from device_plugin.errors import GpudUnreachable
from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry

BOARD = geometry.board("h100-80gb")
PLACE = geometry.Instance(BOARD.profile("1g.10gb"), 0)
SLICE = MigSlice("MIG-1", "GPU-1", PLACE, 1, 0, 1, "/run", 0, ())
GPU = Gpu("GPU-1", 0, BOARD, "Healthy", (SLICE,))


def test_the_first_of_allocate_and_forbid_wins() -> None:
    now = 0.0
    allocations = Allocations(lambda: now)
    assert allocations.allocate([SLICE.uuid]) is None
    assert not allocations.forbid(SLICE.uuid)
    now = LISTED_WITHIN_S
    assert allocations.forbid(SLICE.uuid)
    assert allocations.allocate([SLICE.uuid]) == SLICE.uuid
    allocations.allow(SLICE.uuid)
    assert allocations.allocate([SLICE.uuid]) is None


def test_slices_that_an_earlier_agent_may_have_allocated_are_distinguished() -> None:
    now = 100.0
    allocations = Allocations(lambda: now)
    # slices that the earlier agent allocated last may not be listed yet
    assert not allocations.all_ours([])
    now += LISTED_WITHIN_S
    assert allocations.all_ours([])
    assert not allocations.all_ours(["MIG-1"])
    allocations.allocate(["MIG-1"])
    assert allocations.all_ours(["MIG-1"])
    assert not allocations.all_ours(["MIG-1", "MIG-2"])
    allocations.keep_only(["MIG-2"])
    assert not allocations.all_ours(["MIG-1"])


def test_a_slice_whose_destruction_failed_can_be_allocated(tmp_path: Path) -> None:
    """The layout may be changed back before gpud returns; then the slice is offered again."""
    allocations = Allocations()
    unused: Any = None
    holders: Any = SimpleNamespace(seen_at=lambda: 0.0)
    kubelet_side: Any = allocations  # it has the methods that a destruction calls
    agent = Agent(
        Settings("node-1", "agent", run_dir=tmp_path),
        GpudClient(tmp_path / "gpud.sock"),
        holders,
        unused,
        kubelet_side,
        tmp_path,
        threading.Event(),
        unused,
        unused,
    )
    with pytest.raises(GpudUnreachable):
        agent._destroy(GPU, SLICE)
    assert allocations.allocate([SLICE.uuid]) is None
