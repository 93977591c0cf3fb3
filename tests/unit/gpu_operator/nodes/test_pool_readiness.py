"""A GPUPool is ready once its nodes run its spec and the scheduler can use it."""

from gpu_operator.api.v1alpha1.resource import Resource
from gpu_operator.controllers.common.world import AgentPod, Outcome
from gpu_operator.kube.actions import Apply, Manager
from support.worlds.gpu_world import condition, gpu, mig_slice, node, pool, world
from support.worlds.pool_world import IN_POOL, agent_set, decide


def test_an_agent_of_an_earlier_policy_keeps_a_pool_from_being_ready() -> None:
    """This holds even while the DaemonSet's status, from another watch, shows a complete
    rollout.
    """
    sets = agent_set()
    digest = sets["tessera-node-p"].rendered
    for rendered, ready in (("earlier", "False"), (digest, "True")):
        agents = {"n1": AgentPod("pod", "n1", "p", rendered=rendered)}
        seen = world(node(labels=IN_POOL), pool(), gpu(), daemon_sets=sets, agents=agents)
        assert condition(decide(seen).actions, "Ready")[0] == ready
        reported = {"False": ("True", "WaitingForAgent"), "True": ("False", "Reconciled")}
        assert condition(decide(seen).actions, "Progressing")[:2] == reported[ready]


def test_a_pool_is_ready_when_its_slices_are_offered_with_the_current_prefix() -> None:
    have = [mig_slice("1g.10gb@0")]
    late = node(labels=IN_POOL, allocatable={"gpu.tessera.dev/mig-1g.10gb": "0"})
    outcome = decide(world(late, pool(), gpu(have=have), daemon_sets=agent_set()))
    assert condition(outcome.actions, "Ready")[:2] == ("False", "WaitingForKubelet")
    assert prefix(outcome) == ""
    there = node(labels=IN_POOL, allocatable={"gpu.tessera.dev/mig-1g.10gb": "1"})
    outcome = decide(world(there, pool(), gpu(have=have), daemon_sets=agent_set()))
    assert condition(outcome.actions, "Ready")[0] == "True"
    assert prefix(outcome) == "gpu.tessera.dev"


def test_a_ready_pool_stays_ready_during_layout_changes() -> None:
    settled = pool()
    status = settled.status.model_copy(update={"resource_prefix": "gpu.tessera.dev"})
    settled = Resource(settled.meta, settled.spec, status)
    late = node(labels=IN_POOL, allocatable={"gpu.tessera.dev/mig-1g.10gb": "0"})
    have = [mig_slice("1g.10gb@0")]
    outcome = decide(world(late, settled, gpu(have=have), daemon_sets=agent_set()))
    assert condition(outcome.actions, "Ready")[0] == "True"


def prefix(outcome: Outcome) -> str:
    (write,) = (a for a in outcome.actions if isinstance(a, Apply) and a.manager is Manager.STATUS)
    return str(write.document["status"]["resourcePrefix"])
