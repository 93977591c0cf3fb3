"""Which QoS class a flow is in: the one that a rule names, or else the one of its DSCP.

Of several rules of egress that match and name a class the first counts, by policy and place: what
is sent can be marked with one DSCP only. A class without a DSCP of its own is had by name alone.
"""

from collections.abc import Mapping, Sequence

from rdma.tables import QosClass, Rule


class Classes:
    """The classes of tables, prepared to be asked."""

    def __init__(self, classes: Sequence[QosClass]) -> None:
        self.named: Mapping[str, QosClass] = {one.name: one for one in classes}
        ordered = sorted(classes, key=lambda one: one.name, reverse=True)
        self._of_dscp = {one.dscp: one for one in ordered if one.dscp}

    @property
    def asks_traffic_class(self) -> bool:
        """Whether the class of some flow depends on its traffic class."""
        return bool(self._of_dscp)

    def of(self, matched: Sequence[Rule], traffic_class: int) -> QosClass | None:
        """Return the class of a flow that these rules of its source's egress match."""
        if not self.named:
            return None
        naming = [rule for rule in matched if rule.qos_class in self.named]
        if naming:
            return self.named[min(naming, key=lambda rule: (rule.policy, rule.index)).qos_class]
        return self._of_dscp.get(traffic_class >> 2)
