"""QoS classes of tables as the engine has them: numbered, so that a policy there can name one.

A class keeps its number while tables have it, whatever others come and go.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from hca.binding.engine import Engine
from hca.contract.hca_engine import HCA_QOS_CLASSES, HcaQosClass
from rdma.tables import QosClass

CNP_DSCP: Final = 48
"""Of congestion notifications, where a class says nothing: CS6, as network cards have it."""


class EngineClasses:
    """The classes that the engine has, by name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._places: dict[str, int] = {}
        self._told: list[HcaQosClass] = []

    def follow(self, classes: Sequence[QosClass]) -> None:
        """Let the engine have these classes, as far as there is room. Raises OSError."""
        kept = classes[:HCA_QOS_CLASSES]
        names = {one.name for one in kept}
        self._places = {name: at for name, at in self._places.items() if name in names}
        free = iter(sorted(set(range(1, HCA_QOS_CLASSES + 1)) - set(self._places.values())))
        for one in kept:
            if one.name not in self._places:
                self._places[one.name] = next(free)
        told = [HcaQosClass(weight=1) for _ in range(max(self._places.values(), default=0))]
        for one in kept:
            told[self._places[one.name] - 1] = _structure(one)
        if [bytes(one) for one in told] != [bytes(one) for one in self._told]:
            self._engine.set_qos_classes(told)
            self._told = told

    def place_of(self, chosen: QosClass | None) -> int:
        """Return the number of a class in the engine; 0: none."""
        return self._places.get(chosen.name, 0) if chosen is not None else 0


def refused(classes: Sequence[QosClass]) -> Iterator[str]:
    """Name what classes ask for and this version does not do."""
    for one in classes[HCA_QOS_CLASSES:]:
        yield f"qosClass {one.name}: a node has {HCA_QOS_CLASSES} classes at most"
    for one in classes:
        if one.sl:
            yield f"qosClass {one.name}.sl: frames have no VLAN tag that could carry a priority"


def _structure(one: QosClass) -> HcaQosClass:
    cnp_dscp = CNP_DSCP if one.cnp_dscp is None else one.cnp_dscp
    return HcaQosClass(
        bytes_at_most=one.max_rate or 0,
        bytes_at_least=one.min_rate or 0,
        weight=one.weight,
        traffic_class=one.dscp << 2,
        cnp_traffic_class=cnp_dscp << 2,
    )
