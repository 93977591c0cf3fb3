"""Pools in a world: decisions about them, and their DaemonSets."""

from typing import Any

from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.resource import Pool
from gpu_operator.config import NodeConfig
from gpu_operator.controllers.common.world import AgentSet, Outcome, World
from gpu_operator.controllers.pools import pools
from gpu_operator.render import daemonset, features, gpud
from support.worlds.gpu_world import BOARD, GPU_NODE, NOW, pool

CONFIG = NodeConfig(image="tessera:1", service_account="tessera-node")
IN_POOL = GPU_NODE | {
    POOL_LABEL: "p",
    "gpu.tessera.dev/gfd.timestamp": "1767323045",
    **{
        f"gpu.tessera.dev/{name}": value
        for name, value in features.labels(
            [features.Device(BOARD, mig_enabled=False)], "mixed"
        ).items()
    },
}


def decide(seen: World, name: str = "p") -> Outcome:
    return pools.reconcile(seen, name, CONFIG, "tessera-system", NOW)


def agent_set(wanted: Pool | None = None, **changes: Any) -> dict[str, AgentSet]:
    """Return the DaemonSets rendered from this pool, rolled out unless ``changes`` state
    otherwise.
    """
    meant = (wanted or pool()).spec
    documents = (
        gpud.daemon_set("p", meant, CONFIG, "tessera-system"),
        daemonset.daemon_set("p", meant, GPUPolicySpec(), CONFIG, "tessera-system"),
    )
    state = {"observed": True, "pods": 1, "updated": 1, **changes}
    return {
        one["metadata"]["name"]: AgentSet(
            "p", **{"rendered": daemonset.rendered_digest(one), **state}
        )
        for one in documents
    }
