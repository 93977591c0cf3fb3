"""Kills clients at random moments, beside a neighbour whose numbers must stay right.

Arguments of the program: ``seed=1 n=1000 minutes=10 torch=PYTHON``. It starts a gpud of its own: ``make
fuzz kills=1``. With a Python that has PyTorch, the clients train a model.
"""

import ctypes
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from mig.geometry import board
from support.fuzzers.hostile_calls.campaign import Neighbour
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions
from vgpu_sim.cli.placing import configure, layout
from vgpu_sim.cli.run import preload
from vgpu_sim.config import program_environment
from vgpu_sim.native import build

SETTLE_S: Final = 60.0
_MOST_WAIT_S: Final = 0.4
_MOST_WAIT_OF_TORCH_S: Final = 8.0
_CLIENT: Final = (sys.executable, "-m", "support.fuzzers.random_kills", "client")
_IMAGE: Final = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 where)
{ .reg .b64 %rd<2>; ld.param.u64 %rd1, [where]; st.global.u64 [%rd1], %rd1; ret; }
"""


def be_killed() -> None:
    """Allocate, launch, capture and load until the process is killed."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def make(name: str, *arguments: object) -> ctypes.c_uint64:
        made = ctypes.c_uint64()
        status = getattr(cuda, name)(ctypes.byref(made), *arguments)
        if status:
            raise SystemExit(f"{name} returned {status}")
        return made

    cuda.cuInit(0)
    make("cuCtxCreate_v2", 0, 0)
    print("ready", flush=True)
    while True:
        module = make("cuModuleLoadData", _IMAGE)
        function = make("cuModuleGetFunction", module, b"kernel")
        stream = make("cuStreamCreate", 1)
        memory = make("cuMemAlloc_v2", ctypes.c_size_t(3 << 20))
        pooled = make("cuMemAllocAsync", ctypes.c_size_t(1 << 20), stream)
        shared = make("cuMemAllocManaged", ctypes.c_size_t(1 << 20), 1)
        given = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
        cuda.cuStreamBeginCapture_v2(stream, 2)
        cuda.cuMemsetD8Async(memory, 1, ctypes.c_size_t(3 << 20), stream)
        cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, given, None)
        graph = ctypes.c_uint64()
        cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
        executable = make("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))
        for _ in range(8):
            cuda.cuGraphLaunch(executable, stream)
        cuda.cuMemFreeAsync(pooled, stream)
        cuda.cuStreamSynchronize(stream)
        for name, handle in (
            ("cuGraphExecDestroy", executable),
            ("cuGraphDestroy", graph),
            ("cuMemFree_v2", shared),
            ("cuMemFree_v2", memory),
            ("cuStreamDestroy_v2", stream),
            ("cuModuleUnload", module),
        ):
            if status := getattr(cuda, name)(handle):
                raise SystemExit(f"{name} returned {status}")


@dataclass
class Report:
    """What the kills have shown."""

    kills: int = 0
    defects: list[str] = field(default_factory=list)


def _wait_until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + SETTLE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class _Use(NamedTuple):
    """What clients have of a node."""

    used_bytes: int
    workers: frozenset[int]
    """The pids of the contexts' workers."""
    files: frozenset[Path]
    """Those of contexts' workers and of slices, below gpud's directory."""
    descriptors: int
    """Those that gpud has open."""

    def beyond(self, before: Self) -> str:
        """Return what has been added, or an empty text; what ran before may have ended."""
        numbers = {
            "bytes": self.used_bytes - before.used_bytes,
            "descriptors": self.descriptors - before.descriptors,
        }
        added = [f"{more} {name}" for name, more in numbers.items() if more > 0]
        added += map(str, (self.workers - before.workers) | (self.files - before.files))
        return ", ".join(added)


def _use(node: StandaloneNode) -> _Use:
    with node.admin() as admin:
        found: dict[str, Any] = admin.call("inventory")
    instances = [one for gpu in found["gpus"] for one in gpu["instances"]]
    workers = [context["pid"] for one in instances for context in one["contexts"]]
    return _Use(
        int(found["budget"]["used_bytes"]),
        frozenset(workers),
        frozenset(
            one for place in ("workers", "slices") for one in (node.run_dir / place).rglob("?*")
        ),
        len(os.listdir(f"/proc/{node.pid}/fd")),
    )


def kill_clients(
    node: StandaloneNode,
    environment: Mapping[str, str],
    seed: int,
    count: int,
    at_once: int = 2,
    seconds: float = math.inf,
    command: Sequence[str] = _CLIENT,
    most_wait_s: float = _MOST_WAIT_S,
) -> Report:
    """Kill ``count`` clients, ``at_once`` at a time, each after a random time; start none after
    ``seconds``. A client prints a line once it is about to use the device.
    """
    tests = Path(__file__).parents[2]
    paths = (environment.get("PYTHONPATH"), str(tests), str(tests.parent))
    with_paths = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    chance, report = random.Random(seed), Report()
    alone = _use(node)
    neighbour = Neighbour(with_paths)
    before = _use(node)
    end = time.monotonic() + seconds
    while report.kills < count and time.monotonic() < end:
        clients = [
            subprocess.Popen(command, env=with_paths, stdout=subprocess.PIPE)
            for _ in range(min(at_once, count - report.kills))
        ]
        for client in clients:
            assert client.stdout
            if chance.random() < 0.8:  # the others may be killed while they set up their context
                client.stdout.readline()
            time.sleep(chance.random() * most_wait_s)
            if client.poll() is not None:
                report.defects.append(f"a client ended by itself: {client.returncode}")
            client.kill()
            client.wait()
            client.stdout.close()
            report.kills += 1
        if report.kills % (100 if command is _CLIENT else 10) == 0:
            print(f"{report.kills} kills, {len(report.defects)} defects", flush=True)
    if not _wait_until(lambda: not _use(node).beyond(before)):
        report.defects.append(f"left: {_use(node).beyond(before)}")
    found = neighbour.finish()
    if "right" not in found:
        report.defects.append(f"neighbour: {found or 'ended'}")
    if not _wait_until(lambda: not _use(node).beyond(alone)):
        report.defects.append(f"left at the end: {_use(node).beyond(alone)}")
    return report


def main() -> None:
    """Be a client, or kill clients, as the command line says."""
    if sys.argv[1:] == ["client"]:
        be_killed()
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    seed, count = int(given.get("seed") or 1), int(given.get("n") or 1000)
    seconds = 60 * float(given.get("minutes") or "inf")
    with tempfile.TemporaryDirectory(prefix="k-", dir="/tmp") as name:
        options = StandaloneOptions(backend="jit", threads=1)
        with StandaloneNode([Path(name)], options) as node:
            chosen = board("h100-80gb")
            with node.admin() as admin:
                configure(admin, chosen, layout(chosen, chosen.device_profile("1g.10gb"), 1))
            environment = program_environment(node.slices_dir, node.token_hex, build.LIBRARIES)
            if python := given.get("torch"):
                report = kill_clients(
                    node,
                    preload.with_libraries(environment, "13"),
                    seed,
                    count,
                    seconds=seconds,
                    command=(python, str(Path(__file__).with_name("torch_client.py"))),
                    most_wait_s=_MOST_WAIT_OF_TORCH_S,
                )
            else:
                report = kill_clients(node, environment, seed, count, seconds=seconds)
    print(f"seed {seed}: {report.kills} kills, defects: {report.defects}")
    raise SystemExit(bool(report.defects))


if __name__ == "__main__":
    main()
