"""Names and columns of the CRDs of ``rdma.tessera.dev``."""

from gpu_operator.api.v1alpha1.definition import AGE, Column, Kind, condition_path
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
            Column("Accepted", condition_path("Accepted")),
            Column("P_Keys", ".status.pkeys"),
            Column("MTU", ".spec.mtu", "integer"),
            Column("QoS Classes", ".status.qosClasses"),
            Column("Reason", condition_path("Accepted", "reason")),
            AGE,
        ),
        "RDMANetwork assigns pods to partitions (P_Keys) and defines QoS classes.",
        group=GROUP,
    ),
    Kind(
        "RDMANetworkPolicy",
        "rdmanetworkpolicies",
        ("rnetpol",),
        RDMANetworkPolicySpec,
        RDMANetworkPolicyStatus,
        (
            Column("Accepted", condition_path("Accepted")),
            Column("Programmed", condition_path("Programmed")),
            Column("Selected Pods", ".status.selectedPods", "integer"),
            Column("Nodes", ".status.nodesReady"),
            Column("Reason", condition_path("Programmed", "reason")),
            AGE,
        ),
        "RDMANetworkPolicy defines which RDMA operations pods may request of each other. It is for"
        " HCAs what NetworkPolicy is for network interfaces, which RDMA traffic bypasses.",
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
