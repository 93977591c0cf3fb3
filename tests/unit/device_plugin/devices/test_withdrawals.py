"""Events on pods whose slice is withdrawn: once for each pod and change."""

from typing import Any, cast

import pytest

from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.steps import Steps
from device_plugin.agent.withdrawals import Withdrawals
from device_plugin.inventory.model import Gpu, HolderPod, Inventory, MigSlice
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import GPUSpec
from mig import geometry

BOARD = geometry.board("h100-80gb")
TRAIN = HolderPod("team", "train", "uid-train")
OTHER = HolderPod("team", "other", "uid-other")
SPEC = GPUSpec(
    node_name="n", index=0, board=BOARD.key, uuid="GPU-1", pool="p", layout="mixed", instances=()
)


def mig_slice(start: int) -> MigSlice:
    place = geometry.Instance(BOARD.profile("1g.10gb"), start)
    return MigSlice(f"MIG-{start}", "GPU-1", place, 1, 0, 1, "/run", 0, ())


SLICES = mig_slice(0), mig_slice(1)


class Posted:
    """Stands in for ``Notices``; refuses events beyond the allowance."""

    def __init__(self, allowance: int = 100) -> None:
        self.allowance = allowance
        self.events: list[tuple[str, Reason, str]] = []

    def post(self, pod: HolderPod, reason: Reason, message: str, warning: bool = True) -> bool:
        assert warning == (reason is Reason.SLICE_WITHDRAWN)
        if len(self.events) >= self.allowance:
            return False
        self.events.append((pod.name, reason, message))
        return True


class Node:
    """One GPU with two slices."""

    def __init__(self, allowance: int = 100) -> None:
        self.posted = Posted(allowance)
        self._withdrawals = Withdrawals(cast(Notices, self.posted))

    def make_pass(
        self, *withdrawn: MigSlice, spec: GPUSpec | None = SPEC, **holders: tuple[HolderPod, ...]
    ) -> int:
        """Make one pass; return the number of events so far."""
        gpus = (Gpu("GPU-1", 0, BOARD, "Healthy", SLICES),)
        steps = {"GPU-1": Steps(withdraw=withdrawn)}
        held: Any = {uuid.replace("_", "-"): pods for uuid, pods in holders.items()}
        specs = {"GPU-1": spec} if spec else {}
        there = Inventory("1", "/lib", 1, 0, True, "", ("seccomp",), gpus)
        self._withdrawals.notify(there, steps, held, specs)
        return len(self.posted.events)


def test_a_pod_is_notified_once_that_its_slice_is_withdrawn_and_why() -> None:
    node = Node()
    assert node.make_pass(MIG_0=(TRAIN,)) == 0
    for _ in range(3):
        assert node.make_pass(SLICES[0], MIG_0=(TRAIN,), MIG_1=(OTHER,)) == 1
    ((pod, reason, message),) = node.posted.events
    assert (pod, reason) == ("train", Reason.SLICE_WITHDRAWN)
    assert "slice 1g.10gb@0 of GPU 0 has to go: MIGLayout mixed requests others" in message
    assert "keeps it until it ends" in message


def test_a_later_holder_is_notified_too() -> None:
    node = Node()
    assert node.make_pass(*SLICES, MIG_0=(TRAIN,)) == 1
    assert node.make_pass(*SLICES, MIG_0=(TRAIN,), MIG_1=(OTHER,)) == 2


def test_a_pod_is_notified_that_it_keeps_its_slice_after_all() -> None:
    """Without that the pod's last event would state for ever that the slice has to go."""
    node = Node()
    assert node.make_pass(SLICES[0], MIG_0=(TRAIN,)) == 1
    for _ in range(2):
        assert node.make_pass(MIG_0=(TRAIN,)) == 2
    assert node.posted.events[1] == (
        "train",
        Reason.SLICE_KEPT,
        "slice 1g.10gb@0 of GPU 0 stays: its GPU's layout no longer removes it",
    )
    assert node.make_pass(SLICES[0], MIG_0=(TRAIN,)) == 3  # withdrawn again


def test_a_pod_that_has_ended_is_not_notified_that_it_keeps_its_slice() -> None:
    node = Node()
    node.make_pass(SLICES[0], MIG_0=(TRAIN,))
    assert node.make_pass(MIG_0=(OTHER,)) == 1
    assert node.make_pass(MIG_0=(TRAIN,)) == 1


def test_that_a_pod_keeps_its_slice_is_posted_later_beyond_the_allowance() -> None:
    node = Node(allowance=1)
    node.make_pass(SLICES[0], MIG_0=(TRAIN,))
    assert node.make_pass(MIG_0=(TRAIN,)) == 1
    node.posted.allowance = 5
    assert node.make_pass(MIG_0=(TRAIN,)) == 2


def test_an_event_beyond_the_allowance_is_posted_later() -> None:
    node = Node(allowance=1)
    assert node.make_pass(*SLICES, MIG_0=(TRAIN,), MIG_1=(TRAIN,)) == 1
    node.posted.allowance = 5
    assert node.make_pass(*SLICES, MIG_0=(TRAIN,), MIG_1=(TRAIN,)) == 2


def test_a_pod_without_a_uid_is_notified_once_it_has_one() -> None:
    node = Node()
    assert node.make_pass(SLICES[0], MIG_0=(HolderPod("team", "train", ""),)) == 0
    assert node.make_pass(SLICES[0], MIG_0=(TRAIN,)) == 1


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (None, "the GPU leaves the node"),
        (SPEC.model_copy(update={"layout": None}), "no layout requests it any more"),
    ],
)
def test_the_reason_is_named(spec: GPUSpec | None, why: str) -> None:
    node = Node()
    node.make_pass(SLICES[0], spec=spec, MIG_0=(TRAIN,))
    assert why in node.posted.events[0][2]
