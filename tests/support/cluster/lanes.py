"""The lanes of the end-to-end tests: processes that run concurrently on one cluster.

``make test-cluster`` selects the tests of a lane by its marker. While tests of claims use the last
GPU node, tests of the lane ``first_node`` neither count nor change slices of that node.
"""

# Tests after which the kubelet needs five minutes to forget a resource, which the late tests check,
# and tests that restart a kubelet or the operator, which restarts those minutes. The very last test
# removes everything.
EARLY = ("test_resources.py", "test_restarts.py", "test_operator_restarts.py")
LATE = ("test_retirement.py", "test_uninstall.py")
LANES = {
    **dict.fromkeys(EARLY, "early"),
    **dict.fromkeys(("test_dra.py", "test_dra_driver.py"), "claims"),
    **dict.fromkeys(
        (
            "test_c_program.py",
            "test_console.py",
            "test_faults.py",
            "test_hostile_pods.py",
            "test_metrics.py",
            "test_mig_config.py",
            "test_modelled_clock.py",
            "test_moments.py",
            "test_operator_pools.py",
            "test_slices.py",
        ),
        "first_node",
    ),
}
"""The lane of each file; tests of all others change both nodes, beside those of RDMA only."""


def lane_of(file: str, *, needs_slices: bool) -> str:
    """Return the marker of the tests that run in one process with those of a file.

    RDMA tests that need GPU slices do not belong to ``rdma``, because other tests count and
    change all slices.
    """
    if file.startswith("test_rdma") and not needs_slices:
        return "rdma"
    return LANES.get(file, "both_nodes")
