"""Pools in a world: decisions about them, and the DaemonSets that serve them."""

from typing import Any

from gpu_world import GPU_NODE, NOW, pool

from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.resource import Pool
from gpu_operator.config import NodeConfig
from gpu_operator.controllers import pools
from gpu_operator.controllers.world import AgentSet, Outcome, World
from gpu_operator.render import daemonset

CONFIG = NodeConfig(image="tessera:1", service_account="tessera-node")
IN_POOL = GPU_NODE | {
    POOL_LABEL: "p",
    "gpu.tessera.dev/gpu.present": "true",
    "gpu.tessera.dev/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "gpu.tessera.dev/gpu.count": "1",
    "gpu.tessera.dev/gpu.memory": "81559",
    "gpu.tessera.dev/gpu.compute.major": "9",
    "gpu.tessera.dev/gpu.compute.minor": "0",
    "gpu.tessera.dev/mig.capable": "true",
    "gpu.tessera.dev/mig.strategy": "mixed",
}


def decide(seen: World, name: str = "p") -> Outcome:
    return pools.reconcile(seen, name, CONFIG, "tessera-system", NOW)


def agent_set(wanted: Pool | None = None, **changes: Any) -> dict[str, AgentSet]:
    """The DaemonSet that was rendered from this pool, rolled out unless ``changes`` say else."""
    meant = wanted or pool()
    document = daemonset.daemon_set("p", meant.spec, GPUPolicySpec(), CONFIG, "tessera-system")
    rendered = document["metadata"]["annotations"][daemonset.RENDERED]
    state = {"rendered": rendered, "observed": True, "pods": 1, "updated": 1, **changes}
    return {"tessera-node-p": AgentSet("p", **state)}
