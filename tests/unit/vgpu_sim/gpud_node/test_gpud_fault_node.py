"""Faults of a node: events that are Xids, the contexts that they end, and lasting health states."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.faults.health import State, Times
from vgpu_sim.gpud.faults.injection import Injection, Kind
from vgpu_sim.gpud.faults.node import Faults, Options
from vgpu_sim.gpud.model import Gpu, MigInstance, new_gpu_uuid
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.system.peers import Peer

GPUS = tuple(Gpu(new_gpu_uuid(), index, "h100-80gb") for index in range(2))
GPU, OTHER = GPUS
AT_ONCE = Times(suspect_s=0, unhealthy_s=0, probation_s=600)
WORKER, CLIENT = 100, 7


class Table:
    """Live contexts; one that is struck stays until the test removes it."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []
        self.struck: list[tuple[int, int]] = []
        self.paused: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self.contexts))

    def find(self, pid: int) -> Any:
        return next((one for one in self.contexts if one.pid == pid), None)

    def add(self, instance: MigInstance) -> None:
        pid = WORKER + len(self.contexts)
        self.contexts.append(SimpleNamespace(instance=instance, client=Peer(CLIENT, 0), pid=pid))

    def end_failed(self, context: Any, error: int, reason: str) -> None:
        self.struck.append((context.pid, error))

    def pause(self, context: Any) -> None:
        self.paused.append(context.pid)


class Node:
    """Two GPUs, of which the first has two slices."""

    def __init__(self, directory: Path) -> None:
        self._inventory = Inventory(directory)
        self._inventory.configure(GPUS, 0)
        self.slices = tuple(
            self._inventory.create_instance(GPU.uuid, "1g.10gb", start) for start in (0, 1)
        )
        self.events, self.table = EventBus(), Table()
        options = Options(times=AT_ONCE)
        self.faults = Faults(
            self._inventory, cast(Any, self.table), self.events, directory, options
        )

    def inject(self, kind: Kind, instance: str = "", xid: int = 0) -> None:
        name = f"{kind}-{instance}-{xid}"
        self.faults.inject(Injection(name, GPU.uuid, instance, kind, xid, 1, 0))

    def look(self) -> None:
        """Advance the lasting faults to the present, by clearing those of a GPU that has none."""
        assert self.faults.clear(OTHER.uuid, "") == []

    def xids(self) -> list[tuple[int, str, int, str]]:
        found = self.faults.records.xids(GPU.uuid)
        return [(one.xid, one.instance, one.pid, one.message) for one in found]


def on_node(directory: Path, act: Callable[[Node], None]) -> None:
    async def scenario() -> None:
        node = Node(directory)
        try:
            act(node)
        finally:
            node.faults.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("event", "xid"),
    [
        ({"event": "fault", "kind": "ADDRESS", "message": "why"}, 31),
        ({"event": "fault", "kind": "", "message": "why"}, 45),
        ({"event": "fenced", "reason": "why"}, 45),
        ({"event": "fault", "kind": "COMPILE", "message": "why"}, None),
        ({"event": "fault", "kind": "DEVICE", "message": "why"}, None),
        ({"event": "fault", "kind": ["ADDRESS"], "message": "why"}, None),
        ({"event": "fault", "message": "why"}, None),
        ({"event": "context_started", "kind": "ADDRESS"}, None),
    ],
)
def test_what_ends_a_context_is_its_slice_s_xid_and_nothing_else_is_one(
    tmp_path: Path, event: dict[str, Any], xid: int | None
) -> None:
    def act(node: Node) -> None:
        node.table.add(node.slices[0])
        node.table.add(node.slices[1])
        name = event["event"]
        fields = {key: value for key, value in event.items() if key != "event"}
        node.events.emit(name, pid=WORKER + 1, **fields)
        expected = [] if xid is None else [(xid, node.slices[1].uuid, CLIENT, "why")]
        assert node.xids() == expected
        node.events.emit(name, pid=WORKER + 2, **fields)  # the pid of no context
        assert node.xids() == expected
        assert node.table.struck == []

    on_node(tmp_path, act)


@pytest.mark.parametrize(
    ("xid", "struck", "error"),
    [
        (48, [WORKER], CudaError.ECC_UNCORRECTABLE),
        (31, [WORKER], CudaError.ILLEGAL_ADDRESS),
        (63, [], None),  # contexts continue
    ],
)
def test_an_xid_ends_its_slice_s_contexts_with_its_result(
    tmp_path: Path, xid: int, struck: list[int], error: CudaError | None
) -> None:
    def act(node: Node) -> None:
        for one in node.slices:
            node.table.add(one)
        mine = node.slices[0].uuid
        node.inject(Kind.XID, mine, xid)
        assert node.table.struck == [(pid, error) for pid in struck]
        of = CLIENT if xid == 31 else 0  # a program's Xid names its instance
        assert node.xids() == [(xid, mine, of, "injected")]

    on_node(tmp_path, act)


def test_contained_memory_errors_change_the_health_of_their_slices_only(tmp_path: Path) -> None:
    def act(node: Node) -> None:
        for one in node.slices:
            node.table.add(one)
        for count, one in enumerate(node.slices[:2], start=1):
            node.inject(Kind.ECC_UNCORRECTED, one.uuid)
            assert [xid for xid, *_ in node.xids()] == [63, 94] * count
        healths = {uuid: health.state for uuid, health in node.faults._health.items()}
        assert healths == {one.uuid: State.SUSPECT for one in node.slices[:2]}

    on_node(tmp_path, act)


@pytest.mark.parametrize("of_slice", [False, True])
@pytest.mark.parametrize(
    ("lasts", "is_used", "state"),
    [
        (None, False, State.PROBATION),
        (None, True, State.UNHEALTHY),
        (Kind.HANG, False, State.UNHEALTHY),
        (Kind.HANG, True, State.UNHEALTHY),
        (Kind.THERMAL, False, State.PROBATION),
        (Kind.THERMAL, True, State.UNHEALTHY),
    ],
)
def test_what_still_hangs_or_is_used_is_not_reset(
    tmp_path: Path, of_slice: bool, lasts: Kind | None, is_used: bool, state: State
) -> None:
    def act(node: Node) -> None:
        where = node.slices[0].uuid if of_slice else ""
        node.inject(Kind.XID, where, 48)
        if lasts is not None:
            node.inject(lasts, where)
        if is_used:
            node.table.add(node.slices[0])
        assert node.faults._health[where or GPU.uuid].state is State.UNHEALTHY
        node.look()
        assert node.faults._health[where or GPU.uuid].state is state

    on_node(tmp_path, act)


def test_the_health_of_what_hangs_names_the_xid(tmp_path: Path) -> None:
    def act(node: Node) -> None:
        node.inject(Kind.HANG, "")
        health = node.faults._health[GPU.uuid]
        assert str(health) == f"Unhealthy: {GPU.uuid} hangs (Xid 109)"

    on_node(tmp_path, act)
