"""The resource under which a slice or a whole GPU is offered, by strategy: none, single, mixed."""

import pytest

from device_plugin.inventory.model import MigSlice
from device_plugin.inventory.resources import assign_resources, group_by_resource
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from mig import geometry

BOARD = geometry.board("h100-80gb")


def piece(uuid: str, profile: str, start: int = 0) -> MigSlice:
    place = geometry.Instance(BOARD.profile(profile), start)
    return MigSlice(uuid, "GPU-x", place, 1, 0, 1, "/run", 0, ())


SEVEN = [piece(f"MIG-{start}", "1g.10gb", start) for start in range(7)]
WHOLE = piece("GPU-1", "whole")
MEDIA = piece("MIG-me", "1g.10gb+me")


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (
            Strategy.MIXED,
            {"GPU-1": "p/gpu", "MIG-0": "p/mig-1g.10gb", "MIG-me": "p/mig-1g.10gb.me"},
        ),
        (Strategy.NONE, {"GPU-1": "p/gpu"}),
    ],
)
def test_each_strategy_names_slices_and_whole_gpus(
    strategy: Strategy, expected: dict[str, str]
) -> None:
    found = assign_resources("p", strategy, [WHOLE, SEVEN[0], MEDIA], ())
    assert (found.names, found.problem) == (expected, "")


@pytest.mark.parametrize("alike", [SEVEN, [WHOLE, piece("GPU-2", "whole")]])
def test_single_offers_equal_devices_as_gpu(alike: list[MigSlice]) -> None:
    found = assign_resources("nvidia.com", Strategy.SINGLE, alike, ())
    assert group_by_resource(found.names, alike) == {"nvidia.com/gpu": tuple(alike)}
    assert not found.problem


@pytest.mark.parametrize("other", [WHOLE, MEDIA, piece("MIG-9", "2g.20gb")])
def test_single_offers_nothing_of_a_node_whose_devices_differ(other: MigSlice) -> None:
    found = assign_resources("nvidia.com", Strategy.SINGLE, [*SEVEN, other], ())
    assert "1g.10gb" in found.problem
    assert str(other.instance.profile) in found.problem
    gone = assign_resources("nvidia.com", Strategy.SINGLE, [*SEVEN, other], {other.uuid})
    assert not gone.problem  # a withdrawn device does not count


def part(name: str, start: int, inner: int) -> MigSlice:
    place = BOARD.instance(name, start, inner)
    return MigSlice(f"MIG-{place}", "GPU-x", place, 1, 0, 1, "/run", 0, ())


def test_a_part_of_a_gpu_instance_has_a_resource_of_its_own() -> None:
    parts = [part("1c.3g.40gb", 4, at) for at in range(3)]
    mixed = assign_resources("nvidia.com", Strategy.MIXED, [*parts, piece("MIG-3", "3g.40gb")], ())
    assert {mixed.names[one.uuid] for one in parts} == {"nvidia.com/mig-1c.3g.40gb"}
    assert mixed.names["MIG-3"] == "nvidia.com/mig-3g.40gb"
    single = assign_resources("nvidia.com", Strategy.SINGLE, parts, ())
    assert (set(single.names.values()), single.problem) == ({"nvidia.com/gpu"}, "")
    uneven = assign_resources("nvidia.com", Strategy.SINGLE, [*parts, part("2c.3g.40gb", 0, 0)], ())
    assert "1c.3g.40gb, 2c.3g.40gb" in uneven.problem
