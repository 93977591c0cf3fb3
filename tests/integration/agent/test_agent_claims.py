"""ResourceClaims on the real node agent and a real gpud: prepared, held, released, interlocked.

The kubelet and the API server are fakes (tests/support).
"""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from device_plugin.proto import drahealth_pb2 as health, drahealth_pb2_grpc as health_grpc
from support.processes.agent_process import OWN_POD, AgentProcess
from support.processes.api_server import NODE, ApiServer, wait_for
from support.processes.gpud_process import Gpud, gpud, wait_until
from support.processes.kubelet import FakeKubelet
from vgpu_sim.gpud.model import new_gpu_uuid

GPU = new_gpu_uuid()  # a control group has its name, and other tests run at the same time
CLAIM, OTHER = (f"{digit * 8}-3333-4333-8333-333333333333" for digit in "ab")
POD, SECOND = (f"{digit * 8}-2222-4222-8222-222222222222" for digit in "12")


@dataclass
class Node:
    gpud: Gpud
    kubelet: FakeKubelet
    api: ApiServer
    agent: AgentProcess

    def want(self, *instances: tuple[str, int]) -> None:
        self.api.put_gpu(
            "gpu-1",
            {
                "nodeName": NODE,
                "index": 0,
                "board": "h100-80gb",
                "uuid": GPU,
                "pool": "demo",
                "instances": [{"profile": p, "start": s} for p, s in instances],
            },
        )
        generation = self.api.gpus["gpu-1"]["metadata"]["generation"]
        seen = lambda: self.api.status("gpu-1").get("observedGeneration") == generation  # noqa: E731
        wait_for(self.api, seen)

    @property
    def slices(self) -> dict[tuple[str, int], dict[str, Any]]:
        found = self.gpud.call("inventory")["gpus"]
        return {(i["profile"], i["start"]): i for gpu in found for i in gpu["instances"]}

    def run_pod(self, name: str, uid: str, *cdi_devices: str) -> None:
        self.kubelet.log_directory("team", name, uid)
        self.kubelet.pods.append(("team", name, {}))
        self.kubelet.claims[name] = list(cdi_devices)

    def holders(self, place: tuple[str, int]) -> set[str]:
        return {one["pod_uid"] for one in self.slices[place]["holders"]}


@pytest.fixture
def node() -> Iterator[Node]:
    with gpud() as daemon, ApiServer() as api, FakeKubelet(daemon.root) as kubelet:
        agent = AgentProcess(daemon.root, daemon.run_dir, kubelet, api)
        agent.more["TESSERA_DRA"] = "true"
        kubelet.pods = [("tessera-system", OWN_POD, {})]
        agent.start()
        yield Node(daemon, kubelet, api, agent)
        agent.end(signal.SIGKILL)


def test_a_claim_has_its_slices_from_prepare_to_unprepare(node: Node) -> None:
    node.want()
    node.api.put_claim("job", CLAIM, "gpu-0-mig-3g40gb-4", "gpu-0-mig-1g10gb-0")
    answer = node.agent.prepare("job", CLAIM)
    assert not answer.error
    made = node.slices
    assert {place: one["owner_name"] for place, one in made.items()} == {
        ("3g.40gb", 4): "team/job",
        ("1g.10gb", 0): "team/job",
    }
    devices = {one.device_name: one for one in answer.devices}
    large, small = made["3g.40gb", 4]["uuid"], made["1g.10gb", 0]["uuid"]
    given = devices["gpu-0-mig-3g40gb-4"]
    assert (list(given.request_names), given.pool_name) == (["r0"], NODE)
    assert list(given.cdi_device_ids) == [f"gpu.tessera.dev/claim={CLAIM}-{large}"]
    file = node.agent.root / "cdi" / f"tessera-claim-{CLAIM}.json"
    document = json.loads(file.read_text())
    assert {one["name"] for one in document["devices"]} == {f"{CLAIM}-{u}" for u in (large, small)}

    assert node.agent.prepare("job", CLAIM) == answer  # a second call changes nothing
    assert node.slices.keys() == made.keys()

    # Two pods share the claim: both are holders, and the end of one does not affect the other.
    node.run_pod("one", POD, *given.cdi_device_ids)
    node.run_pod("two", SECOND, *given.cdi_device_ids)
    wait_until(lambda: node.holders(("3g.40gb", 4)) == {POD, SECOND})
    assert node.holders(("1g.10gb", 0)) == set()
    node.kubelet.pods = [pod for pod in node.kubelet.pods if pod[1] != "one"]
    wait_until(lambda: node.holders(("3g.40gb", 4)) == {SECOND})

    # The slices are neither the device plugin's nor a layout's.
    assert not node.agent.cdi_file.exists()
    wait_for(node.api, lambda: node.api.status("gpu-1")["claims"])
    status = node.api.status("gpu-1")
    assert status["slices"] == []
    assert {one["claim"]["name"] for one in status["claims"]} == {"job"}
    assert (status["slicesTotal"], status["slicesUsed"]) == (2, 2)

    assert node.agent.unprepare("job", CLAIM) == ""
    assert node.slices == {}
    assert not file.exists()
    assert node.agent.unprepare("job", CLAIM) == ""


def test_slices_of_init_containers_are_held_though_the_kubelet_does_not_list_them(
    node: Node,
) -> None:
    """One pod got its slice from the device plugin, the other by a claim that was prepared for an
    earlier pod already.
    """
    node.want(("1g.10gb", 0))
    wait_until(lambda: ("1g.10gb", 0) in node.slices)
    node.api.put_claim("job", CLAIM, "gpu-0-mig-1g10gb-3")
    assert not node.agent.prepare("job", CLAIM).error
    node.run_pod("one", POD)
    node.run_pod("two", SECOND)
    slice_uuid = node.slices["1g.10gb", 0]["uuid"]
    resource = "gpu.tessera.dev/mig-1g.10gb"
    node.kubelet.write_checkpoint([(POD, "prepare", resource, [slice_uuid])])
    wait_until(lambda: node.holders(("1g.10gb", 0)) == {POD})
    assert node.holders(("1g.10gb", 3)) == set()

    node.api.put_claim("job", CLAIM, "gpu-0-mig-1g10gb-3", pod_uids=[SECOND])
    node.agent.end(signal.SIGKILL)  # the next agent reads the claim again
    node.agent.start()
    wait_until(lambda: node.holders(("1g.10gb", 3)) == {SECOND})
    wait_until(lambda: node.holders(("1g.10gb", 0)) == {POD})
    node.kubelet.pods = [pod for pod in node.kubelet.pods if pod[1] not in ("one", "two")]
    wait_until(lambda: node.holders(("1g.10gb", 0)) == node.holders(("1g.10gb", 3)) == set())


def test_a_layout_and_a_claim_never_have_the_same(node: Node) -> None:
    node.want(("1g.10gb", 0))
    wait_until(lambda: ("1g.10gb", 0) in node.slices)
    held = node.slices["1g.10gb", 0]["uuid"]
    node.kubelet.log_directory("team", "train", POD)
    node.kubelet.pods.append(("team", "train", {"gpu.tessera.dev/mig-1g.10gb": [held]}))
    wait_until(lambda: node.holders(("1g.10gb", 0)) == {POD})

    node.api.put_claim("job", CLAIM, "gpu-0-mig-1g10gb-3")
    assert not node.agent.prepare("job", CLAIM).error
    node.want(("1g.10gb", 0), ("3g.40gb", 0))  # 3g.40gb@0 has no room next to either of them
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Ready") != ("True", "Reconciled"))
    node.want(("1g.10gb", 0), ("2g.20gb", 2))
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Ready") == ("False", "SliceInUse"))
    (message,) = (
        c["message"] for c in node.api.status("gpu-1")["conditions"] if c["type"] == "Ready"
    )
    assert "1g.10gb@3 is held by claim team/job" in message
    assert node.slices.keys() == {("1g.10gb", 0), ("1g.10gb", 3)}
    assert node.agent.unprepare("job", CLAIM) == ""
    wait_until(lambda: ("2g.20gb", 2) in node.slices)


def test_prepare_waits_for_a_conflicting_slice_and_names_its_holder(node: Node) -> None:
    node.want(("1g.10gb", 0))
    wait_until(lambda: ("1g.10gb", 0) in node.slices)
    held = node.slices["1g.10gb", 0]["uuid"]
    node.kubelet.log_directory("team", "train", POD)
    node.kubelet.pods.append(("team", "train", {"gpu.tessera.dev/mig-1g.10gb": [held]}))
    wait_until(lambda: node.holders(("1g.10gb", 0)) == {POD})
    node.api.put_claim("job", CLAIM, "gpu-0")

    def report() -> list[str]:
        return [
            event["message"]
            for event in node.api.events.values()
            if event["involvedObject"]["kind"] == "ResourceClaim"
        ]

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(node.agent.prepare, "job", CLAIM)
        (message,) = wait_until(report)
        assert message == (
            "gpu-0: 1g.10gb@0 is held by pod team/train, which has it from the device plugin"
        )
        node.kubelet.pods = [("tessera-system", OWN_POD, {})]
        node.want()  # the layout is removed, and its slice once the pod has ended
        answer = waiting.result(60)
    assert not answer.error
    assert node.slices.keys() == {("whole", 0)}
    assert node.slices["whole", 0]["owner"] == f"claim:{CLAIM}"


def test_claims_outlive_the_driver_and_gpud(node: Node) -> None:
    node.want()
    node.api.put_claim("job", CLAIM, "gpu-0-mig-1g10gb-5")
    before = node.agent.prepare("job", CLAIM)
    node.agent.end(signal.SIGKILL)
    node.gpud.end(signal.SIGKILL)
    node.gpud.start()
    file = node.agent.root / "cdi" / f"tessera-claim-{CLAIM}.json"
    document = json.loads(file.read_text())
    document["containerEdits"]["mounts"][0]["hostPath"] = "/of/another/build"
    file.write_text(json.dumps(document))
    node.agent.start()
    wait_until(lambda: node.agent.child("tessera-kubelet"))
    wait_until(lambda: list((node.kubelet.dir / "plugins_registry").glob("*-reg.sock")))
    wait_until(lambda: "/of/another/build" not in file.read_text())
    assert node.agent.prepare("job", CLAIM) == before
    assert node.agent.unprepare("job", CLAIM) == ""
    assert node.slices == {}


def test_the_health_of_a_claims_device_is_reported_and_an_unhealthy_one_is_refused(
    node: Node,
) -> None:
    node.want()
    node.api.put_claim("job", CLAIM, "gpu-0-mig-1g10gb-5")
    assert not node.agent.prepare("job", CLAIM).error
    with node.agent.driver() as channel:
        stream = health_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
            health.NodeWatchResourcesRequest(), timeout=60
        )

        def report(device: str, state: int) -> str:
            for each in stream:
                for one in each.devices:
                    if (one.device.device_name, one.health) == (device, state):
                        assert one.device.pool_name == NODE
                        return str(one.message)
            raise AssertionError("the stream ended")

        assert report("gpu-0-mig-1g10gb-5", health.HEALTHY) == ""
        node.gpud.call(
            "inject_fault",
            id="",
            gpu_uuid=GPU,
            instance="",
            kind="xid",
            xid=79,
            count=1,
            duration_ms=0,
        )
        assert "Unhealthy" in report("gpu-0-mig-1g10gb-5", health.UNHEALTHY)
        stream.cancel()
    node.api.put_claim("next", OTHER, "gpu-0-mig-1g10gb-6")
    assert "Unhealthy" in node.agent.prepare("next", OTHER).error
    assert ("1g.10gb", 6) not in node.slices  # the slice that was created for it is destroyed


def test_claims_share_a_slice_in_the_status_too(node: Node) -> None:
    """Claims are prepared and unprepared one by one; the last one's end destroys the slice."""
    node.want()
    for name, uid, memory in (("job", CLAIM, "4Gi"), ("next", OTHER, "5Gi")):
        share_id = uid.replace("3", "4")
        given = {"shareID": share_id, "consumedCapacity": {"memory": memory}}
        node.api.put_claim(name, uid, "gpu-0-mig-1g10gb-0", **given)
        answer = node.agent.prepare(name, uid)
        assert not answer.error
        (device,) = answer.devices
        assert device.share_id == share_id
        node.run_pod(f"{name}-pod", POD if uid == CLAIM else SECOND, *device.cdi_device_ids)
    (made,) = node.slices.values()
    assert {s["owner_name"]: s["memory_bytes"] >> 30 for s in made["shares"]} == {
        "team/job": 4,
        "team/next": 5,
    }
    wait_until(lambda: node.holders(("1g.10gb", 0)) == {POD, SECOND})
    claims = {h["pod_uid"]: h["claims"] for h in node.slices["1g.10gb", 0]["holders"]}
    assert claims == {POD: [f"claim:{CLAIM}"], SECOND: [f"claim:{OTHER}"]}

    def report() -> dict[str, tuple[int, list[str]]]:
        return {
            one["claim"]["name"]: (one["memoryBytes"] >> 30, [h["name"] for h in one["holders"]])
            for one in node.api.status("gpu-1").get("claims", ())
            if one["shared"]
        }

    expected = {"job": (4, ["job-pod"]), "next": (5, ["next-pod"])}
    wait_for(node.api, lambda: report() == expected)
    status = node.api.status("gpu-1")
    assert (status["slicesTotal"], status["slicesUsed"]) == (1, 1)

    assert node.agent.unprepare("job", CLAIM) == ""
    assert [s["owner_name"] for s in node.slices["1g.10gb", 0]["shares"]] == ["team/next"]
    assert node.agent.unprepare("next", OTHER) == ""
    assert node.slices == {}
