"""A compiled C program that links ``-lcuda`` computes in a pod whose image contains no libcuda."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cluster.kubectl import EXAMPLES, Cluster
from support.programs.c_programs import linked_with_lcuda

Manifest = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.backend
FILES = "c-program"


@pytest.fixture
def files(namespace: Cluster, tmp_path: Path) -> Cluster:
    """A ConfigMap with the program, its PTX, and the same PTX with its only addition changed."""
    program = linked_with_lcuda(tmp_path, "linked").read_bytes()
    ptx = (EXAMPLES / "vecadd.ptx").read_text()
    assert ptx.count("add.f32") == 1
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": FILES},
            "binaryData": {"linked": base64.b64encode(program).decode()},
            "data": {"vecadd.ptx": ptx, "changed.ptx": ptx.replace("add.f32", "sub.f32")},
        }
    )
    return namespace


def c_pod(sample_pod: Manifest, name: str, ptx: str) -> dict[str, Any]:
    """Return a pod with the sample's image, non-root on a read-only root, and the program mounted
    as an executable.
    """
    pod = sample_pod(name, files=FILES, restricted=True)
    (container,) = pod["spec"]["containers"]
    container["command"] = ["/files/linked", f"/files/{ptx}"]
    (volume,) = pod["spec"]["volumes"]
    volume["configMap"]["defaultMode"] = 0o755
    return pod


def test_a_c_program_that_links_lcuda(files: Cluster, sample_pod: Manifest) -> None:
    files.apply(c_pod(sample_pod, "right", "vecadd.ptx"))
    files.apply(c_pod(sample_pod, "wrong", "changed.ptx"))
    pod, said = files.wait_pod("right"), files.logs("right")
    assert pod["status"]["phase"] == "Succeeded", said
    lines = said.splitlines()
    assert "13000 1 NVIDIA H100 80GB HBM3 MIG 1g.10gb" in lines
    assert "10000 results, wrong 0, graphics 801" in lines
    assert files.wait_pod("wrong")["status"]["phase"] == "Failed"
    assert "10000 results, wrong 9999, graphics 801" in files.logs("wrong").splitlines()
