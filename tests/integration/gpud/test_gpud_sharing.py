"""A shared slice of a real gpud: a sharer gets its part of memory and contexts, and no more."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support.processes.gpud_process import Gpud, gpud, raw_client, wait_until
from vgpu_sim.cli.clients.admin import AdminRefused
from vgpu_sim.config import program_environment
from vgpu_sim.native.build import LIBRARIES

MIB = 1 << 20
TOKEN = bytes(range(32))
OUT_OF_MEMORY = 2


@pytest.fixture(scope="module")
def node() -> Iterator[Gpud]:
    with gpud(token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def gpu_slice(node: Gpud) -> dict[str, Any]:
    return node.make_slice()


def share(node: Gpud, gpu_slice: dict[str, Any], kind: str, replicas: int) -> None:
    wait_until(lambda: not node.instance(gpu_slice["uuid"])["contexts"])  # of the previous test
    node.call("set_sharing", shares={gpu_slice["uuid"]: {"kind": kind, "replicas": replicas}})


def test_with_mps_a_sharer_has_its_part_of_memory(node: Gpud, gpu_slice: dict[str, Any]) -> None:
    share(node, gpu_slice, "mps", 24)
    part_mib = gpu_slice["memory_bytes"] // 24 // MIB
    with raw_client(gpu_slice["socket_dir"], TOKEN) as client:
        assert client.open().status == 0
        assert client.allocate((part_mib - 40) * MIB, 0) == 0
        assert client.allocate(64 * MIB, 1) == OUT_OF_MEMORY
    node.call("set_sharing", shares={})
    with raw_client(gpu_slice["socket_dir"], TOKEN) as client:
        assert client.open().status == 0
        assert client.allocate((part_mib + 64) * MIB, 0) == 0


@pytest.mark.parametrize("kind", ["mps", "time-slicing"])
def test_a_sharer_cannot_take_all_contexts(
    node: Gpud, gpu_slice: dict[str, Any], kind: str
) -> None:
    share(node, gpu_slice, kind, 32)  # two contexts each
    with (
        raw_client(gpu_slice["socket_dir"], TOKEN) as first,
        raw_client(gpu_slice["socket_dir"], TOKEN) as second,
        raw_client(gpu_slice["socket_dir"], TOKEN) as third,
    ):
        assert [first.open().status, second.open(context_index=1).status] == [0, 0]
        assert third.open(context_index=2).status == OUT_OF_MEMORY


# Prints CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, and the value of %nsmid in a kernel.
QUERIES = """
from cuda.bindings import driver as d
import ctypes
PTX = b'''.version 7.0
.target sm_80
.address_size 64
.visible .entry ask(.param .u64 out) {
.reg .u32 %n; .reg .u64 %p;
ld.param.u64 %p, [out]; cvta.to.global.u64 %p, %p; mov.u32 %n, %nsmid; st.global.u32 [%p], %n; ret;
}'''
def must(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) > 1 else None
must(d.cuInit(0))
print(must(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0)))
must(d.cuCtxSetCurrent(must(d.cuDevicePrimaryCtxRetain(0))))
kernel = must(d.cuModuleGetFunction(must(d.cuModuleLoadData(PTX)), b"ask"))
out = must(d.cuMemAlloc(4))
must(d.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ((int(out),), (ctypes.c_void_p,)), 0))
found = ctypes.c_uint32()
must(d.cuMemcpyDtoH(ctypes.addressof(found), out, 4))
print(found.value)
"""


def run_with_percentage(node: Gpud, percentage: str) -> tuple[list[int], str]:
    """Run a program with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; return its numbers and complaints."""
    environment = {
        **program_environment(node.run_dir / "slices", TOKEN.hex(), LIBRARIES),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": percentage,
    }
    done = subprocess.run(
        [sys.executable, "-c", QUERIES],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()], done.stderr


def test_an_mps_client_s_percentage_takes_multiprocessors_and_never_gives(
    node: Gpud, gpu_slice: dict[str, Any]
) -> None:
    whole = 16  # of an H100's 1g.10gb
    share(node, gpu_slice, "mps", 2)
    limits = {"25": 4, "100": 8}
    assert {text: run_with_percentage(node, text) for text in limits} == {
        text: ([count, count], "") for text, count in limits.items()
    }
    for text in ("101", "nan"):
        found, complaint = run_with_percentage(node, text)
        assert found == [8, 8]
        assert "is ignored: it must be a percentage above 0, up to 100" in complaint
    share(node, gpu_slice, "time-slicing", 2)
    # As in CUDA: only clients of MPS read it.
    assert run_with_percentage(node, "25") == ([whole, whole], "")


@pytest.mark.parametrize(
    ("uuid", "wanted", "message"),
    [
        ("MIG-1", {"kind": "mps", "replicas": 2}, "uuid must be MIG-<uuid"),
        ("", {"kind": "mig", "replicas": 2}, "kind 'mig' is not one of time-slicing, mps"),
        ("", {"kind": "mps", "replicas": 1}, "'replicas' must be 2 to 48"),
        ("", {"kind": "mps"}, "missing .'replicas'"),
        ("", [], "a share must be"),
    ],
)
def test_a_share_that_cannot_be_is_refused(
    node: Gpud, gpu_slice: dict[str, Any], uuid: str, wanted: Any, message: str
) -> None:
    with pytest.raises(AdminRefused, match=message):
        node.call("set_sharing", shares={uuid or gpu_slice["uuid"]: wanted})
