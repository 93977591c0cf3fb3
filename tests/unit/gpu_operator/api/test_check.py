"""`helm test` passes only if all conditions are ready and a pod computes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gpu_operator.app import check, validation
from gpu_operator.config import Identity
from gpu_operator.kube.actions import Delete
from support.worlds.checked_cluster import SLICE, end_pods, furnish
from support.worlds.fake_cluster import FakeCluster

IMAGE = validation.Image("registry/tessera:1", "Always", ("secret",))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    monkeypatch.setattr(check, "_TIMEOUT_S", 0.0)
    made = FakeCluster()
    furnish(made, "operator")
    return made


def run_check(cluster: FakeCluster) -> tuple[int, str]:
    said: list[str] = []
    who = Identity(namespace="ns", pod_name="me")
    status = asyncio.run(check.check(cluster, who, "operator", IMAGE, said.append))
    return status, "\n".join(said)


def test_the_test_pod_computes_on_a_free_slice_and_is_deleted(cluster: FakeCluster) -> None:
    made = []
    end_pods(cluster)
    add = cluster.add
    cluster.add = lambda *a, **k: made.append((a, k)) or add(*a, **k)  # type: ignore[method-assign]
    status, said = run_check(cluster)
    assert status == 0
    assert "a pod with gpu.tessera.dev/mig-1g.10gb: 16 elements computed and verified" in said
    ((_, _, spec), metadata) = made[0]
    (container,) = spec["containers"]
    assert container["image"] == IMAGE.name
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"] == {"limits": {"gpu.tessera.dev/mig-1g.10gb": 1}}
    assert spec["imagePullSecrets"] == [{"name": "secret"}]
    assert spec["nodeSelector"] == {"gpu.tessera.dev/pool": "demo"}
    assert spec["tolerations"] == [{"operator": "Exists", "effect": "NoSchedule"}]
    assert metadata["namespace"] == "ns"
    assert not cluster.objects["Pod"]


def test_a_failure_in_any_pool_fails_the_check(cluster: FakeCluster) -> None:
    ready = cluster.objects["GPUPool"]["demo"]["status"]
    for name in ("other", "third"):
        cluster.add("GPUPool", name)["status"] = ready
    whole = {**SLICE, "uuid": "GPU-2", "profile": "whole", "resource": "nvidia.com/gpu"}
    unoffered = {**SLICE, "uuid": "MIG-3", "resource": ""}  # as with strategy none
    cluster.add("GPU", "gpu-1", {"pool": "other"})["status"] = {"slices": [unoffered, whole]}
    end_pods(cluster)
    status, said = run_check(cluster)
    assert status == 0
    assert "pool demo: a pod with gpu.tessera.dev/mig-1g.10gb: 16 elements" in said
    assert "pool other: a pod with nvidia.com/gpu: 16 elements" in said
    assert "pool third: no slice or GPU is free" in said
    end_pods(cluster, "Failed", "wrong")
    assert run_check(cluster)[0] == 1


def test_a_failed_pod_fails_the_check_with_its_message(cluster: FakeCluster) -> None:
    end_pods(cluster, "Failed", "7 of 65536 elements are wrong")
    status, said = run_check(cluster)
    assert status == 1
    assert "7 of 65536 elements are wrong" in said
    assert not cluster.objects["Pod"]


def test_a_pod_that_never_runs_fails_the_check(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "_TIMEOUT_S", 0.0)
    status, said = run_check(cluster)
    assert status == 1
    assert "is Pending after 0 s" in said


def _unready(cluster: FakeCluster) -> None:
    (ready,) = cluster.objects["GPUPool"]["demo"]["status"]["conditions"]
    ready.update(status="False", reason="NodeConflict", message="worker is in pool other")


def _edit_layout(cluster: FakeCluster) -> None:
    cluster.objects["MIGLayout"]["demo"]["metadata"]["generation"] = 2


def _drop_status(cluster: FakeCluster) -> None:
    del cluster.objects["MIGLayout"]["demo"]["status"]


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (_unready, "GPUPool demo is not ready: NodeConflict: worker is in pool other"),
        (_edit_layout, "MIGLayout demo was changed and has not been reconciled since"),
        (_drop_status, "MIGLayout demo has no condition Ready yet"),
    ],
)
def test_an_object_that_is_not_ready_fails_the_check(
    cluster: FakeCluster, breaks: Callable[[FakeCluster], None], message: str
) -> None:
    end_pods(cluster)
    breaks(cluster)
    status, said = run_check(cluster)
    assert status == 1
    assert message in said


@pytest.mark.parametrize(
    "change",
    [
        {"state": "Withdrawing"},
        {"admitted": False},
        {"holders": [{"namespace": "a", "name": "b"}]},
    ],
)
def test_without_a_free_slice_the_check_reports_that_no_pod_was_run(
    cluster: FakeCluster, change: dict[str, object]
) -> None:
    cluster.objects["GPU"]["gpu-0"]["status"]["slices"] = [{**SLICE, **change}]
    status, said = run_check(cluster)
    assert status == 0
    assert "pool demo: no slice or GPU is free, so no test pod was run" in said


def test_without_a_pool_the_check_reports_it(cluster: FakeCluster) -> None:
    cluster.objects["GPUPool"].clear()
    status, said = run_check(cluster)
    assert status == 0
    assert "no GPUPool yet, so no test pod was run" in said


class EndedPod:
    """A cluster whose only pod has ended with a given status."""

    def __init__(self, **status: Any) -> None:
        self.status, self.done = status, [""]

    async def create(self, document: dict[str, Any]) -> None:
        self.done.append(document["metadata"]["name"])

    async def get(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        assert (kind, name, namespace) == ("Pod", self.done[-1], "ns")
        return {"status": self.status}

    async def perform(self, action: Delete) -> None:
        assert action == Delete("Pod", self.done.pop(), "ns")


def ended_container(**state: str) -> dict[str, Any]:
    return {"name": "c", "state": {"terminated": state}}


@pytest.mark.parametrize(
    ("containers", "pod", "message"),
    [
        ([ended_container(message=" computed\n", reason="Completed")], {}, "computed"),
        ([ended_container(message="computed")], {}, "computed"),
        ([ended_container(reason="OOMKilled")], {}, "OOMKilled"),
        ([ended_container(message="", reason="Error")], {}, "Error"),
        # A container without a message hides neither the next one's message nor the pod's reason.
        ([ended_container(), ended_container(reason="Error")], {}, "Error"),
        ([{"name": "c", "state": {"running": {}}}, ended_container(message="late")], {}, "late"),
        ([ended_container()], {"reason": "Evicted", "message": "disk"}, "Evicted disk"),
        ([], {"reason": "Evicted"}, "Evicted"),
        ([], {"message": "disk"}, "disk"),
        ([], {}, ""),
    ],
)
def test_the_message_of_a_pod_that_has_ended_is_returned(
    containers: list[dict[str, Any]], pod: dict[str, str], message: str
) -> None:
    for phase in ("Succeeded", "Failed"):
        kube: Any = EndedPod(phase=phase, containerStatuses=containers, **pod)
        found = asyncio.run(validation.run_validation_pod(kube, "ns", "r", IMAGE, "pool"))
        assert found == (phase == "Succeeded", message)
        assert kube.done == [""], "the pod is left behind"


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([], ""),
        ([{"status": "False", "message": "0/3 nodes"}], ": 0/3 nodes"),
        # Only a condition that is not met and has a message explains why a pod waits.
        ([{"status": "True", "message": "scheduled"}], ""),
        ([{"status": "False"}, {"status": "False", "message": "no image"}], ": no image"),
        (
            [{"status": "True", "message": "ok"}, {"status": "False", "message": "not ready"}],
            ": not ready",
        ),
    ],
)
def test_a_pod_that_does_not_end_is_reported_with_its_unmet_condition(
    monkeypatch: pytest.MonkeyPatch, conditions: list[dict[str, str]], reason: str
) -> None:
    monkeypatch.setattr(validation, "_TIMEOUT_S", 0.0)
    kube: Any = EndedPod(phase="Pending", conditions=conditions)
    succeeded, found = asyncio.run(validation.run_validation_pod(kube, "ns", "r", IMAGE, "pool"))
    assert not succeeded
    assert found.partition(" is ")[2] == f"Pending after 0 s{reason}"
    assert kube.done == [""], "the pod is left behind"
