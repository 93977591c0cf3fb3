"""Faults through the real agent and gpud: the kubelet's list, status, events, recovery."""

import dataclasses
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from support.processes.agent_process import OWN_POD, AgentProcess
from support.processes.api_server import ApiServer, wait_for
from support.processes.gpud_process import Gpud, gpud, wait_until
from support.processes.kubelet import FakeKubelet

GPU = "GPU-11111111-1111-4111-8111-111111111111"
POD_UID = "22222222-2222-4222-8222-222222222222"
PLACES = (0, 1)


@dataclasses.dataclass
class Node:
    gpud: Gpud
    api: ApiServer
    agent: AgentProcess
    kubelet: FakeKubelet

    def want(self, *faults: dict[str, Any]) -> None:
        spec = {"nodeName": "node-1", "index": 0, "board": "h100-80gb", "uuid": GPU, "pool": "demo"}
        instances = [{"profile": "1g.10gb", "start": start} for start in PLACES]
        self.api.put_gpu("gpu-1", {**spec, "instances": instances, "faults": list(faults)})

    def slices(self) -> dict[int, dict[str, Any]]:
        return {one["start"]: one for one in self.api.status("gpu-1").get("slices", ())}

    def phases(self) -> dict[str, str]:
        return {one["id"]: one["phase"] for one in self.api.status("gpu-1").get("faults", ())}

    def messages(self, kind: str) -> list[str]:
        return [
            f"{one['reason']}: {one['message']}"
            for one in self.api.events.values()
            if one["involvedObject"]["kind"] == kind
        ]


@pytest.fixture
def node() -> Iterator[Node]:
    with (
        gpud("--health-seconds", "1", "1", "1") as daemon,
        ApiServer() as api,
        FakeKubelet(daemon.root) as kubelet,
    ):
        agent = AgentProcess(daemon.root, daemon.run_dir, kubelet, api)
        kubelet.pods = [("tessera-system", OWN_POD, {})]
        agent.start()
        made = Node(daemon, api, agent, kubelet)
        made.want()
        wait_for(api, lambda: len(made.slices()) == len(PLACES))
        yield made
        agent.end(signal.SIGKILL)


def test_one_slice_fails_its_neighbour_does_not_and_it_comes_back(node: Node) -> None:
    failing, other = (node.slices()[start]["uuid"] for start in PLACES)
    node.kubelet.log_directory("team", "train", POD_UID)
    node.kubelet.pods.append(("team", "train", {"gpu.tessera.dev/mig-1g.10gb": [failing]}))
    wait_for(node.api, lambda: node.slices()[0]["holders"])
    with node.agent.following("1g.10gb") as lists:
        assert next(lists) == {failing: "Healthy", other: "Healthy"}
        node.want({"id": "one", "kind": "xid", "xid": 48, "profile": "1g.10gb", "start": 0})
        assert next(lists) == {failing: "Unhealthy", other: "Healthy"}
        assert next(lists) == {failing: "Healthy", other: "Healthy"}
    wait_for(node.api, lambda: node.phases() == {"one": "Injected"})
    assert node.api.status("gpu-1")["faults"][0]["slice"] == failing
    wait_for(node.api, lambda: node.slices()[0]["health"] == "Healthy")
    wait_for(node.api, lambda: len(node.messages("Pod")) == 2)
    assert any(
        text.startswith("Unhealthy: slice 1g.10gb@0") and "Xid 48" in text
        for text in node.messages("Pod")
    )
    assert any(text.startswith("Healthy: ") for text in node.messages("Pod"))
    assert len(node.messages("GPU")) >= 2
    assert [one["xid"] for one in node.gpud.call("inventory")["gpus"][0]["xids"]] == [48]


def test_a_lasting_fault_ends_when_it_is_no_longer_requested_even_across_a_restart_of_gpud(
    node: Node,
) -> None:
    node.want({"id": "bus", "kind": "off_bus"})
    wait_for(node.api, lambda: node.phases() == {"bus": "Active"})
    wait_for(node.api, lambda: node.api.status("gpu-1")["health"] == "Unhealthy")
    assert node.api.condition("gpu-1", "Degraded") == ("True", "Unhealthy")
    node.gpud.end(signal.SIGKILL)
    node.gpud.start()
    wait_until(lambda: node.gpud.call("inventory")["gpus"][0]["faults"])
    node.want()
    wait_for(node.api, lambda: node.phases() == {})
    wait_for(node.api, lambda: node.api.status("gpu-1")["health"] == "Healthy")
    assert node.gpud.call("inventory")["gpus"][0]["faults"] == []


def test_an_impossible_fault_is_refused_and_changes_nothing(node: Node) -> None:
    node.want(
        {"id": "a", "kind": "xid", "xid": 7},
        {"id": "b", "kind": "hang", "profile": "7g.80gb"},
        {"id": "c", "kind": "thermal", "until": "2020-01-01T00:00:00+00:00"},
    )
    wait_for(node.api, lambda: len(node.phases()) == 3)
    assert node.phases() == {"a": "Refused", "b": "Refused", "c": "Cleared"}
    messages = {one["id"]: one["message"] for one in node.api.status("gpu-1")["faults"]}
    assert "unknown Xid 7" in messages["a"]
    assert messages["b"] == f"{GPU} has no slice 7g.80gb"
    assert node.gpud.call("inventory")["gpus"][0]["xids"] == []
