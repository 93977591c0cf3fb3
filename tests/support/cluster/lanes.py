"""The lanes of the end-to-end tests: processes that run concurrently on one cluster.

``make test-cluster`` selects the tests of a lane by its marker. While tests of claims use the last
GPU node, tests of the lane ``first_node`` neither count nor change slices of that node. Tests of
``control_plane`` make pools on the control plane's node, the only one without the demo's GPUs.
"""

from collections.abc import Iterable

from support.cluster.cluster_lock import Scopes

# Tests after which the kubelet needs five minutes to forget a resource, which the late tests check,
# and tests that restart a kubelet, which restarts those minutes. The very last test removes
# everything.
EARLY = ("test_resources.py", "test_restarts.py")
LATE = ("test_retirement.py", "test_uninstall.py")
# The first one's pool is on the node where other tests of the interpreter keep theirs until the end.
# The second restarts the operator while tests of the lane ``early`` restart other things.
FIRST = ("test_modelled_clock.py", "test_operator_restarts.py")
LANES = {
    **dict.fromkeys(EARLY, "early"),
    **dict.fromkeys(("test_dra.py", "test_dra_driver.py"), "claims"),
    **dict.fromkeys(
        (
            "test_modelled_clock.py",
            "test_operator_layouts.py",
            "test_operator_pools.py",
            "test_operator_restarts.py",
        ),
        "control_plane",
    ),
    **dict.fromkeys(
        (
            "test_c_program.py",
            "test_console.py",
            "test_embedded_image.py",
            "test_faults.py",
            "test_hostile_pods.py",
            "test_metrics.py",
            "test_mig_config.py",
            "test_moments.py",
            "test_slices.py",
            "test_vectoradd_pod.py",
        ),
        "first_node",
    ),
}
"""The lane of each file; tests of all others change both nodes, beside those of RDMA only."""

GPU_NODES: Scopes = frozenset({"first-node", "last-node"})
HCAS: Scopes = frozenset({"hcas"})
CONTROL_PLANE: Scopes = frozenset({"control-plane"})
SCOPES: dict[str, Scopes] = {
    "rdma": GPU_NODES | HCAS,
    "slices": HCAS,
    "operator": CONTROL_PLANE,
    "early": GPU_NODES,
    "claims": frozenset({"last-node"}),
    "first_node": frozenset({"first-node"}),
    "both_nodes": GPU_NODES,
    "control_plane": CONTROL_PLANE,
}
"""The parts of the cluster that tests with a marker use: the agents and kubelets of a node, the
daemons for HCAs of both, and the control plane's node with the operator.
"""


def lane_of(file: str, *, needs_slices: bool) -> str:
    """Return the marker of the tests that run in one process with those of a file.

    RDMA tests that need GPU slices do not belong to ``rdma``, because other tests count and
    change all slices.
    """
    if file.startswith("test_rdma") and not needs_slices:
        return "rdma"
    return LANES.get(file, "both_nodes")


def used_by(markers: Iterable[str]) -> Scopes:
    """Return the parts that a test with these markers uses."""
    return frozenset().union(*(SCOPES[one] for one in markers if one in SCOPES))


def alone_on(*names: str) -> Scopes:
    """Return the parts that a test marked ``alone`` with these names must have to itself; without
    a name: all of them. Raises ValueError for an unknown name.
    """
    known = GPU_NODES | HCAS | CONTROL_PLANE
    if unknown := set(names) - known:
        raise ValueError(f"unknown parts of the cluster: {sorted(unknown)}")
    return frozenset(names) or known
