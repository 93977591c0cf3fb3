"""A resource that nobody offers any more leaves the nodes' status; the kubelet alone keeps it as 0."""

import pytest
from cluster import Cluster, until

FORGOTTEN_S = 480  # the kubelet remembers a plugin's resource for five minutes after it has gone


@pytest.mark.last  # by then the five minutes have passed without waiting
@pytest.mark.timeout(FORGOTTEN_S + 120)
def test_retired_resources_leave_the_nodes_status(mixed_layout_came_and_went: Cluster) -> None:
    cluster = mixed_layout_came_and_went
    until(lambda: cluster.offered_slices() == [{"1g.10gb": "7"}] * 2, FORGOTTEN_S, 2)
