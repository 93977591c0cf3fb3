"""Events of health: each change from one state to another, of a GPU and of its slices."""

from typing import Any, cast

import pytest

from device_plugin.agent.reporting.healths import Healths
from device_plugin.agent.reporting.notices import Notices
from device_plugin.inventory.model import Gpu, HolderPod, MigSlice
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import GPUStatus, Slice, SliceState
from mig import geometry

BOARD = geometry.board("h100-80gb")
STATES = ("Healthy", "Suspect", "Unhealthy", "Probation")
OUT = ("Unhealthy", "Probation")  # out of service
REASONS = {
    "Healthy": Reason.HEALTHY,
    "Suspect": Reason.SUSPECT,
    "Unhealthy": Reason.UNHEALTHY,
    "Probation": Reason.PROBATION,
}
HOLDER, OTHER = HolderPod("team", "train", "u"), HolderPod("team", "other", "v")


class World:
    """A GPU with two slices, and the events that were posted."""

    def __init__(self, last: str = "Healthy") -> None:
        self.on_gpu: list[tuple[str, str, Reason, str, bool]] = []
        self.on_pods: list[tuple[HolderPod, Reason, str, bool]] = []
        self.healths = Healths(cast("Notices", self))
        self.last = last
        self.status: GPUStatus | None = None
        self.is_full = False

    def post_health(self, *said: Any) -> bool:
        """Stand in for ``Notices.post_health``."""
        if not self.is_full:
            self.on_gpu.append(cast("Any", said))
        return not self.is_full

    def post(self, *said: Any) -> bool:
        """Stand in for ``Notices.post``."""
        self.on_pods.append(cast("Any", said))
        return True

    def make_pass(self, gpu: str = "Healthy", one: str = "Healthy", other: str = "Healthy") -> None:
        """Make one pass in which the devices have these healths."""
        slices = tuple(
            MigSlice(
                f"MIG-{start}",
                "GPU-1",
                geometry.Instance(BOARD.profile("1g.10gb"), start),
                *(1, 0, 1, "/run", 0, ()),
                health=health,
            )
            for start, health in enumerate((one, other))
        )
        status = self.status or GPUStatus(health=self.last)
        wanted: Any = [
            GpuObjectLike("gone", "GPU-2", status),
            GpuObjectLike("g", "GPU-1", status),
        ]
        holders = {"MIG-0": (HOLDER,), "MIG-1": (OTHER,), "GPU-1": (HOLDER,)}
        self.healths.notify(wanted, (Gpu("GPU-1", 0, BOARD, gpu, slices),), holders)


class GpuObjectLike:
    """The attributes of a ``GpuObject`` that ``Healths`` reads."""

    def __init__(self, name: str, uuid: str, status: GPUStatus) -> None:
        self.name, self.uuid, self.status = name, uuid, status
        self.object_uid = f"uid-{name}"


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
@pytest.mark.parametrize("first", [True, False])
def test_a_change_is_reported_once_and_to_pods_only_losses_and_recoveries(
    before: str, after: str, first: bool
) -> None:
    """A new agent compares with the status, a running agent with its last report."""
    world = World(last=before if first else "Healthy")
    if not first:
        world.make_pass(gpu=before)
        world.on_gpu.clear()
        world.on_pods.clear()
    for _ in range(2):  # the second pass changes nothing
        world.make_pass(gpu=f"{after}: cause" if after != "Healthy" else after)
        shown = f"{after}: cause" if after != "Healthy" else after
        message = f"GPU GPU-1 is {shown}; before: {before}"
        reported = ("g", "uid-g", REASONS[after], message, after != "Healthy")
        assert world.on_gpu == ([reported] if after != before else [])
        loses = (before in OUT) != (after in OUT)
        on_pod = (HOLDER, REASONS[after], message, after != "Healthy")
        assert world.on_pods == ([on_pod] if loses else [])


def test_a_slice_s_change_is_reported_separately_from_its_gpu_s() -> None:
    world = World()
    world.make_pass(one="Unhealthy: Xid 94")
    (reported,) = world.on_gpu
    assert reported[3] == "slice 1g.10gb@0 (MIG-0) is Unhealthy: Xid 94; before: Healthy"
    assert [pod for pod, *_ in world.on_pods] == [HOLDER]
    # the state is the same, only the cause has changed
    world.make_pass(one="Unhealthy: another cause")
    world.make_pass(one="Unhealthy", other="Unhealthy")
    assert [pod for pod, *_ in world.on_pods] == [HOLDER, OTHER]
    world.make_pass(other="Unhealthy")
    assert [reason for _, reason, *_ in world.on_pods][-1] is Reason.HEALTHY
    assert len(world.on_gpu) == 3


def test_a_fault_of_a_gpu_and_its_slices_is_one_event_and_so_is_each_step_of_its_recovery() -> None:
    """Events on one object are limited: a GPU with seven slices had no event of its recovery."""
    world = World()
    for state in ("Unhealthy: Xid 79", "Probation: Xid 79", "Healthy"):
        world.make_pass(gpu=state, one=state, other=state)
    slices = "; so are slice 1g.10gb@0, slice 1g.10gb@1"
    assert [message for *_, message, _ in world.on_gpu] == [
        f"GPU GPU-1 is Unhealthy: Xid 79; before: Healthy{slices}",
        f"GPU GPU-1 is Probation: Xid 79; before: Unhealthy{slices}",
        f"GPU GPU-1 is Healthy; before: Probation{slices}",
    ]
    lost = [(pod, reason, warning) for pod, reason, _, warning in world.on_pods]
    assert sorted(lost[-3:], key=str) == sorted(
        [(HOLDER, Reason.HEALTHY, False)] * 2 + [(OTHER, Reason.HEALTHY, False)], key=str
    )


def test_a_change_that_finds_the_queue_full_is_reported_by_a_later_pass() -> None:
    world = World()
    world.is_full = True
    for _ in range(3):
        world.make_pass(gpu="Unhealthy: Xid 79")
    assert world.on_pods == []
    world.is_full = False
    world.make_pass(gpu="Unhealthy: Xid 79")
    world.make_pass(gpu="Unhealthy: Xid 79")
    assert [message for *_, message, _ in world.on_gpu] == [
        "GPU GPU-1 is Unhealthy: Xid 79; before: Healthy"
    ]
    assert [pod for pod, *_ in world.on_pods] == [HOLDER]


def test_a_new_agent_repeats_no_event_of_a_slice() -> None:
    """A slice's status has the cause of its health, too."""
    world = World()
    known = Slice(
        uuid="MIG-0",
        profile="1g.10gb",
        start=0,
        resource="gpu.tessera.dev/mig-1g.10gb",
        state=SliceState.ACTIVE,
        memory_bytes=1,
        multiprocessors=1,
        health="Unhealthy: Xid 94",
    )
    world.status = GPUStatus(health="Healthy", slices=(known,))
    world.make_pass(one="Unhealthy: Xid 94")
    assert world.on_gpu == []


def test_of_a_gpu_of_which_nothing_is_known_yet_health_is_no_news() -> None:
    world = World(last="Unknown")
    world.make_pass()
    assert world.on_gpu == []
    world.make_pass(gpu="Suspect")
    assert [one[3] for one in world.on_gpu] == ["GPU GPU-1 is Suspect; before: Healthy"]
