"""Whether nodes enforce the RDMA policies of the fabric (``rdma.enforcement``)."""

from collections.abc import Iterable

from console.model.fabric import Fabric
from rdma.enforcement import Enforcement, deciding_policies, state_of
from rdma.explain import Explanation


def find_enforcement(fabric: Fabric, names: Iterable[str]) -> tuple[Enforcement, ...]:
    """Return the state of some policies, each "namespace/name"; unknown names have none."""
    known = ((name, fabric.policies[name]) for name in names if name in fabric.policies)
    return tuple(
        state_of(name, one.meta.generation, one.status.conditions, one.status.nodes_ready)
        for name, one in known
    )


def states_behind(fabric: Fabric, *found: Explanation) -> tuple[Enforcement, ...]:
    """Return the state of the policies behind some verdicts."""
    return find_enforcement(fabric, deciding_policies(found))
