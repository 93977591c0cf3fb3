"""ResourceSlices of the real node agent on a real gpud: changes of layouts, and losses."""

import signal
from collections.abc import Iterator

import pytest

from support.processes.agent_process import OWN_POD, AgentProcess
from support.processes.api_server import NODE, ApiServer, wait_for
from support.processes.gpud_process import gpud
from support.processes.kubelet import FakeKubelet
from vgpu_sim.gpud.model import new_gpu_uuid

GPU = new_gpu_uuid()  # a control group has its name, and other tests run at the same time
ALL = 26  # number of devices of an H100


def want(api: ApiServer, allocation: str, *instances: tuple[str, int]) -> None:
    api.put_gpu(
        "gpu-1",
        {
            "nodeName": NODE,
            "index": 0,
            "board": "h100-80gb",
            "uuid": GPU,
            "pool": "demo",
            "allocation": allocation,
            **({"layout": "l", "migMode": "Enabled"} if instances else {}),
            "instances": [{"profile": p, "start": s} for p, s in instances],
        },
    )


def devices(api: ApiServer) -> set[str]:
    """Return the devices of the pool; none while it is incomplete."""
    specs = [one["spec"] for one in list(api.slices.values())]
    newest = max((one["pool"]["generation"] for one in specs), default=0)
    current = [one for one in specs if one["pool"]["generation"] == newest]
    if not current or len(current) != current[0]["pool"]["resourceSliceCount"]:
        return set()
    return {device["name"] for one in current for device in one.get("devices", ())}


@pytest.fixture
def node() -> Iterator[tuple[ApiServer, AgentProcess]]:
    with gpud() as daemon, ApiServer() as api, FakeKubelet(daemon.root) as kubelet:
        agent = AgentProcess(daemon.root, daemon.run_dir, kubelet, api)
        agent.more["TESSERA_DRA"] = "true"
        kubelet.pods = [("tessera-system", OWN_POD, {})]
        agent.start()
        yield api, agent
        agent.end(signal.SIGKILL)


def generations(api: ApiServer) -> set[int]:
    return {one["spec"]["pool"]["generation"] for one in list(api.slices.values())}


def counters(api: ApiServer) -> set[str]:
    specs = [one["spec"] for one in api.slices.values()]
    (found,) = [one["sharedCounters"][0]["counters"] for one in specs if "sharedCounters" in one]
    return {count["value"] for count in found.values()}


def test_slices_follow_allocation_and_layouts_and_return_when_they_are_lost(
    node: tuple[ApiServer, AgentProcess],
) -> None:
    api, agent = node
    want(api, "DRA")
    wait_for(api, lambda: len(devices(api)) == ALL)
    want(api, "Both", ("7g.80gb", 0))
    wait_for(api, lambda: len(api.slices) == 1)  # only the slice with the counters
    assert counters(api) == {"0"}
    want(api, "Both", ("3g.40gb", 4), ("1g.10gb", 0))
    beside = {"gpu-0-mig-2g20gb-2", "gpu-0-mig-1g10gb-1"}
    taken = {"gpu-0-mig-3g40gb-4", "gpu-0-mig-1g10gb-0", "gpu-0-mig-4g40gb-0"}
    wait_for(api, lambda: beside <= devices(api) and not taken & devices(api))
    for name in list(api.slices):  # a restarting kubelet does this
        api.delete_slice(name)
    wait_for(api, lambda: beside <= devices(api))
    before = generations(api)
    agent.end(signal.SIGKILL)
    agent.start()
    api.delete_slice(min(api.slices))
    # the new agent restores the deleted slice and leaves the others unchanged
    wait_for(api, lambda: beside <= devices(api))
    assert generations(api) == before
    want(api, "DevicePlugin", ("3g.40gb", 4), ("1g.10gb", 0))
    wait_for(api, lambda: not api.slices)
    want(api, "DRA")
    wait_for(api, lambda: len(devices(api)) == ALL)
    api.delete_gpu("gpu-1")  # the node leaves its pool
    wait_for(api, lambda: not api.slices)
