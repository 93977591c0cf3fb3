"""The QoS classes in the engine, each with a number by which policies refer to the class.

A class keeps its number as long as tables contain the class, whatever classes are added or
removed.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from hca.binding.engine import Engine
from hca.contract.hca_engine import HCA_QOS_CLASSES, HcaQosClass
from rdma.tables import QosClass

CNP_DSCP: Final = 48
"""DSCP of congestion notifications for a class that sets none: CS6, as network cards use."""


class EngineClasses:
    """The QoS classes that the engine has, by name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._places: dict[str, int] = {}
        self._current: list[HcaQosClass] = []

    def replace_classes(self, classes: Sequence[QosClass]) -> None:
        """Replace the engine's QoS classes with ``classes``. Raises OSError.

        Only the first HCA_QOS_CLASSES of them are used.
        """
        used_classes = classes[:HCA_QOS_CLASSES]
        names = {qos_class.name for qos_class in used_classes}
        self._places = {name: at for name, at in self._places.items() if name in names}
        free = iter(sorted(set(range(1, HCA_QOS_CLASSES + 1)) - set(self._places.values())))
        for qos_class in used_classes:
            if qos_class.name not in self._places:
                self._places[qos_class.name] = next(free)
        structures = [HcaQosClass(weight=1) for _ in range(max(self._places.values(), default=0))]
        for qos_class in used_classes:
            structures[self._places[qos_class.name] - 1] = _structure(qos_class)
        if [bytes(structure) for structure in structures] != [
            bytes(structure) for structure in self._current
        ]:
            self._engine.set_qos_classes(structures)
            self._current = structures

    def place_of(self, chosen: QosClass | None) -> int:
        """Return the number of a QoS class in the engine, or 0 if the engine does not have the
        class.
        """
        return self._places.get(chosen.name, 0) if chosen is not None else 0


def find_unenforced(classes: Sequence[QosClass]) -> Iterator[str]:
    """Yield a message for each part of a QoS class that this version does not enforce."""
    for qos_class in classes[HCA_QOS_CLASSES:]:
        yield f"qosClass {qos_class.name}: a node has {HCA_QOS_CLASSES} classes at most"
    for qos_class in classes:
        if qos_class.sl:
            field = f"qosClass {qos_class.name}.sl"
            yield f"{field}: frames have no VLAN tag that could carry a priority"


def _structure(qos_class: QosClass) -> HcaQosClass:
    cnp_dscp = CNP_DSCP if qos_class.cnp_dscp is None else qos_class.cnp_dscp
    return HcaQosClass(
        bytes_at_most=qos_class.max_rate or 0,
        bytes_at_least=qos_class.min_rate or 0,
        weight=qos_class.weight,
        traffic_class=qos_class.dscp << 2,
        cnp_traffic_class=cnp_dscp << 2,
    )
