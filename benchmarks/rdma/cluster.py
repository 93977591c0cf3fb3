"""On a cluster: the time from an edit of an RDMANetworkPolicy until every node enforces it.

``python -m benchmarks.rdma.cluster`` (`make bench-rdma-cluster`). Requires a configuration for the
cluster (KUBECONFIG) whose nodes have RDMA tables. A policy is edited repeatedly, one edit at a
time. The time runs from the request until a watch delivers the condition that every node has
acknowledged that generation. Other policies and pods in the cluster are included in the
measurement, and counted.
"""

import sys
import threading
import time
import uuid
from typing import Any, Final

from benchmarks.report import Row, Section, machine, table

NAME: Final = "policies on a cluster"
EDITS: Final = 200
_GROUP: Final = {"group": "rdma.tessera.dev", "version": "v1alpha1"}
_POLICIES: Final = {**_GROUP, "plural": "rdmanetworkpolicies", "namespace": "default"}
_VERBS: Final = (["CM", "Send"], ["CM", "Send", "Read"])
_EDIT_S: Final = 30.0


class _Programmed:
    """Watches one policy; records when its newest generation was programmed."""

    def __init__(self, api: Any, name: str) -> None:
        self._api, self._name = api, name
        self._changed = threading.Condition()
        self._generation = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait(self, generation: int) -> float:
        """Return when (monotonic, s) a generation was programmed. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._generation >= generation, _EDIT_S):
                raise TimeoutError(f"generation {generation} is not Programmed in {_EDIT_S:g} s")
            return time.monotonic()

    def close(self) -> None:
        """Stop the watch."""
        self._ended.set()

    def _follow(self) -> None:
        from kubernetes import watch

        while not self._ended.is_set():
            for event in watch.Watch().stream(
                self._api.list_namespaced_custom_object,
                **_POLICIES,
                field_selector=f"metadata.name={self._name}",
                timeout_seconds=60,
            ):
                self._take(event["object"])
                if self._ended.is_set():
                    return

    def _take(self, policy: dict[str, Any]) -> None:
        for condition in policy.get("status", {}).get("conditions", []):
            if (condition["type"], condition["status"]) == ("Programmed", "True"):
                with self._changed:
                    self._generation = max(self._generation, condition["observedGeneration"])
                    self._changed.notify_all()


def _edits_s(api: Any) -> list[float]:
    """Edit a policy ``EDITS`` times; return the seconds from each edit until it was programmed."""
    name = f"bench-{uuid.uuid4().hex[:6]}"
    policy: dict[str, Any] = {
        "apiVersion": "rdma.tessera.dev/v1alpha1",
        "kind": "RDMANetworkPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": {}, "ingress": [{"verbs": _VERBS[0]}]},
    }
    created_policy = api.create_namespaced_custom_object(**_POLICIES, body=policy)
    programmed = _Programmed(api, name)
    delays_s = []
    try:
        programmed.wait(created_policy["metadata"]["generation"])
        for edit in range(1, EDITS + 1):
            change = {"spec": {"ingress": [{"verbs": _VERBS[edit % 2]}]}}
            began = time.monotonic()
            patched = api.patch_namespaced_custom_object(**_POLICIES, name=name, body=change)
            delays_s.append(programmed.wait(patched["metadata"]["generation"]) - began)
    finally:
        programmed.close()
        api.delete_namespaced_custom_object(**_POLICIES, name=name)
    return sorted(delays_s)


def measure() -> Section:
    """Measure; return a skipped section where there is no cluster, or none with RDMA tables."""
    from kubernetes import client, config

    try:
        config.load_kube_config()
        api = client.CustomObjectsApi()
        nodes = len(api.list_cluster_custom_object(**_GROUP, plural="rdmanodetables")["items"])
        pods = len(client.CoreV1Api().list_pod_for_all_namespaces().items)
    except (config.ConfigException, client.ApiException, OSError) as err:
        return Section(NAME, skipped=f"no cluster: {err}")
    if not nodes:
        return Section(NAME, skipped="no node has RDMANodeTables: apply a GPUPool with spec.hcas")
    delays_s = _edits_s(api)
    middle, late = delays_s[len(delays_s) // 2], delays_s[int(len(delays_s) * 0.99)]
    where = f"{nodes} nodes, {pods} pods, {EDITS} edits"
    return Section(
        NAME,
        (
            Row(NAME, f"an edit until Programmed, median; {where}", middle * 1000, "ms"),
            Row(NAME, "the same, 99th percentile", late * 1000, "ms", 500),
            Row(NAME, "the same, longest", delays_s[-1] * 1000, "ms"),
        ),
    )


def main() -> int:
    """Print the table; return 1 if a goal is missed or nothing was measured."""
    section = measure()
    print(machine())
    print(table([section]))
    return int(bool(section.skipped) or any(row.verdict == "MISSED" for row in section.rows))


if __name__ == "__main__":
    sys.exit(main())
