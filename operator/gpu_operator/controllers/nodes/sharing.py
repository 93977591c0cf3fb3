"""Validation of a policy's sharing, and its data for node labels."""

from collections.abc import Mapping

from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, Strategy
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.render import features
from mig.geometry import WHOLE_RESOURCE

_SHOWN = 63
NVIDIA = "nvidia.com"  # prefix of resources in configurations for NVIDIA's device plugin


def find_sharing_problem(policy: GPUPolicySpec) -> str:
    """Return what is wrong in the policy's list of shared resources; empty if nothing is."""
    config = policy.sharing.config if policy.sharing is not None else None
    if config is None:
        return ""
    wrong, seen = [], set()
    for one in config.resources:
        prefix = one.name.rpartition("/")[0]
        if not one.is_a_resource:
            wrong.append(f"{one.short[:_SHOWN]}... is too long for a resource's name")
        elif prefix not in ("", NVIDIA, policy.resource_prefix):
            wrong.append(f"{one.name} does not have the prefix {policy.resource_prefix}")
        elif one.short != WHOLE_RESOURCE and not one.short.startswith("mig-"):
            wrong.append(f"{one.name} is neither {WHOLE_RESOURCE} nor mig-<profile>")
        elif one.short != WHOLE_RESOURCE and policy.strategy is not Strategy.MIXED:
            wrong.append(f"strategy {policy.strategy.value} offers no {one.short}")
        elif (one.short, one.devices) in seen:
            wrong.append(f"{one.name} is listed twice: the first entry applies")
        seen.add((one.short, one.devices))
    return f"sharing: {'; '.join(wrong)}" if wrong else ""


def label_sharing(gpu: Gpu) -> Mapping[str, features.Sharing]:
    """Return how each of a GPU's resources is shared, by the resource's name.

    GPU Feature Discovery's labels describe this sharing.
    """
    return {
        one.name: features.Sharing(
            replicas=one.replicas,
            strategy=one.kind.value,
            renamed=one.offered_as != one.name,
        )
        for one in gpu.spec.sharing
    }
