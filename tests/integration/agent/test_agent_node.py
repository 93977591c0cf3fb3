"""The real node agent on a real gpud: slices are created, held, withdrawn and destroyed; restarts.

The kubelet and the API server are fakes (tests/support).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.processes.agent_process import LISTED_WITHIN, OWN_POD, AgentProcess
from support.processes.api_server import ApiServer, wait_for
from support.processes.gpud_process import Gpud, gpud, wait_until
from support.processes.kubelet import FakeKubelet

GPU = "GPU-11111111-1111-4111-8111-111111111111"
POD_UID = "22222222-2222-4222-8222-222222222222"
SMALL = "mig-1g.10gb"


@dataclass
class Node:
    gpud: Gpud
    kubelet: FakeKubelet
    api: ApiServer
    agent: AgentProcess

    def want(
        self,
        *instances: tuple[str, int] | tuple[str, int, int],
        board: str = "h100-80gb",
        gpu: str = GPU,
        strategy: str = "mixed",
    ) -> None:
        self.api.put_gpu(
            f"gpu-{gpu[-1]}",
            {
                "nodeName": "node-1",
                "index": 0,
                "board": board,
                "uuid": gpu,
                "pool": "demo",
                "instances": [
                    dict(zip(("profile", "start", "computeStart"), one, strict=False))
                    for one in instances
                ],
                "migStrategy": strategy,
            },
        )

    @property
    def slices(self) -> dict[tuple[str, int], dict[str, Any]]:
        found = self.gpud.call("inventory")["gpus"]
        return {(i["profile"], i["start"]): i for gpu in found for i in gpu["instances"]}

    def admitted_states(self) -> set[bool]:
        return {s["admitted"] for s in self.api.status("gpu-1")["slices"]}

    def ready(self, message: str = "") -> None:
        def as_desired() -> bool:
            generation = self.api.gpus["gpu-1"]["metadata"]["generation"]
            seen = self.api.status("gpu-1").get("observedGeneration") == generation
            return seen and self.api.condition("gpu-1", "Ready")[0] == "True"

        wait_for(self.api, as_desired)

    def hold(
        self, slice_uuid: str, name: str = "train", uid: str = POD_UID, resource: str = SMALL
    ) -> None:
        self.kubelet.log_directory("team", name, uid)
        self.kubelet.pods.append(("team", name, {f"gpu.tessera.dev/{resource}": [slice_uuid]}))

    def release(self) -> None:
        self.kubelet.pods = [("tessera-system", OWN_POD, {})]

    def holders(self, slice_uuid: str) -> list[str]:
        return [h["pod_uid"] for h in self.gpud.instance(slice_uuid)["holders"]]


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """Yield an agent with a gpud; a test's parameter, if any, has gpud's options."""
    options: tuple[str, ...] = getattr(request, "param", ())
    with gpud(*options) as daemon, ApiServer() as api, FakeKubelet(daemon.root) as kubelet:
        agent = AgentProcess(daemon.root, daemon.run_dir, kubelet, api)
        made = Node(daemon, kubelet, api, agent)
        made.release()
        agent.start()
        yield made
        agent.end(signal.SIGKILL)


def test_slices_come_to_kubelet_cdi_and_status(node: Node) -> None:
    assert wait_until(lambda: node.agent.probe("/readyz") == 200)
    node.want(("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4))
    node.ready()
    assert sorted(node.slices) == [("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4)]
    small = {node.slices["1g.10gb", start]["uuid"] for start in (0, 1)}
    assert node.agent.devices(SMALL.removeprefix("mig-")) == dict.fromkeys(small, "Healthy")
    document = json.loads(node.agent.cdi_file.read_text())
    assert {device["name"] for device in document["devices"]} >= small
    status = node.api.status("gpu-1")
    assert status["slicesTotal"] == 3
    assert {s["resource"] for s in status["slices"]} == {
        "gpu.tessera.dev/mig-1g.10gb",
        "gpu.tessera.dev/mig-3g.40gb",
    }
    for entry in document["containerEdits"]["mounts"]:
        path = Path(entry["hostPath"])
        assert path.is_dir() if path.name == "torch" else path.is_file()


@pytest.mark.parametrize("node", [("--clock", "modelled")], indirect=True)
def test_a_modelled_clock_is_reported_to_gpu_and_pod_once_across_restarts(node: Node) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    assert node.api.status("gpu-1")["clock"] == "Modelled"
    uuid = node.slices["1g.10gb", 0]["uuid"]
    node.agent.allocate("1g.10gb", uuid)
    node.hold(uuid)

    def report() -> list[dict[str, Any]]:
        return [e for e in node.api.events.values() if e["reason"] == "ModelledClock"]

    wait_until(report)
    wait_until(lambda: node.api.status("gpu-1")["slices"][0]["holders"])
    node.agent.end()
    node.agent.start()
    assert wait_until(lambda: node.agent.probe("/readyz") == 200)
    node.want(("1g.10gb", 0), ("1g.10gb", 1))
    node.ready()  # the new agent has made a pass
    (event,) = report()
    assert (event["type"], event["count"]) == ("Normal", 1)
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Pod", "train")
    assert "GPUPool demo has clock: Modelled" in event["message"]


def test_parts_of_a_gpu_instance_come_go_and_are_offered_one_by_one(node: Node) -> None:
    node.want(*(("1c.3g.40gb", 4, at) for at in range(3)))
    node.ready()
    parts = node.gpud.call("inventory")["gpus"][0]["instances"]
    uuids = {one["compute_start"]: one["uuid"] for one in parts}
    assert sorted(uuids) == [0, 1, 2]
    assert {(one["gi_id"], one["multiprocessors"]) for one in parts} == {(parts[0]["gi_id"], 16)}
    assert set(node.agent.devices("1c.3g.40gb")) == set(uuids.values())
    status = node.api.status("gpu-1")
    assert {s["resource"] for s in status["slices"]} == {"gpu.tessera.dev/mig-1c.3g.40gb"}
    assert [s["computeStart"] for s in status["slices"]] == [0, 1, 2]
    given = node.agent.allocate("1c.3g.40gb", uuids[1])
    assert given == [f"gpu.tessera.dev/slice={uuids[1]}"]
    node.hold(uuids[1], resource="mig-1c.3g.40gb")
    wait_until(lambda: node.holders(uuids[1]) == [POD_UID])

    node.want(("3g.40gb", 4))  # the whole GPU instance waits for its part that is held
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Ready")[1] == "SliceInUse")
    wait_until(lambda: [one["uuid"] for one in _instances(node)] == [uuids[1]])
    node.release()
    node.ready()
    assert sorted(node.slices) == [("3g.40gb", 4)]


def _instances(node: Node) -> list[dict[str, Any]]:
    return [one for gpu in node.gpud.call("inventory")["gpus"] for one in gpu["instances"]]


def test_a_held_slice_is_withdrawn_at_once_and_destroyed_when_its_pod_is_gone(node: Node) -> None:
    node.want(("1g.10gb", 0), ("1g.10gb", 1))
    node.ready()
    held = node.slices["1g.10gb", 0]["uuid"]
    assert node.agent.allocate("1g.10gb", held) == [f"gpu.tessera.dev/slice={held}"]
    node.hold(held)
    wait_until(lambda: node.holders(held) == [POD_UID])
    wait_for(node.api, lambda: node.api.status("gpu-1")["holders"] == "team/train")

    node.want(("1g.10gb", 1))
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Progressing")[1] == "SliceInUse")
    assert held not in node.agent.devices("1g.10gb")
    time.sleep(2.5)  # longer than a slice without a holder stays
    assert node.gpud.instance(held)["admit"]
    assert node.holders(held) == [POD_UID]  # its program may still start contexts
    assert held in node.agent.cdi_file.read_text()  # its container may restart

    node.release()
    node.ready()
    assert sorted(node.slices) == [("1g.10gb", 1)]
    assert held not in node.agent.cdi_file.read_text()


def test_a_slice_that_was_just_allocated_is_not_destroyed_before_its_pod_is_listed(
    node: Node,
) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    uuid = node.slices["1g.10gb", 0]["uuid"]
    node.agent.allocate("1g.10gb", uuid)
    node.want()
    time.sleep(5)
    assert sorted(node.slices) == [("1g.10gb", 0)]
    node.hold(uuid)
    wait_until(lambda: node.holders(uuid) == [POD_UID])
    node.release()
    node.ready()
    assert not node.slices


@pytest.mark.slow
def test_restarts_of_gpud_and_agent_and_kubelet_leave_holders_as_they_are(node: Node) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    uuid = node.slices["1g.10gb", 0]["uuid"]
    node.hold(uuid)
    wait_until(lambda: node.holders(uuid) == [POD_UID])

    node.gpud.end(signal.SIGKILL)
    node.gpud.start()
    wait_until(lambda: node.holders(uuid) == [POD_UID])

    node.kubelet.stop()  # gpud forgets the holders at its restart, while the kubelet is away
    node.gpud.end(signal.SIGKILL)
    node.gpud.start()
    wait_until(lambda: node.holders(uuid) == [POD_UID])
    node.kubelet.pods, listed = [], node.kubelet.pods  # the kubelet has not synced yet
    node.kubelet.start()
    seen = node.kubelet.lists
    wait_until(lambda: node.kubelet.lists >= seen + 3)
    assert node.holders(uuid) == [POD_UID]

    before = node.agent.sockets()
    node.agent.end(signal.SIGKILL)
    assert node.agent.sockets() == before
    node.agent.cdi_file.unlink()  # a node restart empties the tmpfs
    node.agent.start()
    wait_until(node.agent.cdi_file.exists)
    seen = node.kubelet.lists
    wait_until(lambda: node.kubelet.lists >= seen + 3)
    assert node.holders(uuid) == [POD_UID]  # even to a new agent, while no pod is listed
    node.kubelet.pods = listed
    wait_until(lambda: node.agent.probe("/readyz") == 200)
    assert node.agent.devices("1g.10gb") == {uuid: "Healthy"}
    assert node.holders(uuid) == [POD_UID]

    assert node.agent.end() == 0
    assert node.agent.sockets() == [], node.agent.log


def test_the_kubelet_does_not_notice_that_the_agent_is_killed(node: Node) -> None:
    node.want(("1g.10gb", 0), ("1g.10gb", 1))
    node.ready()
    first, second = (node.slices["1g.10gb", start]["uuid"] for start in (0, 1))
    with node.agent.following("1g.10gb") as stream:
        assert set(next(stream)) == {first, second}
        wait_for(node.api, lambda: node.admitted_states() == {True})
        killed = node.agent.child("tessera-agent")
        os.kill(killed, signal.SIGKILL)
        assert node.agent.allocate("1g.10gb", first) == [f"gpu.tessera.dev/slice={first}"]
        wait_until(lambda: node.agent.child("tessera-agent") not in (0, killed))
        node.hold(first)
        wait_until(lambda: node.holders(first) == [POD_UID])
        node.want(("1g.10gb", 0))  # the new agent's offer arrives on the old stream
        assert set(next(stream)) == {first}
    wait_for(node.api, lambda: node.admitted_states() == {False})  # no kubelet follows the list


def test_the_process_that_serves_the_kubelet_is_started_again(node: Node) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    uuid = node.slices["1g.10gb", 0]["uuid"]
    killed, agent = node.agent.child("tessera-kubelet"), node.agent.child("tessera-agent")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: node.agent.child("tessera-kubelet") not in (0, killed))
    wait_until(lambda: node.agent.answers("1g.10gb"))
    assert node.agent.devices("1g.10gb") == {uuid: "Healthy"}
    assert node.agent.child("tessera-agent") == agent


def test_a_leaving_agent_reports_it_while_it_still_serves(node: Node) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    with node.agent.following("1g.10gb") as stream:
        next(stream)
        wait_for(node.api, lambda: node.admitted_states() == {True})
        node.gpud.end()  # gpud's container is stopped together with the agent's
        assert node.agent.end() == 0
    assert node.admitted_states() == {False}
    assert node.agent.sockets() == [], node.agent.log


def test_without_the_kubelet_slices_are_withdrawn_and_none_is_destroyed(node: Node) -> None:
    node.want(("1g.10gb", 0), ("1g.10gb", 1))
    node.ready()
    agent = node.agent.child("tessera-agent")
    kept = node.slices["1g.10gb", 0]["uuid"]
    node.kubelet.refuse = True
    node.want(("1g.10gb", 0))
    wait_until(lambda: set(node.agent.devices("1g.10gb")) == {kept})
    time.sleep(4)  # longer than a slice without a holder stays
    assert sorted(node.slices) == [("1g.10gb", 0), ("1g.10gb", 1)]
    assert node.agent.child("tessera-agent") == agent
    node.kubelet.refuse = False
    node.ready()
    assert sorted(node.slices) == [("1g.10gb", 0)]


@pytest.mark.parametrize(("strategy", "resource"), [("mixed", "1g.10gb"), ("single", "gpu")])
def test_without_the_api_server_existing_slices_are_served_and_nothing_changes(
    node: Node, strategy: str, resource: str
) -> None:
    node.want(("1g.10gb", 0), strategy=strategy)
    node.ready()
    uuid = node.slices["1g.10gb", 0]["uuid"]
    node.api.broken = True
    node.agent.end(signal.SIGKILL)
    node.agent.start()
    wait_until(lambda: node.agent.answers(resource))
    assert node.agent.devices(resource) == {uuid: "Healthy"}
    node.hold(uuid, resource=resource if strategy == "single" else SMALL)
    wait_until(lambda: node.holders(uuid) == [POD_UID])
    assert node.agent.probe("/readyz") == 503
    assert node.agent.probe("/healthz") == 200
    node.api.broken = False
    wait_until(lambda: node.agent.probe("/readyz") == 200)
    assert sorted(node.slices) == [("1g.10gb", 0)]


def test_a_bad_object_is_refused_alone_and_touches_no_slice(node: Node) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    node.want(("1g.10gb", 0), board="h9000", gpu=GPU[:-1] + "2")
    wait_for(node.api, lambda: node.api.condition("gpu-2", "Accepted") == ("False", "UnknownBoard"))
    assert node.api.condition("gpu-1", "Ready")[0] == "True"

    newer = {**node.api.gpus["gpu-1"]["spec"], "fieldOfANewerVersion": 1}
    node.api.put_gpu("gpu-1", newer)
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Accepted") == ("False", "InvalidSpec"))
    time.sleep(3)
    assert sorted(node.slices) == [("1g.10gb", 0)]

    node.want(("1g.10gb", 0), ("4g.40gb", 2))
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Ready") == ("False", "NotPlaceable"))
    assert sorted(node.slices) == [("1g.10gb", 0)]


def test_an_idle_node_writes_nothing(node: Node) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    time.sleep(1)
    writes, lists = node.api.status_writes, node.kubelet.lists
    wait_until(lambda: node.kubelet.lists >= lists + 2)
    assert node.api.status_writes == writes


def test_a_deleted_gpu_takes_its_slices_with_it(node: Node) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    node.api.delete_gpu("gpu-1")
    wait_until(lambda: not node.gpud.call("inventory")["gpus"])
    assert not node.agent.cdi_file.exists()  # no container can request a slice any more


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"NODE_NAME": ""}, "NODE_NAME is not set"),
        ({"POD_NAME": ""}, "POD_NAME is not set"),
        ({"KUBECONFIG": "/nowhere"}, "cannot configure access to the API server"),
        ({"TESSERA_NODE_BUDGET": "many"}, "not a memory quantity"),
        ({"TESSERA_HEALTH_PORT": "99999"}, "must be a port number"),
        ({"TESSERA_DEVICE_LIST_STRATEGY": "envvar"}, "must be 'cdi' or 'mounts'"),
        ({"TESSERA_NVIDIA_SMI": "yes"}, "must be 'true' or 'false'"),
    ],
)
def test_a_missing_requirement_ends_the_agent_with_one_line(
    tmp_path: Path, change: dict[str, str], message: str
) -> None:
    with ApiServer() as api, FakeKubelet(tmp_path) as kubelet:
        agent = AgentProcess(tmp_path, tmp_path, kubelet, api)
        ended = subprocess.run(
            [sys.executable, "-m", "device_plugin.app"],
            env=agent.environment() | change,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1, ended.stderr
    line = ended.stderr.rstrip()
    assert line.startswith("tessera-device-plugin: ")
    assert message in line


@pytest.mark.slow
def test_an_old_library_stays_while_a_pod_of_its_time_lives(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_within_s = 4
    monkeypatch.setenv(LISTED_WITHIN, str(listed_within_s))
    node.agent.end()
    node.agent.start()
    old = node.agent.root / "lib" / "0123456789abcdef"
    old.mkdir()
    node.want(("1g.10gb", 0), ("1g.10gb", 1))
    node.ready()
    uuid = node.slices["1g.10gb", 0]["uuid"]
    node.hold(uuid)  # an earlier agent has allocated it to this pod
    wait_until(lambda: node.holders(uuid) == [POD_UID])
    time.sleep(listed_within_s + 3)  # by then every pod from before the start must be listed
    assert old.is_dir()
    node.release()
    wait_until(lambda: not old.exists(), 30)
    assert len([one for one in old.parent.iterdir() if one.is_dir()]) == 1


@pytest.mark.slow
def test_a_new_resource_prefix_takes_no_slice_from_a_running_pod(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.want(("1g.10gb", 0), ("1g.10gb", 1))
    node.ready()
    held, free = (node.slices["1g.10gb", start]["uuid"] for start in (0, 1))
    node.hold(held)  # under the name gpu.tessera.dev/mig-1g.10gb
    wait_until(lambda: node.holders(held) == [POD_UID])

    monkeypatch.setenv("TESSERA_RESOURCE_PREFIX", "other.tessera.dev")
    node.agent.end()
    node.agent.start()
    wait_until(lambda: node.agent.sockets())
    seen = node.kubelet.lists
    # a holder is dropped only after some seconds
    wait_until(lambda: node.kubelet.lists >= seen + 3)
    assert node.holders(held) == [POD_UID]
    assert node.agent.devices("1g.10gb") == {free: "Healthy"}  # a slice never has two pods
    node.release()
    wait_until(lambda: held in node.agent.devices("1g.10gb"))


def test_a_whole_gpu_is_offered_held_drained_and_divided(node: Node) -> None:
    node.want(("whole", 0))
    node.ready()
    (whole,) = node.slices.values()
    assert (whole["uuid"], whole["multiprocessors"]) == (GPU, 132)
    assert node.agent.devices("gpu") == {GPU: "Healthy"}
    assert node.agent.allocate("gpu", GPU) == [f"gpu.tessera.dev/slice={GPU}"]
    status = node.api.status("gpu-1")
    assert (status["migMode"], status["slices"][0]["resource"]) == (
        "Disabled",
        "gpu.tessera.dev/gpu",
    )
    node.kubelet.log_directory("team", "train", POD_UID)
    node.kubelet.pods.append(("team", "train", {"gpu.tessera.dev/gpu": [GPU]}))
    wait_until(lambda: node.holders(GPU) == [POD_UID])

    node.want(("1g.10gb", 0))
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Progressing")[1] == "SliceInUse")
    assert node.gpud.call("inventory")["gpus"][0]["mig_enabled"] is False
    node.release()
    node.ready()
    assert sorted(node.slices) == [("1g.10gb", 0)]
    assert node.api.status("gpu-1")["migMode"] == "Enabled"


def test_a_change_of_strategy_offers_no_slice_twice(node: Node) -> None:
    small = [("1g.10gb", 0), ("1g.10gb", 1)]
    node.want(*small)
    node.ready()
    held, free = (node.slices[place]["uuid"] for place in small)
    node.agent.allocate("1g.10gb", held)
    node.hold(held)
    wait_until(lambda: node.holders(held) == [POD_UID])
    node.want(*small, strategy="single")
    node.ready()
    # The kubelet does not know that the slice it allocated as mig-1g.10gb is now named gpu.
    assert node.agent.devices("gpu") == {free: "Healthy"}
    resources = {s["uuid"]: s["resource"] for s in node.api.status("gpu-1")["slices"]}
    assert resources == {held: f"gpu.tessera.dev/{SMALL}", free: "gpu.tessera.dev/gpu"}
    node.release()
    assert wait_until(lambda: node.agent.devices("gpu") == dict.fromkeys((held, free), "Healthy"))

    node.want(*small, ("2g.20gb", 2), strategy="single")
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Degraded") == ("True", "MixedProfiles"))
    wait_until(lambda: node.agent.devices("gpu") == {})  # once the scheduler has been informed
    node.want(*small, ("2g.20gb", 2), strategy="none")
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Degraded")[0] == "False")
    node.ready()
    assert {s["resource"] for s in node.api.status("gpu-1")["slices"]} == {""}


def test_another_plugin_that_serves_our_resource_is_reported(node: Node) -> None:
    node.want(("1g.10gb", 0))
    node.ready()
    resource, stranger = f"gpu.tessera.dev/{SMALL}", "GPU-99999999-9999-4999-8999-999999999999"
    with node.agent.following("1g.10gb") as lists:
        next(lists)
        wait_for(node.api, lambda: node.admitted_states() == {True})
        node.kubelet.allocatable = {resource: [stranger]}
        degraded = ("True", "ResourceConflict")
        wait_for(node.api, lambda: node.api.condition("gpu-1", "Degraded") == degraded)
        assert node.admitted_states() == {False}, "pods would get the other's devices"
        events = node.api.events
        wait_until(lambda: "ResourceConflict" in {one["reason"] for one in events.values()})
        node.kubelet.allocatable = {}
        wait_for(node.api, lambda: node.api.condition("gpu-1", "Degraded")[0] == "False")
        assert node.admitted_states() == {True}


def test_a_free_slice_is_listed_and_allocated_until_the_scheduler_knows_that_it_goes(
    node: Node,
) -> None:
    node.want(("1g.10gb", 0), ("1g.10gb", 1))
    node.ready()
    goes, other = (node.slices["1g.10gb", start]["uuid"] for start in (0, 1))
    resource = node.api.status("gpu-1")["slices"][0]["resource"]
    node.api.node["status"]["allocatable"][resource] = "2"
    node.want(("1g.10gb", 1))
    wait_for(node.api, lambda: "allocatable" in _message(node, "Progressing"))
    states = {one["uuid"]: one["state"] for one in node.api.status("gpu-1")["slices"]}
    assert states == {goes: "Withdrawing", other: "Active"}
    time.sleep(2.5)  # longer than an unlisted slice without a holder stays
    assert sorted(node.agent.devices("1g.10gb")) == sorted((goes, other))
    assert node.agent.allocate("1g.10gb", goes) == [f"gpu.tessera.dev/slice={goes}"]
    node.hold(goes)
    node.api.node["status"]["allocatable"][resource] = "1"  # the operator lowers it
    wait_until(lambda: goes not in node.agent.devices("1g.10gb"))
    wait_for(node.api, lambda: node.api.condition("gpu-1", "Progressing")[1] == "SliceInUse")
    assert sorted(node.slices) == [("1g.10gb", 0), ("1g.10gb", 1)]
    node.release()
    node.ready()
    assert sorted(node.slices) == [("1g.10gb", 1)]


def _message(node: Node, kind: str) -> str:
    found = node.api.status("gpu-1").get("conditions", ())
    return next((one["message"] for one in found if one["type"] == kind), "")
