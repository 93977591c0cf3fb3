"""The known holders, and the reports to gpud, from one List to the next."""

from typing import Any

import pytest

from device_plugin.agent.holders import Holders
from device_plugin.agent.holding import ABSENT_S, HolderMemory
from device_plugin.errors import PodResourcesError
from device_plugin.inventory.model import HolderPod
from device_plugin.podresources.client import Listing

OLD = HolderPod("team", "train", "uid-old")
NEW = HolderPod("team", "other", "uid-new")


def test_a_listed_pod_is_a_holder_at_once_and_the_first_list_is_never_complete() -> None:
    memory = HolderMemory()
    view = memory.observe({"MIG-1": (OLD,)}, True, 0.0)
    assert view.holders == {"MIG-1": (OLD,)}
    assert not view.complete
    assert not memory.observe({"MIG-1": (OLD,)}, True, ABSENT_S - 0.1).complete
    assert memory.observe({"MIG-1": (OLD,)}, True, ABSENT_S).complete


def test_empty_lists_of_a_kubelet_that_has_not_synced_drop_no_holder() -> None:
    memory = HolderMemory()
    memory.observe({"MIG-1": (OLD,)}, True, 0.0)
    for moment in range(1, 1000):
        assert memory.observe({}, False, float(moment)).holders == {"MIG-1": (OLD,)}
    # Nor does the first List of a kubelet that has synced: it may be incomplete.
    assert memory.observe({}, True, 1000.0).holders == {"MIG-1": (OLD,)}
    assert memory.observe({"MIG-1": (OLD,)}, True, 1001.0).holders == {"MIG-1": (OLD,)}
    assert memory.observe({}, True, 1004.0).holders == {"MIG-1": (OLD,)}


def test_a_pod_missing_from_whole_lists_some_seconds_apart_is_gone() -> None:
    memory = HolderMemory()
    memory.observe({"MIG-1": (OLD,)}, True, 0.0)
    assert memory.observe({}, True, 10.0).holders
    assert memory.observe({}, True, 10.0 + ABSENT_S - 0.1).holders
    view = memory.observe({}, True, 10.0 + ABSENT_S)
    assert (dict(view.holders), view.complete) == ({}, True)


def test_a_doubtful_list_between_starts_the_wait_anew() -> None:
    memory = HolderMemory()
    memory.observe({"MIG-1": (OLD,)}, True, 0.0)
    memory.observe({}, True, 10.0)
    memory.observe({}, False, 11.0)
    assert memory.observe({}, True, 10.0 + ABSENT_S).holders


def test_a_slice_that_the_kubelet_gave_to_another_pod_changes_hands_at_once() -> None:
    memory = HolderMemory()
    memory.observe({"MIG-1": (OLD,)}, True, 0.0)
    assert memory.observe({"MIG-1": (NEW,)}, True, 0.1).holders == {"MIG-1": (NEW,)}
    # a forced deletion: another pod of the same name
    reborn = HolderPod("team", "other", "uid-newer")
    assert memory.observe({"MIG-1": (reborn,)}, True, 0.2).holders == {"MIG-1": (reborn,)}


def test_a_pod_whose_log_directory_is_not_there_keeps_the_uid_it_had() -> None:
    memory = HolderMemory()
    nameless = HolderPod(OLD.namespace, OLD.name, "")
    assert memory.observe({"MIG-1": (nameless,)}, True, 0.0).holders == {"MIG-1": (nameless,)}
    memory.observe({"MIG-1": (OLD,)}, True, 1.0)
    assert memory.observe({"MIG-1": (nameless,)}, True, 2.0).holders == {"MIG-1": (OLD,)}


class Kubelet:
    """Stands in for the kubelet."""

    def __init__(self) -> None:
        self.answer: Listing | None = None

    def list(self) -> Listing:
        if self.answer is None:
            raise PodResourcesError("kubelet restarts")
        return self.answer


class FakeGpud:
    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, Any], bool]] = []

    def set_holders(self, holders: dict[str, Any], complete: bool) -> None:
        self.calls.append((holders, complete))


def make(kubelet: Kubelet, reported: FakeGpud) -> Holders:
    moments = iter(float(second) for second in range(1000))
    return Holders(
        kubelet,  # type: ignore[arg-type]
        reported,  # type: ignore[arg-type]
        "agent-1",
        lambda: next(moments) * ABSENT_S,
    )


def test_gpud_gets_the_last_known_holders_when_the_kubelet_is_silent() -> None:
    kubelet, reported = Kubelet(), FakeGpud()
    holders = make(kubelet, reported)
    with pytest.raises(PodResourcesError):
        holders.refresh()
    assert reported.calls == [({}, False)]  # nothing is known, so no pod is fenced
    kubelet.answer = Listing({"MIG-1": (OLD,)}, {}, frozenset({"agent-1", "train"}))
    holders.refresh()
    holders.refresh()
    assert reported.calls[-1] == ({"MIG-1": [OLD]}, True)
    kubelet.answer = None
    with pytest.raises(PodResourcesError):
        holders.refresh()
    assert reported.calls[-1] == ({"MIG-1": [OLD]}, True)


def test_a_list_without_the_agents_own_pod_is_not_the_whole_node() -> None:
    kubelet, reported = Kubelet(), FakeGpud()
    holders = make(kubelet, reported)
    kubelet.answer = Listing({"MIG-1": (OLD,)}, {}, frozenset({"agent-1", "train"}))
    holders.refresh()
    kubelet.answer = Listing({}, {}, frozenset())
    for _ in range(5):
        assert holders.refresh().holders == {"MIG-1": (OLD,)}
    kubelet.answer = Listing({}, {}, frozenset({"agent-1"}))
    assert holders.refresh().holders
    assert not holders.refresh().holders
    assert holders.pod("uid-old") == OLD  # events about it may still arrive
