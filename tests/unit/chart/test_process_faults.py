"""The tests that kill and stop processes of a cluster have a row for each process."""

import re
from pathlib import Path
from typing import Any

import pytest

from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec, HCAs
from gpu_operator.config import NodeConfig
from gpu_operator.render import daemonset, gpud, hca
from support.cluster.process_faults import PROCESSES, Process
from support.programs.helm_chart import render, require_helm

ROOT = Path(__file__).parents[3]
POOL = GPUPoolSpec(node_selector={"gpu": "yes"}, board="h100-80gb", count=2, hcas=HCAs(count=1))
NODE = NodeConfig(image="tessera:1", service_account="tessera-node")

# Long-lived processes that a container's main process starts, by the module that starts them.
CHILDREN = {
    "device_plugin/app.py": ("tessera-agent", "tessera-kubelet", "tessera-standby"),
    "vgpu_sim/gpud/contexts/zygote.py": ("gpud's zygote",),
}
# A program for a test of control groups, which ends a moment later.
SHORT_LIVED = {"vgpu_sim/gpud/limits/cgroups/joining.py"}


def commands(document: dict[str, Any]) -> list[str]:
    """Return the command lines of a workload's containers."""
    return [
        " ".join(map(str, (*container["command"], *container.get("args", ()))))
        for container in document["spec"]["template"]["spec"]["containers"]
    ]


def is_row_of(process: Process, command: str) -> bool:
    """Return whether pgrep finds the process of a command, a program in a folder ``bin``."""
    *options, pattern = process.pgrep
    if "-x" in options:
        return pattern == Path(command.split()[0]).name[:15]  # as the kernel shortens names
    return re.search(pattern, f"/usr/bin/{command}") is not None


def workloads_of_the_chart() -> list[dict[str, Any]]:
    require_helm()
    manifests = render("console.enabled=true")
    return [*manifests["DaemonSet"].values(), *manifests["Deployment"].values()]


def workloads_of_the_operator() -> list[dict[str, Any]]:
    agent = daemonset.daemon_set("p", POOL, GPUPolicySpec(), NODE, "ns")
    return [agent, gpud.daemon_set("p", POOL, NODE, "ns"), hca.daemon_set("p", NODE, "ns")]


@pytest.mark.parametrize("workloads", [workloads_of_the_chart, workloads_of_the_operator])
def test_each_container_s_main_process_has_a_row(workloads: Any) -> None:
    lines = [line for document in workloads() for line in commands(document)]
    assert lines
    rows = PROCESSES.values()
    assert [line for line in lines if not any(is_row_of(row, line) for row in rows)] == []


def test_each_process_that_another_starts_has_a_row() -> None:
    starts = re.compile(r"\bPopen\(|\.Process\(|create_subprocess_|os\.fork\(|posix_spawn")
    folders = ("console", "device_plugin", "hca", "operator", "rdma", "vgpu_sim/gpud")
    modules = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if starts.search(path.read_text(encoding="utf-8"))
    }
    assert modules - SHORT_LIVED == CHILDREN.keys()
    assert [name for names in CHILDREN.values() for name in names if name not in PROCESSES] == []


def test_a_process_without_a_row_is_noticed() -> None:
    assert not any(is_row_of(row, "tessera-other --x") for row in PROCESSES.values())
    assert not any(is_row_of(row, "tessera-gpud-other") for row in PROCESSES.values())
