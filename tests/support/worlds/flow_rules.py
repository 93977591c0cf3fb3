"""A flow and the rules that allow it, for tests of hcad's policy enforcement."""

from rdma.tables import Direction, Flow, Limits, Rule

FLOW = Flow("10.0.0.1", "10.0.0.2")


def rule(
    name: str = "a/p", index: int = 0, direction: Direction = Direction.EGRESS, **limits: int
) -> Rule:
    """Return a policy's rule with limits, of egress unless another direction is specified."""
    return Rule(name, direction, index, limits=Limits(**limits))
