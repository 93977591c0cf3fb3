"""``helm uninstall`` ends, and everything that was installed is gone. Runs after all other
tests.
"""

import subprocess

import pytest

from support.cluster.kubectl import Cluster, in_node, until

OURS = ("gpu.tessera.dev/", "rdma.tessera.dev/")


@pytest.mark.alone
@pytest.mark.last
def test_helm_uninstall_ends_and_removes_what_was_installed(whole_cluster: Cluster) -> None:
    command = ["helm", "uninstall", "tessera", "-n", "tessera-system", "--timeout", "4m"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=270)
    assert done.returncode == 0, done.stderr
    version = subprocess.run(["helm", "version", "--short"], capture_output=True, text=True)
    if not version.stdout.startswith("v3"):  # helm does not show a hook's output
        assert "kubectl patch node" in done.stdout + done.stderr
    system = Cluster("tessera-system")
    until(lambda: not system.get("pods")["items"], 60)
    kinds = "daemonsets,deployments,jobs,serviceaccounts,configmaps,roles,rolebindings,leases"
    left = {item["metadata"]["name"] for item in system.get(kinds)["items"]}
    assert left <= {"default", "kube-root-ca.crt"}
    cluster_wide = whole_cluster.get("clusterroles,clusterrolebindings")["items"]
    assert not [i for i in cluster_wide if "tessera" in i["metadata"]["name"]]
    for kind in ("gpupools", "miglayouts", "gpus", "gpupolicies"):  # the CRDs are kept
        assert whole_cluster.get(kind)["items"] == []

    def traces() -> list[str]:
        """Return the remaining labels and resources, except those that a kubelet keeps as 0."""
        nodes = whole_cluster.get("nodes")["items"]
        labels = [label for node in nodes for label in node["metadata"]["labels"]]
        offered = [
            resource
            for node in nodes
            for resource, count in node["status"]["allocatable"].items()
            if count != "0"
        ]
        return [key for key in labels + offered if key.startswith(OURS) or "nvidia" in key]

    until(lambda: not traces(), 60)
    for node in whole_cluster.get("nodes")["items"]:
        name = node["metadata"]["name"]
        left_over = "ls /var/run/cdi/tessera* 2>/dev/null; grep -c /run/tessera/ /proc/mounts"
        assert in_node(name, "sh", "-c", f"{left_over} || true").split() == ["0"]
        assert "tessera" not in in_node(name, "nft", "list", "ruleset")
        filters = "for d in /sys/class/net/*; do tc filter show dev ${d##*/} ingress; done"
        assert "tessera" not in in_node(name, "sh", "-c", filters)
