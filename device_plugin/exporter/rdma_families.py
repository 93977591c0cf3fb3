"""The exported metrics of RDMA: one row per family.

The metrics of a port have node_exporter's names (its infiniband collector), so that dashboards
for InfiniBand query them without changes. docs/metrics-reference.md is generated from the rows.
"""

from collections.abc import Callable
from typing import Final

from device_plugin.exporter.families import Family
from device_plugin.exporter.traffic import PairDenials, PairTraffic, PortTraffic, RdmaTraffic
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class OfHcad(Family):
    """A metric family that has one figure for each node with an hcad."""

    value: Callable[[RdmaTraffic], float]


@dataclass(frozen=True, slots=True)
class OfPort(Family):
    """A metric family that has one figure for each HCA function that a pod holds."""

    value: Callable[[PortTraffic], float]


@dataclass(frozen=True, slots=True)
class OfPair(Family):
    """A metric family that has one figure for each verb from one pod to another."""

    value: Callable[[PairTraffic], float]


@dataclass(frozen=True, slots=True)
class OfDenial(Family):
    """A metric family that has one figure for each verb, pair of pods, and denying policies."""

    value: Callable[[PairDenials], float]


HCAD_UP: Final = OfHcad(
    "tessera_hcad_up",
    "gauge",
    "measured",
    "0 or 1",
    "Whether hcad answers the exporter.",
    "whether the counters were read; absent if the node has no hcad",
    lambda _all: 1,
)
OF_HCAD: Final = (
    HCAD_UP,
    OfHcad(
        "tessera_rdma_revoked_queue_pairs",
        "counter",
        "measured",
        "queue pairs",
        "Queue pairs that policy has disconnected.",
        "changes of policies and pods",
        lambda one: one.revoked,
    ),
    OfHcad(
        "tessera_rdma_unlisted_requests",
        "counter",
        "measured",
        "requests",
        "Completed RDMA requests of pairs of pods that are not listed any more.",
        "hcad lists the 512 pairs and verbs that were active last",
        lambda one: one.unlisted_operations,
    ),
    OfHcad(
        "tessera_rdma_unlisted_request_bytes",
        "counter",
        "measured",
        "bytes",
        "Data of completed RDMA requests of pairs of pods that are not listed any more.",
        "hcad lists the 512 pairs and verbs that were active last",
        lambda one: one.unlisted_bytes,
    ),
    OfHcad(
        "tessera_rdma_unlisted_denials",
        "counter",
        "measured",
        "denials",
        "Denied RDMA requests of kinds that are not listed any more.",
        "hcad lists the 512 kinds that occurred last",
        lambda one: one.unlisted_denials,
    ),
)
OF_PORT: Final = (
    OfPort(
        "node_infiniband_port_data_received_bytes",
        "counter",
        "measured",
        "bytes",
        "Number of data octets received on all links.",
        "UDP payload of the packets that the port received",
        lambda one: one.received_bytes,
    ),
    OfPort(
        "node_infiniband_port_data_transmitted_bytes",
        "counter",
        "measured",
        "bytes",
        "Number of data octets transmitted on all links.",
        "UDP payload of the packets that the port sent",
        lambda one: one.sent_bytes,
    ),
    OfPort(
        "node_infiniband_port_packets_received",
        "counter",
        "measured",
        "packets",
        "Number of packets received on all links (including errors).",
        "RoCE v2 packets that the port received",
        lambda one: one.received_packets,
    ),
    OfPort(
        "node_infiniband_port_packets_transmitted",
        "counter",
        "measured",
        "packets",
        "Number of packets transmitted on all links (including errors).",
        "RoCE v2 packets that the port sent",
        lambda one: one.sent_packets,
    ),
    OfPort(
        "tessera_rdma_local_received_bytes",
        "counter",
        "measured",
        "bytes",
        "RDMA data received from functions of the same node, which passes no port.",
        "completed requests between functions of the node",
        lambda one: one.local_received_bytes,
    ),
    OfPort(
        "tessera_rdma_local_transmitted_bytes",
        "counter",
        "measured",
        "bytes",
        "RDMA data sent to functions of the same node, which passes no port.",
        "completed requests between functions of the node",
        lambda one: one.local_sent_bytes,
    ),
    OfPort(
        "tessera_rdma_queue_pairs",
        "gauge",
        "measured",
        "queue pairs",
        "Queue pairs of the function.",
        "objects of the pod's programs",
        lambda one: one.queue_pairs,
    ),
    OfPort(
        "tessera_rdma_registered_bytes",
        "gauge",
        "measured",
        "bytes",
        "Memory in memory regions of the function.",
        "objects of the pod's programs",
        lambda one: one.region_bytes,
    ),
)
OF_PAIR: Final = (
    OfPair(
        "tessera_rdma_requests",
        "counter",
        "measured",
        "requests",
        "Completed RDMA requests, by the pods that send and receive them.",
        "requests of this node's functions",
        lambda one: one.operations,
    ),
    OfPair(
        "tessera_rdma_request_bytes",
        "counter",
        "measured",
        "bytes",
        "Data of completed RDMA requests, by the pods that send and receive them.",
        "requests of this node's functions",
        lambda one: one.bytes,
    ),
)
OF_DENIAL: Final = (
    OfDenial(
        "tessera_rdma_denials",
        "counter",
        "measured",
        "denials",
        "RDMA requests that policy has denied, or would deny if it did not only audit.",
        "denials of either end's node",
        lambda one: one.operations,
    ),
)
ALL_RDMA: Final[tuple[Family, ...]] = (*OF_HCAD, *OF_PORT, *OF_PAIR, *OF_DENIAL)
