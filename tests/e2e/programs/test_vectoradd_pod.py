"""An unmodified cuda.core program computes in a pod, on the slice that the pod received."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from support.cluster.control_plane import place
from support.cluster.interpreter_pool import POOL, is_chosen
from support.cluster.kubectl import EXAMPLES, POOL as DEMO, Cluster

Manifest = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.backend


def uuid_in(logs: str) -> str:
    (line,) = (line for line in logs.splitlines() if line.startswith("slice"))
    return line.split()[-1].removeprefix("MIG-").removeprefix("GPU-")


@pytest.mark.timeout(600)  # the interpreter is slow
def test_the_sample_verifies_16_mi_elements_on_a_slice_of_its_node(
    namespace: Cluster, compute_node: str
) -> None:
    sample = yaml.safe_load((EXAMPLES / "pod-vectoradd.yaml").read_text())
    namespace.apply(place(sample, compute_node))
    pod = namespace.wait_pod("vectoradd")
    logs = namespace.logs("vectoradd")
    assert pod["status"]["phase"] == "Succeeded", logs
    assert "16777216 results verified" in logs.splitlines()
    pool = POOL if is_chosen() else DEMO
    slices = {item["uuid"].removeprefix("MIG-"): item for item in namespace.slices(pool)}
    held = slices[uuid_in(logs)]
    assert held["node"] == pod["spec"]["nodeName"]
    assert held["profile"] == "1g.10gb"
    assert f"SMs      {held['multiprocessors']}" in logs.splitlines()


@pytest.mark.parametrize("restricted", [False, True], ids=["root", "non-root, read-only root"])
def test_who_runs_it_makes_no_difference(
    namespace: Cluster, sample_pod: Manifest, restricted: bool
) -> None:
    namespace.apply(sample_pod("who", "--n", "100001", restricted=restricted))
    pod = namespace.wait_pod("who")
    assert pod["status"]["phase"] == "Succeeded", namespace.logs("who")
    assert "100001 results verified" in namespace.logs("who")


def test_one_ptx_instruction_decides_the_result(namespace: Cluster, sample_pod: Manifest) -> None:
    """The same pod with `add` replaced by `sub` computes the difference instead of the sum."""
    ptx = (EXAMPLES / "vecadd.ptx").read_text()
    assert ptx.count("add.f32") == 1
    data = {"vecadd.ptx": ptx.replace("add.f32", "sub.f32")}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "flipped"},
        "data": data,
    }
    arguments = ("--n", "65537", "--ptx", "/files/vecadd.ptx", "--expect")
    namespace.apply(
        config,
        sample_pod("difference", *arguments, "sub", files="flipped"),
        sample_pod("sum", *arguments, "add", files="flipped"),
    )
    assert namespace.wait_pod("difference")["status"]["phase"] == "Succeeded"
    assert "65537 results verified" in namespace.logs("difference")
    assert namespace.wait_pod("sum")["status"]["phase"] == "Failed"
    assert "results WRONG" in namespace.logs("sum")


def test_unsupported_ptx_is_refused_and_named(namespace: Cluster, sample_pod: Manifest) -> None:
    """A kernel of valid but unsupported PTX is refused by name; nothing is computed."""
    ptx = (EXAMPLES / "vecadd.ptx").read_text()
    data = {"vecadd.ptx": ptx.replace("ret;", "pmevent 1;\n\tret;")}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ptx"}, "data": data}
    arguments = ("--n", "1024", "--ptx", "/files/vecadd.ptx")
    namespace.apply(config, sample_pod("unsupported", *arguments, files="ptx"))
    assert namespace.wait_pod("unsupported")["status"]["phase"] == "Failed"
    logs = namespace.logs("unsupported")
    assert "verified" not in logs
    assert "instruction 'pmevent' is not supported yet" in logs
