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
    wrong, listed_keys = [], set()
    for resource in config.resources:
        prefix = resource.name.rpartition("/")[0]
        if not resource.is_a_resource:
            wrong.append(f"{resource.short[:_SHOWN]}... is too long for a resource's name")
        elif prefix not in ("", NVIDIA, policy.resource_prefix):
            wrong.append(f"{resource.name} does not have the prefix {policy.resource_prefix}")
        elif resource.short != WHOLE_RESOURCE and not resource.short.startswith("mig-"):
            wrong.append(f"{resource.name} is neither {WHOLE_RESOURCE} nor mig-<profile>")
        elif resource.short != WHOLE_RESOURCE and policy.strategy is not Strategy.MIXED:
            wrong.append(f"strategy {policy.strategy.value} offers no {resource.short}")
        elif (resource.short, resource.devices) in listed_keys:
            wrong.append(f"{resource.name} is listed twice: the first entry applies")
        listed_keys.add((resource.short, resource.devices))
    return f"sharing: {'; '.join(wrong)}" if wrong else ""


def label_sharing(gpu: Gpu) -> Mapping[str, features.Sharing]:
    """Return how each of a GPU's resources is shared, by the resource's name.

    GPU Feature Discovery's labels describe this sharing.
    """
    return {
        shared_resource.name: features.Sharing(
            replicas=shared_resource.replicas,
            strategy=shared_resource.kind.value,
            renamed=shared_resource.offered_as != shared_resource.name,
        )
        for shared_resource in gpu.spec.sharing
    }
