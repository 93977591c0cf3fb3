"""Sharing in NVIDIA's format: how it is resolved for a GPU, counted, and rejected."""

import dataclasses
from typing import Any

import pytest
from pydantic import ValidationError

from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, Strategy
from gpu_operator.api.v1alpha1.sharing import Shared, Sharing, SharingKind, resolve_sharing
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.nodes import sharing
from mig import geometry
from support.worlds.gpu_world import gpu, mig_slice, node, pool, world

SMALL = geometry.board("h100-80gb").profile("1g.10gb")
UUID = "GPU-11111111-1111-4111-8111-111111111111"


def config(kind: str = "timeSlicing", **changes: Any) -> Sharing:
    resources = [{"name": "nvidia.com/mig-1g.10gb", "replicas": 4}]
    return Sharing.model_validate({kind: {"resources": resources, **changes}})


def test_replicas_and_names_match_nvidia_s() -> None:
    (plain,) = resolve_sharing(config(), 0, UUID)
    assert (plain.name, plain.offered_as, plain.replicas) == ("mig-1g.10gb", "mig-1g.10gb", 4)
    assert (plain.kind, plain.fail_greater_than_one) == (SharingKind.TIME_SLICING, False)
    (renamed,) = resolve_sharing(config(renameByDefault=True), 0, UUID)
    assert renamed.offered_as == "mig-1g.10gb.shared"
    named = [{"name": "gpu", "replicas": 2, "rename": "nvidia.com/gpu-small"}]
    (own,) = resolve_sharing(config(renameByDefault=True, resources=named), 0, UUID)
    assert (own.name, own.offered_as) == ("gpu", "gpu-small")
    assert resolve_sharing(None, 0, UUID) == ()


def test_mps_always_refuses_more_than_one() -> None:
    (one,) = resolve_sharing(config("mps"), 0, UUID)
    assert (one.kind, one.fail_greater_than_one) == (SharingKind.MPS, True)


@pytest.mark.parametrize(
    ("devices", "shared"), [(["all"], True), (["0"], True), (["1"], False), ([UUID], True)]
)
def test_devices_limits_sharing_to_some_gpus(devices: list[str], shared: bool) -> None:
    resources = [{"name": "gpu", "replicas": 2, "devices": devices}]
    assert bool(resolve_sharing(config(resources=resources), 0, UUID)) == shared


def test_a_name_of_maximum_length_does_not_block_a_pool() -> None:
    """With ".shared" the name was too long for a GPU's spec, which blocked every pool."""
    named = [{"name": f"nvidia.com/mig-{'x' * 238}", "replicas": 2}, {"name": "gpu", "replicas": 2}]
    (one,) = resolve_sharing(config(renameByDefault=True, resources=named), 0, UUID)
    assert one.offered_as == "gpu.shared"


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeSlicing": {"resources": []}},
        {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 1}]}},
        {"mps": {"resources": [{"name": "gpu", "replicas": 49}]}},
        {"mps": {"resources": [{"name": "gpu", "replicas": 2, "device": ["0"]}]}},
        {
            "mps": {"resources": [{"name": "gpu", "replicas": 2}]},
            "timeSlicing": {"resources": [{"name": "gpu", "replicas": 2}]},
        },
    ],
)
def test_contradictory_sharing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Sharing.model_validate(wrong)


@pytest.mark.parametrize(
    ("name", "strategy", "message"),
    [
        ("nvidia.com/gpu", "single", ""),
        ("gpu.tessera.dev/mig-1g.10gb", "mixed", ""),
        ("mig-1g.10gb", "single", "sharing: strategy single offers no mig-1g.10gb"),
        ("amd.com/gpu", "mixed", "sharing: amd.com/gpu does not have the prefix gpu.tessera.dev"),
        ("cpu", "mixed", "sharing: cpu is neither gpu nor mig-<profile>"),
        (
            f"mig-{'x' * 249}",
            "mixed",
            f"sharing: mig-{'x' * 59}... is too long for a resource's name",
        ),
    ],
)
def test_resources_that_are_never_offered_are_reported(
    name: str, strategy: str, message: str
) -> None:
    shared = config(resources=[{"name": name, "replicas": 2}])
    policy = GPUPolicySpec(strategy=Strategy(strategy), sharing=shared)
    assert sharing.find_sharing_problem(policy) == message


def test_a_node_offers_each_slice_as_often_as_it_is_shared() -> None:
    made = gpu(want=["1g.10gb@0"], have=[mig_slice("1g.10gb@0")])
    shared = resolve_sharing(config(), 0, UUID)
    made = dataclasses.replace(made, spec=made.spec.model_copy(update={"sharing": shared}))
    on = node()
    assert offers.count_active(world(on, pool(), made), on) == {"gpu.tessera.dev/mig-1g.10gb": 4}
    renamed = Shared(**{**shared[0].model_dump(), "offered_as": "mig-1g.10gb.shared"})
    later = dataclasses.replace(made, spec=made.spec.model_copy(update={"sharing": (renamed,)}))
    # its agent has not renamed it yet
    assert offers.count_active(world(on, pool(), later), on) == {}
    assert later.spec.resource_of(SMALL) == "mig-1g.10gb.shared"
    assert offers.is_ours("nvidia.com/gpu.shared", "nvidia.com")


@pytest.mark.parametrize("shared", [True, False])
def test_a_slice_counts_as_offered_once_its_sharing_matches(shared: bool) -> None:
    """The name may stay while a device becomes shared or stops being shared."""
    had = mig_slice("1g.10gb@0", "team/train").model_copy(update={"shared": not shared})
    made = gpu(want=["1g.10gb@0"], have=[had, mig_slice("1g.10gb@1")])
    sharing = resolve_sharing(config(), 0, UUID) if shared else ()
    made = dataclasses.replace(made, spec=made.spec.model_copy(update={"sharing": sharing}))
    on, seen = node(), world(node(), pool(), made)
    assert offers.count_active(seen, on) == {had.resource: 4 if shared else 1}
    assert "as before the change" in offers.explain_late_offer(
        seen, on, [had.model_copy(update={"holders": ()})]
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [("7", 7), ("1k", 1000), ("1e3", 1000), ("2688", 2688), ("", 0), ("-1", 0), ("9" * 5000, 0)],
)
def test_allocatable_is_parsed_as_a_quantity(text: str, count: int) -> None:
    """Forty slices with 25 shares each are 1k of a resource in a node's status."""
    assert offers.allocatable_count(node(allocatable={"x/gpu": text}), "x/gpu") == count
    assert offers.allocatable_count(node(), "x/gpu") == 0
