"""Select the QoS class of a flow: the class that a rule names, else the class with the flow's DSCP.

If several matching egress rules name a class, the first rule, in the order of policies and their
rules, decides, because a packet has only one DSCP. A class without a DSCP can only be selected
by name.
"""

from collections.abc import Mapping, Sequence

from rdma.tables import QosClass, Rule


class Classes:
    """The QoS classes of a node's tables, prepared for lookups."""

    def __init__(self, classes: Sequence[QosClass]) -> None:
        self.named: Mapping[str, QosClass] = {qos_class.name: qos_class for qos_class in classes}
        ordered = sorted(classes, key=lambda qos_class: qos_class.name, reverse=True)
        self._of_dscp = {qos_class.dscp: qos_class for qos_class in ordered if qos_class.dscp}

    @property
    def uses_traffic_class(self) -> bool:
        """Return whether any class is selected by DSCP.

        If so, the class of a flow can depend on the flow's traffic class.
        """
        return bool(self._of_dscp)

    def of(self, matched: Sequence[Rule], traffic_class: int) -> QosClass | None:
        """Return the QoS class of a flow, or None.

        ``matched`` are the source's egress rules that match the flow.
        """
        if not self.named:
            return None
        naming = [rule for rule in matched if rule.qos_class in self.named]
        if naming:
            return self.named[min(naming, key=lambda rule: (rule.policy, rule.index)).qos_class]
        return self._of_dscp.get(traffic_class >> 2)
