"""Names and columns of the kinds of ``rdma.tessera.dev``."""

from gpu_operator.api.v1alpha1.definition import AGE, Column, Kind, condition
from gpu_operator.api.v1alpha1.rdma import GROUP
from gpu_operator.api.v1alpha1.rdma.network import RDMANetworkSpec, RDMANetworkStatus
from gpu_operator.api.v1alpha1.rdma.policy import RDMANetworkPolicySpec, RDMANetworkPolicyStatus
from gpu_operator.api.v1alpha1.rdma.tables import RDMANodeTablesSpec, RDMANodeTablesStatus

DEFINITIONS = (
    Kind(
        "RDMANetwork",
        "rdmanetworks",
        ("rnet",),
        RDMANetworkSpec,
        RDMANetworkStatus,
        (
            Column("Accepted", condition("Accepted")),
            Column("P_Keys", ".status.pkeys"),
            Column("MTU", ".spec.mtu", "integer"),
            Column("QoS Classes", ".status.qosClasses"),
            Column("Reason", condition("Accepted", "reason")),
            AGE,
        ),
        "RDMANetwork says which pods are in which partition (P_Key), and names QoS classes.",
        group=GROUP,
    ),
    Kind(
        "RDMANetworkPolicy",
        "rdmanetworkpolicies",
        ("rnetpol",),
        RDMANetworkPolicySpec,
        RDMANetworkPolicyStatus,
        (
            Column("Accepted", condition("Accepted")),
            Column("Programmed", condition("Programmed")),
            Column("Selected Pods", ".status.selectedPods", "integer"),
            Column("Nodes", ".status.nodesReady"),
            Column("Reason", condition("Programmed", "reason")),
            AGE,
        ),
        "RDMANetworkPolicy says which RDMA operations pods may request of each other. It is to HCAs"
        " what NetworkPolicy is to network interfaces: RDMA never passes those.",
        group=GROUP,
        namespaced=True,
    ),
    Kind(
        "RDMANodeTables",
        "rdmanodetables",
        (),
        RDMANodeTablesSpec,
        RDMANodeTablesStatus,
        (
            Column("Generation", ".spec.generation", "integer"),
            Column("Enforced", ".status.generation", "integer"),
            Column("HCAd", ".status.hcad"),
            AGE,
            Column("Message", ".status.message", wide=True),
        ),
        "RDMANodeTables carries compiled policies to one node. Only the operator writes it.",
        group=GROUP,
    ),
)
