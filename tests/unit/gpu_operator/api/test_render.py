"""Manifests: the pods of a GPU node have the rights that they need, and no others."""

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.gpupolicy import (
    DeviceFiles,
    DeviceListStrategy,
    GPUPolicySpec,
    NvidiaSmi,
    PyTorch,
)
from gpu_operator.api.v1alpha1.gpupool import (
    Backend,
    Clock,
    GPUPoolSpec,
    HCAs,
    Isolation,
    LinkSpeed,
)
from gpu_operator.config import (
    DevicePluginConfig,
    DraConfig,
    GpudConfig,
    NodeConfig,
    RdmaConfig,
    WireConfig,
)
from gpu_operator.render import daemonset, gpu as gpu_render, gpud, hca
from support.worlds.gpu_world import gpu, instances
from vgpu_sim.hal import direct

POOL = GPUPoolSpec(node_selector={"gpu": "yes"}, board="h100-80gb", count=2)


def render_agent(
    pool: GPUPoolSpec = POOL, policy: GPUPolicySpec | None = None, **config: Any
) -> dict[str, Any]:
    node = NodeConfig(image="tessera:1", service_account="tessera-node", **config)
    return daemonset.daemon_set("p", pool, policy or GPUPolicySpec(), node, "ns")


def render_gpud(pool: GPUPoolSpec = POOL, **config: Any) -> dict[str, Any]:
    node = NodeConfig(image="tessera:1", service_account="tessera-node", **config)
    return gpud.daemon_set("p", pool, node, "ns")


def containers(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["name"]: c for c in document["spec"]["template"]["spec"]["containers"]}


def environment(document: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e["value"] for e in containers(document)["agent"]["env"] if "value" in e}


def test_containers_have_exactly_the_privileges_that_were_measured() -> None:
    of_agent, of_gpud = (d["spec"]["template"]["spec"] for d in (render_agent(), render_gpud()))
    assert of_gpud["hostPID"] is True
    assert not {"hostPID", "hostNetwork", "hostIPC"} & of_agent.keys()
    assert not {"hostNetwork", "hostIPC"} & of_gpud.keys()
    assert of_gpud["automountServiceAccountToken"] is False
    assert "automountServiceAccountToken" not in of_agent
    all_of_them = [*of_agent["initContainers"], *of_agent["containers"], *of_gpud["containers"]]
    assert {c["name"]: c["securityContext"]["capabilities"] for c in all_of_them} == {
        "gpud": {"drop": ["ALL"], "add": ["SETUID", "SETGID", "KILL", "SETPCAP"]},
        "node-budget": {"drop": ["ALL"]},
        "agent": {"drop": ["ALL"]},
        "standby": {"drop": ["ALL"]},
    }
    for container in all_of_them:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["privileged"] is False
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any("mountPropagation" in m for m in container.get("volumeMounts", ()))


def test_each_container_sees_only_its_own_part_of_the_node() -> None:
    document = render_agent()
    mounted = {}
    for one in (document, render_gpud()):
        volumes = one["spec"]["template"]["spec"]["volumes"]
        paths = {v["name"]: v["hostPath"]["path"] for v in volumes if "hostPath" in v}
        for name, c in containers(one).items():
            mounts = {m["name"]: m["mountPath"] for m in c["volumeMounts"]}
            assert mounts.keys() == {v["name"] for v in volumes}
            mounted[name] = {paths.get(n, "emptyDir"): path for n, path in mounts.items()}
    assert set(mounted["gpud"]) == {
        "/run/tessera",
        "/var/lib/tessera",
        "/sys/fs/cgroup",
        "emptyDir",
    }
    assert set(mounted["agent"]) == {
        "/run/tessera",
        "/var/lib/tessera/lib",
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/plugins/gpu.tessera.dev",
        "/var/lib/kubelet/plugins_registry",
        "/var/lib/kubelet/pod-resources",
        "/var/run/cdi",
        "/var/log/pods",
        "emptyDir",
    }
    for mounts in mounted.values():
        assert all(inside == host for host, inside in mounts.items() if host != "emptyDir")
    (logs,) = (m for m in containers(document)["agent"]["volumeMounts"] if m["name"] == "pod-logs")
    assert logs["readOnly"] is True


def test_the_driver_s_directory_is_there_only_with_claims() -> None:
    """The kubelet connects to this path, so it must be the same inside and outside the pod."""
    path = "/srv/kubelet/plugins/gpu.tessera.dev"
    kubelet = DevicePluginConfig(kubelet_dir="/srv/kubelet")
    for enabled in (False, True):
        document = render_agent(device_plugin=kubelet, dra=DraConfig(enabled=enabled))
        mounts = {m["name"]: m["mountPath"] for m in containers(document)["agent"]["volumeMounts"]}
        volumes = {v["name"]: v for v in document["spec"]["template"]["spec"]["volumes"]}
        assert mounts["plugins"] == path
        assert environment(document)["TESSERA_DRA"] == str(enabled).lower()
    assert volumes["plugins"]["hostPath"] == {"path": path, "type": "DirectoryOrCreate"}


def test_the_scheduler_sees_the_budget_once_however_many_gpuds_a_node_has() -> None:
    def memory_requests(document: dict[str, Any]) -> list[str]:
        spec = document["spec"]["template"]["spec"]
        parts = [*spec.get("initContainers", ()), *spec["containers"]]
        requests = [c.get("resources", {}).get("requests", {}) for c in parts]
        return [one["memory"] for one in requests if "memory" in one]

    def budget(document: dict[str, Any]) -> list[str]:
        return [a for a in containers(document)["gpud"]["args"] if a.startswith("--budget")]

    assert memory_requests(render_agent()) == ["4Gi"]
    assert budget(render_gpud()) == [f"--budget={4 << 30}"]
    pool = POOL.model_copy(update={"node_budget": "1.5Gi"})
    assert memory_requests(render_agent(pool)) == ["1536Mi"]
    assert budget(render_gpud(pool)) == [f"--budget={3 << 29}"]
    assert environment(render_agent(pool))["TESSERA_NODE_BUDGET"] == "1.5Gi"
    resources = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    own = {"gpud": GpudConfig(resources=resources)}
    assert memory_requests(render_agent(**own)) == ["1Gi"]
    for document in (render_gpud(pool), render_gpud(**own)):
        assert memory_requests(document) == []
    assert containers(render_gpud(**own))["gpud"]["resources"] == {
        "requests": {"cpu": "100m"},
        "limits": {"cpu": "2"},
    }


@pytest.mark.parametrize(
    ("of_pool", "of_chart", "option"),
    [
        (None, "jit", "jit"),
        (None, "interp", "interp"),
        (Backend.INTERPRETER, "jit", "interp"),
        (Backend.JIT, "interp", "jit"),
    ],
)
def test_a_pool_s_backend_overrides_the_chart_s(
    of_pool: Backend | None, of_chart: str, option: str
) -> None:
    pool = POOL.model_copy(update={"backend": of_pool})
    document = render_gpud(pool, gpud=GpudConfig(backend=of_chart))
    assert f"--backend={option}" in containers(document)["gpud"]["args"]


@pytest.mark.parametrize(
    ("budget", "agent", "needed"),
    [("4Gi", "64Mi", (4 << 30) + 2 * (64 << 20)), ("1.5Gi", "64M", (3 << 29) + 2 * 64_000_000)],
)
def test_the_agent_s_memory_is_reserved_beside_the_budget(
    budget: str, agent: str, needed: int
) -> None:
    """A pod's request is the larger of an init container's and the sum of all others."""
    pool = POOL.model_copy(update={"node_budget": budget})
    resources = {"requests": {"cpu": "20m", "memory": agent}}
    of_pod = render_agent(pool, device_plugin=DevicePluginConfig(resources=resources))
    spec = of_pod["spec"]["template"]["spec"]

    def memory(part: str) -> list[int]:
        found = (one.get("resources", {}).get("requests", {}) for one in spec[part])
        return [quantity.parse_api_quantity(one.get("memory", "0")) for one in found]

    assert max(*memory("initContainers"), sum(memory("containers"))) == needed


def test_gpud_and_hcad_are_rolled_out_alike() -> None:
    """Neither is interrupted while the next pod starts; neither has a token or the host's
    network.
    """
    documents = (render_gpud(), hca_rendered())
    for document in documents:
        spec = document["spec"]
        assert spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 0
        assert spec["updateStrategy"]["rollingUpdate"]["maxSurge"] == 1
        pod = spec["template"]["spec"]
        assert (pod["hostPID"], pod["automountServiceAccountToken"]) == (True, False)
        assert spec["selector"]["matchLabels"].items() <= (
            spec["template"]["metadata"]["labels"].items()
        )


def test_settings_reach_the_containers() -> None:
    pool = POOL.model_copy(update={"isolation": Isolation.STRICT})
    of_gpud = render_gpud(pool, gpud=GpudConfig(backend="interp", threads=3))
    document = render_agent(
        pool,
        GPUPolicySpec(
            resource_prefix="nvidia.com",
            device_list_strategy=DeviceListStrategy.MOUNTS,
            nvidia_smi=NvidiaSmi(enabled=True),
            device_files=DeviceFiles(enabled=True),
            pytorch=PyTorch(enabled=True),
        ),
        device_plugin=DevicePluginConfig(kubelet_dir="/data/kubelet"),
    )
    assert {"--backend=interp", "--threads=3", "--isolation=strict"} <= set(
        containers(of_gpud)["gpud"]["args"]
    )
    assert environment(document)["TESSERA_RESOURCE_PREFIX"] == "nvidia.com"
    assert environment(document)["TESSERA_DEVICE_LIST_STRATEGY"] == "mounts"
    assert environment(document)["TESSERA_NVIDIA_SMI"] == "true"
    assert environment(document)["TESSERA_DEVICE_FILES"] == "true"
    assert environment(document)["TESSERA_PYTORCH"] == "true"
    assert environment(document)["KUBELET_DIR"] == "/data/kubelet"
    registry = "/data/kubelet/plugins_registry"
    assert registry in [m["mountPath"] for m in containers(document)["agent"]["volumeMounts"]]


def test_only_a_modelled_clock_is_passed_to_gpud() -> None:
    modelled = render_gpud(POOL.model_copy(update={"clock": Clock.MODELLED}))
    assert "--clock=modelled" in containers(modelled)["gpud"]["args"]
    default = containers(render_gpud())["gpud"]["args"]
    assert not any(one.startswith("--clock") for one in default)


@pytest.mark.parametrize(
    ("value", "rendered_as"), [(1, 1), ("3", 3), ("25%", "25%")], ids=["number", "text", "percent"]
)
def test_the_chart_limits_the_nodes_of_an_upgrade(value: int | str, rendered_as: int | str) -> None:
    strategy = render_agent(max_unavailable=value)["spec"]["updateStrategy"]
    assert strategy["rollingUpdate"] == {"maxUnavailable": rendered_as}
    strategy = render_gpud(max_unavailable=value)["spec"]["updateStrategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": rendered_as, "maxUnavailable": 0}


def test_workers_are_sandboxed_unless_the_administrator_disables_it() -> None:
    def weak(**gpud: Any) -> bool:
        arguments = containers(render_gpud(gpud=GpudConfig(**gpud)))["gpud"]["args"]
        return "--allow-weak-sandbox" in arguments

    assert not weak()
    assert not weak(backend="interp", threads=2)
    assert weak(allow_weak_sandbox=True)


def test_pods_select_the_pool_s_nodes_and_the_selector_is_stable() -> None:
    one = render_agent(labels={"app.kubernetes.io/name": "tessera"})
    other = render_agent(pod_annotations={"a": "b"}, labels={"app.kubernetes.io/name": "other"})
    assert one["spec"]["selector"] == other["spec"]["selector"]
    template = one["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"gpu.tessera.dev/pool": "p"}
    assert one["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_uuids_are_stable_distinct_and_well_formed() -> None:
    first = gpu_render.uuid_of("node", 0)
    assert first == gpu_render.uuid_of("node", 0) == "GPU-" + first[4:]
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", first)
    others = {gpu_render.uuid_of(node, index) for node in ("node", "other") for index in range(8)}
    assert len(others) == 16


def test_the_operator_and_a_layout_own_different_parts_of_a_gpu() -> None:
    whole = gpu_render.gpu(gpu(want=["7g.80gb@0"], layout="l").spec, "uid-n1")["spec"]
    part = gpu_render.instances("g", "u", instances("7g.80gb@0"), "l")["spec"]
    assert not whole.keys() & part.keys()


@pytest.mark.parametrize(
    ("text", "size"), [("8Gi", 8 << 30), ("512Mi", 512 << 20), ("1.5Ki", 1536), ("10", 10)]
)
def test_quantities(text: str, size: int) -> None:
    assert quantity.to_bytes(text) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(4 << 30, "4Gi"), (65 << 20, "65Mi"), (1 << 50, "1024Ti"), (1025, "1025"), (0, "0")],
)
def test_bytes_as_a_quantity(size: int, text: str) -> None:
    assert quantity.format_bytes(size) == text
    assert quantity.to_bytes(text) == size


@pytest.mark.parametrize("text", ["", "8GB", "-1", "8 Gi", "1e3"])
def test_invalid_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="not a memory quantity"):
        quantity.to_bytes(text)


RDMA_POOL = POOL.model_copy(
    update={"hcas": HCAs(count=2, functions_per_hca=4, link_speed=LinkSpeed.G200)}
)


def hca_rendered(**config: Any) -> dict[str, Any]:
    rdma = RdmaConfig(**config)
    node = NodeConfig(image="tessera:1", service_account="tessera-node", rdma=rdma)
    return hca.daemon_set("p", node, "ns")


def test_hcad_has_its_own_user_no_capability_and_one_directory() -> None:
    document = hca_rendered(resources={"limits": {"memory": "1Gi"}})
    spec = document["spec"]["template"]["spec"]
    hcad = containers(document)["hcad"]
    security = hcad["securityContext"]
    assert security["runAsUser"] == security["runAsGroup"] != 0
    assert security["runAsNonRoot"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    paths = {v["name"]: v.get("hostPath", {}).get("path", "") for v in spec["volumes"]}
    assert {paths[m["name"]] for m in hcad["volumeMounts"]} == {"/run/tessera/hca", ""}
    assert hcad["resources"] == {"limits": {"memory": "1Gi"}}
    (first,) = spec["initContainers"]
    assert first["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert first["securityContext"]["runAsGroup"] == security["runAsGroup"]


def test_the_new_hcad_is_ready_before_the_old_one_ends() -> None:
    document = hca_rendered()
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    assert document["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    hcad = containers(document)["hcad"]
    (ready,) = (one.partition("=")[2] for one in hcad["args"] if one.startswith("--ready-file"))
    assert hcad["startupProbe"]["exec"] == {"command": ["test", "-s", ready]}
    (tmp,) = (one for one in document["spec"]["template"]["spec"]["volumes"] if "emptyDir" in one)
    assert {m["name"] for m in hcad["volumeMounts"] if ready.startswith(m["mountPath"] + "/")} == {
        tmp["name"]
    }


def test_the_new_gpud_stands_by_before_the_old_one_ends() -> None:
    document = render_gpud()
    container = containers(document)["gpud"]
    (ready,) = (a.partition("=")[2] for a in container["args"] if a.startswith("--ready-file"))
    assert container["startupProbe"]["exec"] == {"command": ["test", "-s", ready]}
    (tmp,) = (v for v in document["spec"]["template"]["spec"]["volumes"] if "emptyDir" in v)
    mounts = {m["name"] for m in container["volumeMounts"] if f"{m['mountPath']}/" in ready}
    assert mounts == {tmp["name"]}  # a volume of the pod: its predecessor has another one
    assert "ports" not in container


@pytest.mark.parametrize(("age_s", "status"), [(0, 0), (19, 0), (40, 1), (None, 1)])
def test_the_liveness_probe_of_gpud_fails_when_its_heartbeat_is_old(
    tmp_path: Path, age_s: int | None, status: int
) -> None:
    container = containers(render_gpud())["gpud"]
    (ready,) = (a.partition("=")[2] for a in container["args"] if a.startswith("--ready-file"))
    probe = container["livenessProbe"]
    shell, option, text = probe["exec"]["command"]
    file = tmp_path / "ready"
    if age_s is not None:
        file.touch()
        os.utime(file, (time.time() - age_s,) * 2)
    done = subprocess.run(
        [shell, option, text.replace(ready, str(file))], capture_output=True, check=False
    )
    assert min(done.returncode, 1) == status
    # A client waits a minute for gpud: the last heartbeat's age, the failing probes, and the end.
    silent_s = 20 + probe["periodSeconds"] * probe["failureThreshold"]
    assert silent_s + probe["terminationGracePeriodSeconds"] < 45


def test_the_container_that_stands_by_continues_what_the_agent_s_container_did() -> None:
    agent, standby = (containers(render_agent())[name] for name in ("agent", "standby"))
    for field in ("image", "command", "volumeMounts", "securityContext", "resources"):
        assert standby[field] == agent[field]
    extra = [one for one in standby["env"] if one not in agent["env"]]
    assert extra == [{"name": "TESSERA_STANDBY", "value": "true"}]
    assert "ports" not in standby
    link_dir = environment(render_agent())["TESSERA_LINK_DIR"]
    assert f"{link_dir}/standby-alive" in standby["livenessProbe"]["exec"]["command"][-1]
    (tmp,) = (m for m in agent["volumeMounts"] if link_dir.startswith(f"{m['mountPath']}/"))
    assert tmp["name"] == "tmp"  # a volume of the pod


def test_an_upgrade_of_the_agent_changes_neither_gpud_nor_hcad() -> None:
    assert set(containers(render_agent(RDMA_POOL))) == {"agent", "standby"}
    documents = (render_agent(), render_gpud(), hca_rendered())
    selectors = [str(d["spec"]["selector"]["matchLabels"]) for d in documents]
    assert len(set(selectors)) == len({d["metadata"]["name"] for d in documents}) == 3
    assert hca_rendered()["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_gpud_gets_the_socket_of_hcad_if_the_pool_has_hcas() -> None:
    document = render_gpud(RDMA_POOL)
    hcad = containers(hca_rendered())["hcad"]
    requested = [one for one in containers(document)["gpud"]["args"] if "hca" in one]
    (directory,) = (one.partition("=")[2] for one in hcad["args"] if "--directory" in one)
    user = hcad["securityContext"]["runAsUser"]
    assert requested == [f"--hca-socket={directory}/{direct.SOCKET_NAME}", f"--hcad-user={user}"]
    for without in (render_gpud(), render_gpud(RDMA_POOL, rdma=RdmaConfig(enabled=False))):
        assert not [one for one in containers(without)["gpud"]["args"] if "hca" in one]


def test_only_netd_may_enter_networks_and_only_with_a_wire() -> None:
    wire = WireConfig(resources={"limits": {"memory": "96Mi"}})
    found = containers(hca_rendered(wire=wire))
    netd, hcad = found["netd"], found["hcad"]
    security = netd["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "SYS_ADMIN"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (security["privileged"], security["allowPrivilegeEscalation"]) == (False, False)
    assert security["runAsGroup"] == hcad["securityContext"]["runAsGroup"]
    assert f"--user={hcad['securityContext']['runAsUser']}" in netd["args"]
    assert {m["mountPath"] for m in netd["volumeMounts"]} == {"/run/tessera/hca", "/tmp"}
    assert netd["resources"] == {"limits": {"memory": "96Mi"}}
    assert "--no-wire" not in hcad["args"]
    off = containers(hca_rendered(wire=WireConfig(enabled=False)))
    assert set(off) == {"hcad"}
    assert "--no-wire" in off["hcad"]["args"]
    pods_for_gpus = [*containers(render_agent(RDMA_POOL)).values()]
    pods_for_gpus += containers(render_gpud(RDMA_POOL)).values()
    for others in (found.values(), off.values(), pods_for_gpus):
        for one in others:
            added = one["securityContext"]["capabilities"].get("add", [])
            assert one["name"] == "netd" or not {"SYS_ADMIN", "NET_ADMIN"} & set(added)


def test_the_kernel_segments_packets_unless_the_chart_disables_it() -> None:
    def arguments(wire: WireConfig) -> list[str]:
        return list(containers(hca_rendered(wire=wire))["hcad"]["args"])

    assert "--no-segments" not in arguments(WireConfig())
    assert "--no-segments" in arguments(WireConfig(segments=False))


def test_the_agent_gets_the_pool_s_hcas() -> None:
    said = environment(render_agent(RDMA_POOL))
    assert said["TESSERA_HCAS"] == "2"
    assert said["TESSERA_FUNCTIONS_PER_HCA"] == "4"
    assert said["TESSERA_HCA_GBPS"] == "200"
    for document in (render_agent(), render_agent(RDMA_POOL, rdma=RdmaConfig(enabled=False))):
        assert not any("HCA" in name for name in environment(document))
