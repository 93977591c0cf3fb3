"""Contexts of an earlier gpud are counted, and end, like contexts of this one."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.processes.gpud_process import Gpud, gpud, raw_client, wait_until
from support.processes.tessera_run import LIBCUDA
from vgpu_sim import config
from vgpu_sim.system import processes, python_process

TOKEN = bytes(range(32))
MIB = 1 << 20
SAXPY = Path(__file__).parents[3] / "examples" / "saxpy.ptx"
DOUBLE_BIT_ECC = 48
ECC_UNCORRECTABLE = 214

# Launches kernels until one fails, then prints the error.
PROGRAM = """
import ctypes, sys
from cuda.bindings import driver as d
def ok(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) > 1 else None
ok(d.cuInit(0))
context = ok(d.cuCtxCreate(None, 0, 0))
kernel = ok(d.cuModuleGetFunction(ok(d.cuModuleLoadData(open(sys.argv[1], "rb").read() + bytes(1))), b"saxpy"))
x = ok(d.cuMemAlloc(1 << 20))
host = (ctypes.c_char * (1 << 20))()
ok(d.cuMemcpyHtoD(x, ctypes.addressof(host), 1 << 20))
arguments = ((2.0, x, x, 4000), (ctypes.c_float, None, None, ctypes.c_uint32))
print("ready", flush=True)
failed = 0
while not failed:
    failed = int(d.cuLaunchKernel(kernel, 32, 1, 1, 128, 1, 1, 0, 0, arguments, 0)[0])
    failed = failed or int(d.cuCtxSynchronize()[0])
print(failed, flush=True)
"""


@contextmanager
def computing(node: Gpud, uuid: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that computes on this instance until its context ends."""
    environment = python_process.module_environment() | config.program_environment(
        node.run_dir / "slices", TOKEN.hex(), LIBCUDA.parent
    )
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(SAXPY)],
        env=environment | {"CUDA_VISIBLE_DEVICES": f"MIG-{uuid.removeprefix('MIG-')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            yield running
        finally:
            running.kill()


def counters(node: Gpud, uuid: str) -> dict[str, int]:
    return dict(node.instance(uuid)["counters"])


def engine(node: Gpud, uuid: str) -> float:
    return float(node.instance(uuid)["activity"]["engine"])


def strike(node: Gpud, uuid: str) -> None:
    gpu = node.call("inventory")["gpus"][0]["uuid"]
    fields = {"id": "", "gpu_uuid": gpu, "instance": uuid, "kind": "xid"}
    node.call("inject_fault", **fields, xid=DOUBLE_BIT_ECC, count=1, duration_ms=0)


@pytest.mark.skipif(not LIBCUDA.exists(), reason="NOT RUN: python -m vgpu_sim.native.build")
def test_an_adopted_context_counts_and_ends_as_a_fresh_one_does() -> None:
    with gpud("--backend", "jit", token=TOKEN) as node:
        old, new = node.make_slice()["uuid"], node.make_slice(start=1)["uuid"]
        with computing(node, new):  # ends before the restart: its counters are kept
            wait_until(lambda: counters(node, new)["launches"])
        wait_until(lambda: not node.instance(new)["contexts"])
        ended = counters(node, new)
        with computing(node, old) as adopted:
            wait_until(lambda: engine(node, old) > 0)
            before = counters(node, old)
            node.end(signal.SIGKILL)
            node.start()

            first = counters(node, old)
            assert all(first[name] >= before[name] for name in before), (before, first)
            assert counters(node, new) == ended
            with computing(node, new) as fresh:
                for uuid in (old, new):
                    wait_until(lambda uuid=uuid: engine(node, uuid) > 0)
                then = {uuid: counters(node, uuid) for uuid in (old, new)}
                for uuid in (old, new):
                    wait_until(
                        lambda uuid=uuid: (
                            counters(node, uuid)["launches"] > then[uuid]["launches"]
                            and counters(node, uuid)["busy_ns"] > then[uuid]["busy_ns"]
                        )
                    )
                for uuid, program in ((old, adopted), (new, fresh)):
                    strike(node, uuid)
                    output, errors = program.communicate(timeout=60)
                    assert output == f"{ECC_UNCORRECTABLE}\n", (uuid, errors)
                    assert f"Xid {DOUBLE_BIT_ECC}: Double Bit ECC Error" in errors


def test_an_adopted_worker_has_its_account_and_gets_new_memory() -> None:
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            assert client.allocate(64 * MIB, 0) == 0
            for _ in range(2):  # each gpud adopts the previous one's
                node.end(signal.SIGKILL)
                assert client.allocate(4 * MIB, 1) == 2
                node.start()
            assert counters(node, made["uuid"])["allocations"] == 1
            assert client.allocate(4 * MIB, 1) == 0
            node.end(signal.SIGKILL)
            node.start()
            assert counters(node, made["uuid"])["allocations"] == 2
            assert node.instance(made["uuid"])["memory_used_bytes"] == 68 * MIB
        wait_until(lambda: not node.instance(made["uuid"])["contexts"])
        assert node.call("inventory")["budget"]["used_bytes"] == 0
        assert not list((node.run_dir / "workers").iterdir())


def test_a_stopped_worker_holds_up_no_start_and_reports_when_it_goes_on() -> None:
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            assert client.allocate(4 * MIB) == 0
            pidfd = processes.open_process(node.instance(made["uuid"])["contexts"][0]["pid"])
            assert pidfd is not None
            node.end(signal.SIGKILL)
            assert processes.stop(pidfd)
            begin = time.monotonic()
            node.start()
            assert time.monotonic() - begin < 30
            assert counters(node, made["uuid"])["allocations"] == 0
            processes.resume(pidfd)
            wait_until(lambda: counters(node, made["uuid"])["allocations"] == 1)


def test_an_invalid_socket_name_in_the_list_is_ignored(tmp_path: Path) -> None:
    """The list is untrusted: with a name outside the directory the worker is not reconnected."""
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            wait_until(lambda: "reconnect" in _list_of(node).read_text())
            node.end(signal.SIGKILL)
            text = _list_of(node).read_text()
            name = next((node.run_dir / "workers").iterdir()).name
            _list_of(node).write_text(text.replace(name, "../gpud.sock"))
            node.start()
            found: list[Any] = node.instance(made["uuid"])["contexts"]
            assert len(found) == 1
            assert client.allocate(4 * MIB) == 2


def _list_of(node: Gpud) -> Path:
    return node.run_dir / "contexts.json"
