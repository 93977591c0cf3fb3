"""The remains of a killed run of these tests do not affect the next run."""

import pytest

from support.cluster.kubectl import Cluster, layout_of
from support.cluster.restored_cluster import restore_cluster

pytestmark = pytest.mark.alone
LABEL = "gpu.tessera.dev/mig.config"


@pytest.mark.soak
def test_objects_labels_and_namespaces_of_an_earlier_run_are_deleted(
    whole_cluster: Cluster,
) -> None:
    """A layout, a pool, a node's label, a cordon, a network and a namespace with a policy."""
    (node, *_) = whole_cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    name = node["metadata"]["name"]
    whole_cluster.kubectl("create", "namespace", "e2e-left")
    whole_cluster.kubectl("label", "node", name, f"{LABEL}=all-1g.10gb", "e2e-pool=yes")
    whole_cluster.kubectl("cordon", name)
    pool = {"nodeSelector": {"no": "node"}, "board": "a30"}
    whole_cluster.apply(
        layout_of("1g.20gb", 2, "left"),
        {
            "apiVersion": "gpu.tessera.dev/v1alpha1",
            "kind": "GPUPool",
            "metadata": {"name": "left"},
            "spec": pool,
        },
    )
    whole_cluster.kubectl("wait", "--for=condition=Accepted", "miglayout/left", "--timeout=60s")
    restore_cluster(whole_cluster)
    assert [one["metadata"]["name"] for one in whole_cluster.get("miglayouts")["items"]] == [
        "seven"
    ]
    assert [one["metadata"]["name"] for one in whole_cluster.get("gpupools")["items"]] == ["demo"]
    found = whole_cluster.get("node", name)
    assert not {LABEL, "e2e-pool"} & set(found["metadata"]["labels"])
    assert "unschedulable" not in found["spec"]
    namespaces = [one["metadata"]["name"] for one in whole_cluster.get("namespaces")["items"]]
    assert "e2e-left" not in namespaces
