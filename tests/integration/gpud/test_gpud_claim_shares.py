"""A slice that ResourceClaims share, on a real gpud with programs in real pods' control groups."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.processes.gpud_process import Gpud, gpud, wait_until
from support.processes.pod_groups import NOT_PLAYABLE, PLAYABLE, Pod, played_pods
from vgpu_sim.cli.clients.admin import AdminRefused
from vgpu_sim.config import program_environment
from vgpu_sim.native.build import LIBRARIES

MIB = 1 << 20
OUT_OF_MEMORY, UNAVAILABLE = 2, 46
A, B, C = (f"{digit * 8}-3333-4333-8333-333333333333" for digit in "abc")

pytestmark = pytest.mark.skipif(not PLAYABLE, reason=NOT_PLAYABLE)

# Answers a line on stdin with one on stdout: "memory", "allocate MIB" or "compute".
PROGRAM = """
import ctypes, sys
from cuda.bindings import driver as d
PTX = b'''.version 7.0
.target sm_80
.address_size 64
.visible .entry answer(.param .u64 out) {
.reg .u32 %n; .reg .u64 %p;
ld.param.u64 %p, [out]; cvta.to.global.u64 %p, %p; mov.u32 %n, 42; st.global.u32 [%p], %n; ret;
}'''
def status(answer):
    return int(answer[0])
def must(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) > 1 else None
must(d.cuInit(0))
created = d.cuDevicePrimaryCtxRetain(0)
print(status(created), flush=True)
if status(created) == 0:
    must(d.cuCtxSetCurrent(created[1]))
    kernel = must(d.cuModuleGetFunction(must(d.cuModuleLoadData(PTX)), b"answer"))
    out = must(d.cuMemAlloc(4))
for line in sys.stdin:
    what, *amount = line.split()
    if what == "memory":
        print(d.cuMemGetInfo()[2] >> 20, flush=True)
    elif what == "allocate":
        print(status(d.cuMemAlloc(int(amount[0]) << 20)), flush=True)
    else:
        arguments = ((int(out),), (ctypes.c_void_p,))
        done = status(d.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
        found = ctypes.c_uint32()
        done = done or status(d.cuMemcpyDtoH(ctypes.addressof(found), out, 4))
        print(found.value if done == 0 else -done, flush=True)
"""


class Program:
    """A program in a pod; ``status`` is the result of its request for a context."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.status = self._read()

    def ask(self, line: str) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextmanager
def program(node: Gpud, pod: Pod) -> Iterator[Program]:
    environment = program_environment(node.run_dir / "slices", "", LIBRARIES)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        preexec_fn=pod.join,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Program(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def pods() -> Iterator[list[Pod]]:
    with played_pods(3) as made:
        yield made


@pytest.fixture
def node() -> Iterator[Gpud]:
    with gpud("--cgroup-parent", f"tessera-shares-{os.getpid()}") as running:
        yield running
        running.call("set_holders", holders={}, complete=True)
        found = [one for gpu in running.call("inventory")["gpus"] for one in gpu["instances"]]
        for one in found:
            uuid = one["uuid"]
            wait_until(lambda uuid=uuid: not running.instance(uuid)["contexts"])


def share(node: Gpud, uid: str, mib: int) -> dict[str, Any]:
    """Give a claim a share of the slice that all claims of this test share."""
    (gpu,) = node.call("inventory")["gpus"]
    return node.call(
        "create_instance",
        gpu_uuid=gpu["uuid"],
        profile="1g.10gb",
        start=0,
        owner=f"claim:{uid}",
        owner_name=f"team/{uid[0]}",
        memory_bytes=mib * MIB,
    )


def hold(node: Gpud, uuid: str, *held: tuple[Pod, str]) -> None:
    holders = [pod.holder(f"claim:{uid}") for pod, uid in held]
    node.call("set_holders", holders={uuid: holders}, complete=True)


@pytest.fixture
def uuid(node: Gpud) -> str:
    """A slice that the claims A and B share, 512 and 256 MiB of it."""
    other = node.make_slice(start=2)  # makes the GPU
    node.call("destroy_instance", uuid=other["uuid"])
    first, second = share(node, A, 512), share(node, B, 256)
    assert first["uuid"] == second["uuid"]
    return str(first["uuid"])


def test_two_claims_compute_side_by_side_each_within_its_memory(
    node: Gpud, pods: list[Pod], uuid: str
) -> None:
    one, two, _ = pods
    hold(node, uuid, (one, A), (two, B))
    with program(node, one) as first, program(node, two) as second:
        assert (first.status, second.status) == (0, 0)
        assert (first.ask("compute"), second.ask("compute")) == (42, 42)
        assert (first.ask("memory"), second.ask("memory")) == (512, 256)
        assert first.ask("allocate 400") == 0
        assert second.ask("allocate 400") == OUT_OF_MEMORY
        assert second.ask("allocate 150") == 0
        assert first.ask("allocate 200") == OUT_OF_MEMORY
        rows = {s["owner_name"]: s for s in node.instance(uuid)["shares"]}
        assert {name: row["contexts"] for name, row in rows.items()} == {"team/a": 1, "team/b": 1}
        assert 400 * MIB <= rows["team/a"]["memory_used_bytes"] <= 512 * MIB
        assert 150 * MIB <= rows["team/b"]["memory_used_bytes"] <= 256 * MIB
        assert (first.ask("compute"), second.ask("compute")) == (42, 42)


def test_the_end_of_one_leaves_the_other_computing(node: Gpud, pods: list[Pod], uuid: str) -> None:
    one, two, _ = pods
    hold(node, uuid, (one, A), (two, B))
    with program(node, one) as first, program(node, two) as second:
        assert (first.ask("compute"), second.ask("compute")) == (42, 42)
        with pytest.raises(AdminRefused, match="has contexts"):
            node.call("destroy_instance", uuid=uuid, owner=f"claim:{A}")
        node.call("destroy_instance", uuid=uuid, owner=f"claim:{A}", evict=True)
        (left,) = node.instance(uuid)["contexts"]
        assert left["pod_uid"] == two.uid
        assert first.ask("compute") < 0
        assert second.ask("compute") == 42
        # The pod of the removed claim is still listed, but gets no further context.
        with program(node, one) as again:
            assert again.status == UNAVAILABLE
        assert second.ask("compute") == 42
        share(node, C, 512)  # freed memory is available to another claim
    node.call("destroy_instance", uuid=uuid, owner=f"claim:{B}", evict=True)
    node.call("destroy_instance", uuid=uuid, owner=f"claim:{C}")
    assert node.call("inventory")["gpus"][0]["instances"] == []


def test_a_share_without_room_and_a_pod_without_share_are_refused(
    node: Gpud, pods: list[Pod], uuid: str
) -> None:
    one, _, stranger = pods
    with pytest.raises(AdminRefused, match=r"no room .* claim team/a, claim team/b"):
        share(node, C, 9500)
    for owner in ("", f"claim:{C}"):
        with pytest.raises(AdminRefused, match="is shared by claim team/a, claim team/b"):
            node.call("destroy_instance", uuid=uuid, owner=owner, evict=True)
    # The agent determines a pod's claim; the pod itself cannot choose it.
    hold(node, uuid, (one, A), (stranger, C))
    with program(node, stranger) as outsider:
        assert outsider.status == UNAVAILABLE
    with program(node, one) as first:
        assert first.ask("compute") == 42


def test_pods_of_one_claim_have_its_share_together(node: Gpud, pods: list[Pod], uuid: str) -> None:
    one, two, _ = pods
    hold(node, uuid, (one, A), (two, A))
    with program(node, one) as first, program(node, two) as second:
        assert first.ask("allocate 300") == 0
        assert second.ask("allocate 300") == OUT_OF_MEMORY
        assert second.ask("allocate 100") == 0


def test_shares_and_their_users_survive_gpud(node: Gpud, pods: list[Pod], uuid: str) -> None:
    one, two, _ = pods
    hold(node, uuid, (one, A), (two, B))
    with program(node, one) as first:
        assert first.ask("allocate 300") == 0
        node.end()
        node.start()
        before = node.instance(uuid)
        assert [(s["owner"], s["memory_bytes"]) for s in before["shares"]] == [
            (f"claim:{A}", 512 * MIB),
            (f"claim:{B}", 256 * MIB),
        ]
        assert [s["contexts"] for s in before["shares"]] == [1, 0]
        hold(node, uuid, (one, A), (two, B))
        with program(node, two) as second:
            assert (second.ask("compute"), second.ask("memory")) == (42, 256)
        node.call("destroy_instance", uuid=uuid, owner=f"claim:{A}", evict=True)
        # gpud may still be ending the second program's context.
        wait_until(lambda: not node.instance(uuid)["contexts"])
