"""A shared slice through the real agent and gpud: ids, names, and the end of one holder."""

import signal
from typing import Any

from support.processes.agent_process import OWN_POD, AgentProcess
from support.processes.api_server import ApiServer, wait_for
from support.processes.gpud_process import gpud, wait_until
from support.processes.kubelet import FakeKubelet

GPU = "GPU-11111111-1111-4111-8111-111111111111"
UIDS = {
    name: f"{digit * 8}-2222-4222-8222-222222222222" for name, digit in (("one", "2"), ("two", "3"))
}
RESOURCE = "gpu.tessera.dev/mig-1g.10gb.shared"


def test_two_pods_hold_one_slice_and_one_of_them_leaves() -> None:
    with gpud() as daemon, ApiServer() as api, FakeKubelet(daemon.root) as kubelet:
        agent = AgentProcess(daemon.root, daemon.run_dir, kubelet, api)
        kubelet.pods = [("tessera-system", OWN_POD, {})]
        agent.start()
        try:
            shared = {
                "name": "mig-1g.10gb",
                "offeredAs": "mig-1g.10gb.shared",
                "replicas": 3,
                "kind": "time-slicing",
            }
            spec = {"nodeName": "node-1", "index": 0, "board": "h100-80gb", "uuid": GPU}
            place = {"profile": "1g.10gb", "start": 0}
            api.put_gpu("gpu-1", {**spec, "pool": "p", "instances": [place], "sharing": [shared]})

            def slices() -> list[dict[str, Any]]:
                return list(api.status("gpu-1").get("slices", ()))

            wait_for(api, slices)
            (made,) = slices()
            assert made["resource"] == RESOURCE
            uuid = made["uuid"]
            ids = [f"{uuid}::{number}" for number in range(3)]
            assert sorted(agent.devices("1g.10gb.shared")) == ids
            for number, (name, uid) in enumerate(UIDS.items()):
                kubelet.log_directory("team", name, uid)
                kubelet.pods.append(("team", name, {RESOURCE: [ids[number]]}))

            def holders() -> set[str]:
                return {one["pod_uid"] for one in daemon.instance(uuid)["holders"]}

            wait_until(lambda: holders() == set(UIDS.values()))
            wait_for(api, lambda: len(slices()[0]["holders"]) == len(UIDS))
            kubelet.pods = kubelet.pods[:1] + kubelet.pods[2:]
            wait_until(lambda: holders() == {UIDS["two"]})
        finally:
            agent.end(signal.SIGKILL)
