"""gpud counts a program's activity, while the program runs and afterwards."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.processes.gpud_process import Gpud, gpud, wait_until
from support.processes.tessera_run import LIBCUDA
from vgpu_sim import config
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused
from vgpu_sim.system import python_process

TOKEN = bytes(range(32))
SAXPY = Path(__file__).parents[3] / "examples" / "saxpy.ptx"
MIB = 1 << 20

BEGIN = """
import ctypes, sys
from cuda.bindings import driver as d
def ok(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) > 1 else None
ok(d.cuInit(0))
context = ok(d.cuCtxCreate(None, 0, 0))
kernel = ok(d.cuModuleGetFunction(ok(d.cuModuleLoadData(open(sys.argv[1], "rb").read() + bytes(1))), b"saxpy"))
"""

PROGRAM = (
    BEGIN
    + """
host = (ctypes.c_char * (1 << 20))()
x, y = (ok(d.cuMemAlloc(1 << 20)) for _ in range(2))
ok(d.cuMemcpyHtoD(x, ctypes.addressof(host), 1 << 20))
ok(d.cuMemcpyHtoD(y, ctypes.addressof(host), 1000))
pinned = ok(d.cuMemHostAlloc(1 << 20, 0))
ok(d.cuMemcpyHtoDAsync(y, pinned, 1 << 20, 0))
for _ in range(5):
    arguments = ((2.0, x, y, 1000), (ctypes.c_float, None, None, ctypes.c_uint32))
    ok(d.cuLaunchKernel(kernel, 33, 1, 1, 32, 4, 1, 0, 0, arguments, 0))
ok(d.cuMemcpyDtoD(y, x, 70000))
ok(d.cuMemsetD32(x, 7, 3000))
ok(d.cuCtxSynchronize())
ok(d.cuMemcpyDtoH(ctypes.addressof(host), y, 5000))
print("done", flush=True)
sys.stdin.read()
ok(d.cuCtxDestroy(context))
"""
)
DONE = {
    "contexts": 1,
    "launches": 5,
    "blocks": 5 * 33,
    "threads": 5 * 33 * 128,
    "host_to_device_bytes": 2 * MIB + 1000,
    "device_to_host_bytes": 5000,
    "device_to_device_bytes": 70000,
    "set_bytes": 12000,
}


@contextmanager
def program(node: Gpud) -> Iterator[subprocess.Popen[str]]:
    environment = python_process.module_environment() | config.program_environment(
        node.run_dir / "slices", TOKEN.hex(), LIBCUDA.parent
    )
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(SAXPY)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "done\n"
        yield running
        running.communicate()
        assert running.returncode == 0


def counters_of(node: Gpud, uuid: str) -> dict[str, Any]:
    return dict(node.instance(uuid)["counters"])


@pytest.mark.skipif(not LIBCUDA.exists(), reason="NOT RUN: python -m vgpu_sim.native.build")
@pytest.mark.parametrize("backend", ["jit", "interp"])
def test_a_program_is_counted_while_it_lives_and_when_it_has_ended(backend: str) -> None:
    with gpud("--backend", backend, token=TOKEN) as node:
        uuid = node.make_slice()["uuid"]
        assert set(counters_of(node, uuid).values()) == {0}
        with program(node):
            alive = wait_until(
                lambda: (found := counters_of(node, uuid))["device_to_host_bytes"] and found
            )
            assert {name: alive[name] for name in DONE} == DONE
        wait_until(lambda: not node.instance(uuid)["contexts"])
        ended = counters_of(node, uuid)
        assert {name: ended[name] for name in DONE} == DONE
        with program(node):
            pass
        wait_until(lambda: not node.instance(uuid)["contexts"])
        twice = counters_of(node, uuid)
        assert {name: twice[name] for name in DONE} == {k: 2 * v for k, v in DONE.items()}
        assert twice["allocations"] >= 2
        # 33 blocks of four warps, on 16 multiprocessors that have room for all of them: each has
        # some, and an SM has 64 warp slots.
        assert 0.99 <= twice["sm_active_ns"] / twice["busy_ns"] <= 1
        assert twice["sm_occupancy_ns"] / twice["busy_ns"] == pytest.approx(
            33 * 4 / (16 * 64), rel=0.02
        )
        assert 0 < twice["fp32_ns"] < twice["sm_active_ns"]
        assert (twice["fp64_ns"], twice["tensor_ns"]) == (0, 0)


@pytest.mark.skipif(not LIBCUDA.exists(), reason="NOT RUN: python -m vgpu_sim.native.build")
def test_counters_go_with_their_instance() -> None:
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with program(node):
            pass
        wait_until(lambda: not node.instance(made["uuid"])["contexts"])
        node.call("destroy_instance", uuid=made["uuid"])
        assert set(counters_of(node, node.make_slice()["uuid"]).values()) == {0}


FULL = (
    BEGIN
    + """
threads, shared = int(sys.argv[2]), int(sys.argv[3])
dynamic = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
ok(d.cuFuncSetAttribute(kernel, dynamic, shared))
blocks = ok(d.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, shared))
x = ok(d.cuMemAlloc(1 << 20))
arguments = ((2.0, x, x, 1000), (ctypes.c_float, None, None, ctypes.c_uint32))
for _ in range(3):
    ok(d.cuLaunchKernel(kernel, blocks * 16, 1, 1, threads, 1, 1, shared, 0, arguments, 0))
ok(d.cuCtxSynchronize())
ok(d.cuCtxDestroy(context))
print(blocks)
"""
)

READ = """
import os, sys
from pathlib import Path
from vgpu_sim.cli.clients.admin import AdminClient
os.setuid(int(sys.argv[2]))
with AdminClient(Path(sys.argv[1]), 20) as client:
    print(len(client.call("inventory")["gpus"]))
"""


def test_a_telemetry_user_may_only_read(tmp_path: Path) -> None:
    socket = tmp_path / "gpud.sock"
    options = (f"--telemetry-socket={socket}", f"--telemetry-user={os.geteuid()}")
    with gpud(*options) as node:
        made = node.make_slice()
        with AdminClient(tmp_path, 20) as client:
            assert client.call("inventory") == node.call("inventory")
            for method, params in (
                ("destroy_instance", {"uuid": made["uuid"]}),
                ("configure", {"gpus": [], "budget_bytes": 0}),
                ("set_holders", {"holders": {}, "complete": True}),
                ("inject_fault", {}),
            ):
                with pytest.raises(AdminRefused, match="unknown method"):
                    client.call(method, **params)
        assert node.instance(made["uuid"])["admit"]


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: only root can become another user")
def test_only_its_user_reads_it() -> None:
    with gpud() as node:
        socket = node.root / "t" / "gpud.sock"
        node.end()
        node.options += (f"--telemetry-socket={socket}", "--telemetry-user=64010")
        node.start()
        node.root.chmod(0o711)

        def read(folder: Path, uid: int) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-c", READ, str(folder), str(uid)]
            environment = python_process.module_environment()
            return subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=60, check=False
            )

        its_own = read(socket.parent, 64010)
        assert (its_own.returncode, its_own.stdout) == (0, "0\n"), its_own.stderr
        assert read(socket.parent, 64011).returncode != 0
        assert read(node.run_dir, 64010).returncode != 0


@pytest.mark.skipif(not LIBCUDA.exists(), reason="NOT RUN: python -m vgpu_sim.native.build")
@pytest.mark.parametrize(
    ("threads", "shared"),
    [(1024, 0), (96, 0), (96, 40_000), (1, 0)],
    ids=["threads", "blocks", "shared memory", "a warp with one thread"],
)
def test_occupancy_is_what_the_occupancy_calculator_says(threads: int, shared: int) -> None:
    """A grid that fills the slice's 16 multiprocessors exactly once."""
    with gpud("--backend", "jit", token=TOKEN) as node:
        uuid = node.make_slice()["uuid"]
        environment = python_process.module_environment() | config.program_environment(
            node.run_dir / "slices", TOKEN.hex(), LIBCUDA.parent
        )
        command = [sys.executable, "-c", FULL, str(SAXPY), str(threads), str(shared)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        blocks, warps = int(done.stdout), -(-threads // 32)
        wait_until(lambda: not node.instance(uuid)["contexts"])
        found = counters_of(node, uuid)
    assert found["sm_active_ns"] == pytest.approx(found["busy_ns"], rel=0.001, abs=10)
    assert found["sm_occupancy_ns"] / found["busy_ns"] == pytest.approx(
        blocks * warps / 64, rel=0.01
    )
