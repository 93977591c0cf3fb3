"""Events on pods whose CUDA events measure modelled time: once for each pod and change."""

import dataclasses
from typing import cast

import pytest

from device_plugin.agent.reporting.clocks import Clocks
from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.reporting.status import clock_of
from device_plugin.inventory.model import Gpu, HolderPod, Inventory, MigSlice
from device_plugin.kube.gpu_object import GpuObject
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import (
    ClaimedSlice,
    GPUSpec,
    GPUStatus,
    Holder,
    Slice,
    SliceState,
)
from gpu_operator.api.v1alpha1.gpupool import Clock
from mig import geometry
from vgpu_sim.hal.observe.modelled_report import MODELLED, WALL

BOARD = geometry.board("h100-80gb")
TRAIN = HolderPod("team", "train", "uid-train")
OTHER = HolderPod("team", "other", "uid-other")
SPEC = GPUSpec(node_name="n", index=0, board=BOARD.key, uuid="GPU-1", pool="fast", instances=())


def mig_slice(start: int) -> MigSlice:
    place = geometry.Instance(BOARD.profile("1g.10gb"), start)
    return MigSlice(f"MIG-{start}", "GPU-1", place, 1, 0, 1, "/run", 0, ())


GPUS = (Gpu("GPU-1", 0, BOARD, "Healthy", (mig_slice(0), mig_slice(1))),)
ON_WALL_CLOCK = Inventory("1", "/lib", 1, 0, True, "", (), GPUS)


class Posted:
    """Stands in for ``Notices``; refuses events beyond the allowance."""

    def __init__(self) -> None:
        self.allowance = 100
        self.events: list[tuple[str, Reason, bool]] = []
        self.message = ""

    def post(self, pod: HolderPod, reason: Reason, message: str, warning: bool = True) -> bool:
        if len(self.events) >= self.allowance:
            return False
        self.events.append((pod.name, reason, warning))
        self.message = message
        return True


class Node:
    """One GPU with two slices, and an agent that can be restarted."""

    def __init__(self, status: GPUStatus | None = None) -> None:
        self.posted = Posted()
        self.status = status or GPUStatus(product="NVIDIA H100")
        self.start_agent()

    def start_agent(self) -> None:
        self.clocks = Clocks(cast(Notices, self.posted))

    def make_pass(
        self, clock: str, **holders: tuple[HolderPod, ...]
    ) -> list[tuple[str, Reason, bool]]:
        """Make one pass; return the events that it posted."""
        before = len(self.posted.events)
        held = {uuid.replace("_", "-"): pods for uuid, pods in holders.items()}
        known = GpuObject("n-gpu-0", "GPU-1", 1, False, SPEC, self.status)
        self.clocks.notify((known,), dataclasses.replace(ON_WALL_CLOCK, clock=clock), held)
        return self.posted.events[before:]


MODELLED_EVENT = ("train", Reason.MODELLED_CLOCK, False)


def test_with_the_wall_clock_no_event_is_posted() -> None:
    assert Node().make_pass(WALL, MIG_0=(TRAIN,), MIG_1=(OTHER,)) == []


def test_a_pod_is_notified_once_of_the_modelled_clock_and_its_board() -> None:
    node = Node()
    assert node.make_pass(MODELLED, MIG_0=(TRAIN,), MIG_1=(TRAIN,)) == [MODELLED_EVENT]
    assert "the modelled time of NVIDIA H100 or its slice" in node.posted.message
    assert "GPUPool fast has clock: Modelled" in node.posted.message
    assert node.make_pass(MODELLED, MIG_0=(TRAIN,), MIG_1=(TRAIN,)) == []
    assert node.make_pass(MODELLED, MIG_0=(TRAIN,), MIG_1=(OTHER,)) == [
        ("other", Reason.MODELLED_CLOCK, False)
    ]


def test_a_clock_that_is_changed_back_is_news_too() -> None:
    node = Node()
    node.make_pass(MODELLED, MIG_0=(TRAIN,))
    assert node.make_pass(WALL, MIG_0=(TRAIN,)) == [("train", Reason.WALL_CLOCK, False)]
    assert node.make_pass(WALL, MIG_0=(TRAIN,)) == []


@pytest.mark.parametrize("by_claim", [False, True])
def test_a_new_agent_repeats_no_event_that_the_status_shows(by_claim: bool) -> None:
    place = mig_slice(0)
    common = {
        "uuid": place.uuid,
        "profile": "1g.10gb",
        "start": 0,
        "memory_bytes": 1,
        "multiprocessors": 1,
        "holders": (Holder(namespace="team", name="train", uid=TRAIN.uid),),
    }
    there = (
        {"claims": (ClaimedSlice(**common, claim=Holder(namespace="team", name="c", uid="u")),)}
        if by_claim
        else {"slices": (Slice(**common, state=SliceState.ACTIVE, resource="gpu"),)}
    )
    node = Node(GPUStatus(clock=Clock.MODELLED, **there))
    assert node.make_pass(MODELLED, MIG_0=(TRAIN,)) == []
    node.start_agent()
    assert node.make_pass(WALL, MIG_0=(TRAIN,)) == [("train", Reason.WALL_CLOCK, False)]
    node = Node(GPUStatus(clock=Clock.WALL, **there))  # the pod was there before the clock changed
    assert node.make_pass(MODELLED, MIG_0=(TRAIN,)) == [MODELLED_EVENT]


def test_an_event_beyond_the_allowance_is_posted_later() -> None:
    node = Node()
    node.posted.allowance = 0
    assert node.make_pass(MODELLED, MIG_0=(TRAIN,)) == []
    node.posted.allowance = 1
    assert node.make_pass(MODELLED, MIG_0=(TRAIN,)) == [MODELLED_EVENT]


def test_a_pod_of_unknown_identity_gets_no_event() -> None:
    assert Node().make_pass(MODELLED, MIG_0=(HolderPod("team", "train", ""),)) == []


def test_the_status_words_it_as_the_pool_does() -> None:
    assert clock_of(ON_WALL_CLOCK) is Clock.WALL
    assert clock_of(dataclasses.replace(ON_WALL_CLOCK, clock=MODELLED)) is Clock.MODELLED
