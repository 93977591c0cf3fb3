"""What of a policy's sharing has no effect, and what labels tell of the rest."""

from collections.abc import Mapping

from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, Strategy
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.render import features
from mig.geometry import WHOLE_RESOURCE

_SHOWN = 63
NVIDIA = "nvidia.com"  # configurations written for its device plugin name resources by this


def problem(policy: GPUPolicySpec) -> str:
    """Say which shared resources the policy never offers; empty: all may be offered."""
    config = policy.sharing.config if policy.sharing is not None else None
    if config is None:
        return ""
    wrong, seen = [], set()
    for one in config.resources:
        prefix = one.name.rpartition("/")[0]
        if not one.is_a_resource:
            wrong.append(f"{one.short[:_SHOWN]}... is longer than a resource's name can be")
        elif prefix not in ("", NVIDIA, policy.resource_prefix):
            wrong.append(f"{one.name} is not of the prefix {policy.resource_prefix}")
        elif one.short != WHOLE_RESOURCE and not one.short.startswith("mig-"):
            wrong.append(f"{one.name} is neither {WHOLE_RESOURCE} nor mig-<profile>")
        elif one.short != WHOLE_RESOURCE and policy.strategy is not Strategy.MIXED:
            wrong.append(f"strategy {policy.strategy.value} offers no {one.short}")
        elif (one.short, one.devices) in seen:
            wrong.append(f"{one.name} is named twice: the first counts")
        seen.add((one.short, one.devices))
    return f"sharing: {'; '.join(wrong)}" if wrong else ""


def of_labels(gpu: Gpu) -> Mapping[str, features.Sharing]:
    """Return how a GPU's resources are shared, for GPU Feature Discovery's labels."""
    return {
        one.name: features.Sharing(
            replicas=one.replicas,
            strategy=one.kind.value,
            renamed=one.offered_as != one.name,
        )
        for one in gpu.spec.sharing
    }
