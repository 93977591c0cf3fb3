"""A resource that is no longer offered is removed from the nodes' status; only the kubelet keeps it
as 0.
"""

import pytest

from support.cluster.kubectl import Cluster, until

FORGOTTEN_S = 480  # the kubelet keeps a plugin's resource for five minutes after its end


@pytest.mark.timeout(FORGOTTEN_S + 120)  # they are over already, unless this test runs alone
def test_a_retired_resource_leaves_the_nodes_status(
    whole_cluster: Cluster, retired_profile: str
) -> None:
    def listed() -> bool:
        return any(retired_profile in node for node in whole_cluster.offered_slices())

    until(lambda: not listed(), FORGOTTEN_S, 2)
