"""Another plugin serves one of Tessera's resources: its start and its end are reported once."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from device_plugin.agent.reporting.rivals import CONFIRMED_S, LOOK_S, Rivals
from device_plugin.errors import PodResourcesError
from gpu_operator.api.v1alpha1.base import Reason

GPU = "nvidia.com/gpu"
OURS = "GPU-11111111-1111-4111-8111-111111111111"
THEIRS = "GPU-99999999-9999-4999-8999-999999999999"
OBJECTS = [SimpleNamespace(name=f"gpu-{i}", object_uid=f"uid-{i}") for i in (2, 1)]


class World:
    """The kubelet's answer, a clock, and the events that were posted."""

    def __init__(self) -> None:
        self.now = 100.0
        self.listed: Mapping[str, tuple[str, ...]] | None = {GPU: (OURS,)}
        self.events: list[tuple[str, Reason, str, bool]] = []
        self.requested = 0
        self.rivals = Rivals(self, self, lambda: self.now)  # type: ignore[arg-type]

    def allocatable(self) -> Mapping[str, tuple[str, ...]]:
        self.requested += 1
        if self.listed is None:
            raise PodResourcesError("UNAVAILABLE")
        return self.listed

    def post_gpu(self, name: str, uid: str, reason: Reason, message: str, warning: bool) -> bool:
        del uid
        self.events.append((name, reason, message, warning))
        return True

    def look(
        self, later_s: float = LOOK_S, resources: tuple[str, ...] = (GPU,)
    ) -> Mapping[str, str]:
        self.now += later_s
        objects: Any = OBJECTS
        return self.rivals.find_rivals(resources, {OURS}, objects)


@pytest.fixture
def world() -> World:
    return World()


def test_our_own_devices_are_no_rival_s(world: World) -> None:
    world.listed = {GPU: (OURS, f"{OURS}::1"), "intel.com/gpu": ("card0",)}
    assert not world.look()
    assert not world.look(CONFIRMED_S)
    assert world.events == []


def test_a_confirmed_rival_is_reported_once_and_so_is_its_end(world: World) -> None:
    world.listed = {GPU: (THEIRS,)}
    assert not world.look(), "the kubelet may be a moment behind"
    found = world.look(CONFIRMED_S)
    assert "another device plugin serves nvidia.com/gpu" in found[GPU]
    assert THEIRS in found[GPU]
    assert world.look() == found
    ((name, reason, message, warning),) = world.events
    assert (name, reason, message, warning) == ("gpu-1", Reason.RESOURCE_CONFLICT, found[GPU], True)
    world.listed = {GPU: (OURS,)}
    assert not world.look()
    assert [event[3] for event in world.events] == [True, False]


def test_a_moment_is_not_enough(world: World) -> None:
    world.listed = {GPU: (OURS, THEIRS)}
    world.look()
    world.listed = {GPU: (OURS,)}
    world.look()
    world.listed = {GPU: (OURS, THEIRS)}
    assert not world.look(), "the count begins anew"


def test_other_resources_are_ignored(world: World) -> None:
    world.listed = {GPU: (THEIRS,)}
    world.look(resources=("gpu.tessera.dev/gpu",))
    assert not world.look(CONFIRMED_S, ("gpu.tessera.dev/gpu",))


def test_the_kubelet_is_queried_seldom_and_its_silence_changes_nothing(world: World) -> None:
    world.listed = {GPU: (THEIRS,)}
    world.look()
    world.look(CONFIRMED_S)
    world.look(0.1)
    assert world.requested == 2
    world.listed = None
    assert world.look()[GPU]
    assert len(world.events) == 1


def test_many_and_long_names_are_cut(world: World) -> None:
    world.listed = {GPU: tuple(f"{i}" * 500 for i in range(9))}
    world.look()
    message = world.look(CONFIRMED_S)[GPU]
    assert "and 7 more" in message
    assert len(message) < 500
