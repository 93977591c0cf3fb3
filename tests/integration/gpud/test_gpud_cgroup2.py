"""Slices' limits on a kernel with control groups version 2, where processes join groups of their
own. ``make test-cgroup2`` runs this file in a virtual machine.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.processes.gpud_process import Gpud, client_process, gpud, wait_until
from support.processes.pod_groups import IS_V2, PLAYABLE, ROOT, Pod, played_pods
from support.processes.tessera_run import EXAMPLES, LIBCUDA, REPOSITORY
from vgpu_sim import config
from vgpu_sim.gpud.limits.cgroups import joining
from vgpu_sim.gpud.limits.cgroups.base import Share
from vgpu_sim.gpud.limits.cgroups.detect import detect
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.limits.cgroups.v2 import CgroupsV2
from vgpu_sim.gpud.model import InstanceUuid, new_instance_uuid

pytestmark = [
    pytest.mark.skipif(
        not (IS_V2 and PLAYABLE), reason="NOT RUN: needs root and cgroup v2 (make test-cgroup2)"
    ),
    pytest.mark.timeout(1800),  # on a translated processor
]

MIB = 1 << 20
PATIENCE_S = 600
PARENT = f"tessera-test-{os.getpid()}"
VECADD = REPOSITORY / "tests" / "support" / "scripts" / "small_vecadd.py"
COMPUTED = "1024 results verified"
SMALL = Share(memory_bytes=32 * MIB, sm_count=16, board_sm_count=132, cpu_count=1, strict=False)
LARGE = Share(memory_bytes=32 * MIB, sm_count=60, board_sm_count=132, cpu_count=1, strict=False)
SPIN = "while True: pass"
# Allocates by the MiB up to a number of MiB, then waits; ends early if the process of a pid has ended. The
# kernel ends every other process of the group first.
ALLOCATE = """
import mmap, os, sys
size, pid = int(sys.argv[1]), int(sys.argv[2])
open("/proc/self/oom_score_adj", "w").write(sys.argv[3])
blocks = []
def has_ended(pid):
    try:
        return not open(f"/proc/{pid}/cmdline").read()  # a zombie has none
    except OSError:
        return True
for _ in range(size):
    if pid and has_ended(pid):
        break
    blocks.append(mmap.mmap(-1, 1 << 20))
    for offset in range(0, 1 << 20, 4096):
        blocks[-1][offset] = 1
print(len(blocks), flush=True)
sys.stdin.readline()
"""


def fields(group: Path, name: str) -> dict[str, int]:
    """Return a file of a group that has lines of a key and a number."""
    lines = (group / name).read_text().splitlines()
    return {key: int(value) for key, value in map(str.split, lines)}


@contextmanager
def python(code: str, *arguments: object, joins: Path | None) -> Iterator[subprocess.Popen[str]]:
    """A Python program in a group."""

    def join() -> None:
        if joins is not None:
            (joins / "cgroup.procs").write_text("0")

    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        preexec_fn=join,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def remove_tree(group: Path) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


@pytest.fixture
def slices() -> Iterator[CgroupsV2]:
    yield CgroupsV2(ROOT, PARENT, cpu_count=1)
    remove_tree(ROOT / PARENT)


def new_slice(slices: CgroupsV2, share: Share) -> tuple[InstanceUuid, Path]:
    uuid = new_instance_uuid()
    slices.prepare(uuid, share, contexts=0)
    return uuid, ROOT / PARENT / uuid


def test_the_kernel_repeats_the_limits(slices: CgroupsV2) -> None:
    uuid, group = new_slice(slices, SMALL)
    assert int((group / "memory.max").read_text()) == SMALL.memory_limit_bytes(0)
    assert (group / "memory.swap.max").read_text().strip() == "0"
    assert (group / "cpu.max").read_text().split() == ["max", "100000"]
    assert int((group / "cpu.weight").read_text()) == 100 * 16 // 132
    assert (group / "memory.oom.group").read_text().strip() == "0"  # each context ends alone
    with python("input()", joins=group) as process:
        assert slices.processes(uuid) == {process.pid}
        with pytest.raises(OSError, match="busy"):
            slices.remove(uuid)
        slices.remove_parent()
        assert slices.existing() == {uuid}
    slices.remove(uuid)
    assert slices.existing() == set()
    assert slices.processes(uuid) == set()
    slices.remove_parent()
    assert not (ROOT / PARENT).exists()


def test_a_process_beyond_the_limit_ends_and_its_neighbour_does_not(slices: CgroupsV2) -> None:
    (_, group), (_, second_group) = (new_slice(slices, SMALL) for _ in range(2))
    beyond = SMALL.memory_limit_bytes(0) // MIB + 16
    with (
        python(ALLOCATE, 64, 0, 0, joins=second_group) as neighbour,
        python(ALLOCATE, beyond, 0, 0, joins=group) as process,
    ):
        assert process.wait(PATIENCE_S) == -9
        assert neighbour.stdout is not None
        assert neighbour.stdout.readline() == "64\n"
        assert neighbour.poll() is None
    assert fields(group, "memory.events")["oom_kill"] == 1
    assert fields(second_group, "memory.events")["oom_kill"] == 0


def test_a_lower_limit_ends_no_process(slices: CgroupsV2) -> None:
    large = Share(
        memory_bytes=512 * MIB, sm_count=16, board_sm_count=132, cpu_count=1, strict=False
    )
    uuid, group = new_slice(slices, large)
    used = SMALL.memory_limit_bytes(0) // MIB + 32
    with python(ALLOCATE, used, 0, 0, joins=group) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{used}\n"
        slices.prepare(uuid, SMALL, contexts=0)
        assert int((group / "memory.max").read_text()) >= used * MIB
        assert process.poll() is None
    assert fields(group, "memory.events")["oom_kill"] == 0
    slices.prepare(uuid, SMALL, contexts=0)
    assert int((group / "memory.max").read_text()) == SMALL.memory_limit_bytes(0)


def cpu_us(group: Path, seconds: float) -> int:
    start = fields(group, "cpu.stat")["usage_usec"]
    time.sleep(seconds)
    return fields(group, "cpu.stat")["usage_usec"] - start


def test_slices_that_compete_get_time_by_their_multiprocessors(slices: CgroupsV2) -> None:
    (_, small), (_, large) = new_slice(slices, SMALL), new_slice(slices, LARGE)
    one_cpu = {min(os.sched_getaffinity(0))}
    with python(SPIN, joins=small) as first, python(SPIN, joins=large) as second:
        for process in (first, second):
            os.sched_setaffinity(process.pid, one_cpu)
        wait_until(lambda: fields(large, "cpu.stat")["usage_usec"] > 500_000, PATIENCE_S)
        earlier_us = fields(large, "cpu.stat")["usage_usec"]
        small_us = cpu_us(small, 10)
        large_us = fields(large, "cpu.stat")["usage_usec"] - earlier_us
    assert 60 / 16 * 0.7 < large_us / small_us < 60 / 16 * 1.4, (large_us, small_us)


def test_a_group_with_processes_cannot_be_the_root() -> None:
    root = ROOT / f"{PARENT}-root"
    (ROOT / "cgroup.subtree_control").write_text("+memory +cpu")
    root.mkdir()
    try:
        with python("input()", joins=root):
            groups = detect(1, root, PARENT)
            assert isinstance(groups, NoCgroups)
            assert groups.reason.startswith("cgroup v2: the group contains processes")
            assert not (root / PARENT).exists()
        assert isinstance(detect(1, root, PARENT), CgroupsV2)
        # The controllers of a child of ``root`` are those that ``root`` enables: here all.
        nested = root / PARENT / "nested"
        nested.mkdir()
        assert isinstance(detect(1, nested, PARENT), CgroupsV2)
        leaf = nested / PARENT / "leaf" / "below"
        leaf.mkdir(parents=True)
        reason = detect(1, leaf, PARENT).isolation.reason
        text = "cgroup v2: the group does not offer the controllers memory cpu"
        assert reason == f"{text}: {leaf}"
    finally:
        remove_tree(root)


@pytest.fixture(scope="module")
def pods() -> Iterator[list[Pod]]:
    with played_pods(2) as pods:
        yield pods


@contextmanager
def node(*options: str, prefix: tuple[str, ...] = ()) -> Iterator[Gpud]:
    """A gpud with a budget; at its end no control group may be left."""
    fixed = ("--cgroup-parent", PARENT, "--budget", str(640 * MIB))
    with gpud(*fixed, *options, prefix=prefix) as running:
        yield running
        running.call("set_holders", holders={}, complete=True)
        uuids = [
            one["uuid"] for gpu in running.call("inventory")["gpus"] for one in gpu["instances"]
        ]
        for uuid in uuids:
            wait_until(lambda uuid=uuid: not running.instance(uuid)["contexts"], PATIENCE_S)
    wait_until(lambda: not (ROOT / PARENT).exists(), PATIENCE_S)


@pytest.fixture(scope="module")
def shared_node() -> Iterator[Gpud]:
    with node() as running:
        yield running


def give(running: Gpud, *pairs: tuple[dict[str, Any], Pod]) -> None:
    """Let each pod hold a slice."""
    holders = {gpu_slice["uuid"]: [pod.holder()] for gpu_slice, pod in pairs}
    running.call("set_holders", holders=holders, complete=True)


def vecadd(running: Gpud, gpu_slice: dict[str, Any], pod: Pod) -> str:
    """Return the output of a CUDA program of a pod."""
    environment = config.program_environment(
        running.run_dir / "slices", bytes(32).hex(), LIBCUDA.parent
    )
    process = subprocess.run(
        [sys.executable, "-S", str(VECADD), "--ptx", str(EXAMPLES / "vecadd.ptx")],
        env={**environment, "CUDA_VISIBLE_DEVICES": gpu_slice["uuid"]},
        preexec_fn=pod.join,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return process.stdout + process.stderr


def slice_of(running: Gpud, start: int, profile: str = "1g.10gb") -> dict[str, Any]:
    """Return the instance at a place, which is created if there is none."""
    for gpu in running.call("inventory")["gpus"]:
        for instance in gpu["instances"]:
            if instance["start"] == start:
                return dict(instance)
    return running.make_slice(profile, start)


def group_of(gpu_slice: dict[str, Any]) -> Path:
    return ROOT / PARENT / str(gpu_slice["uuid"])


def test_a_full_slice_is_refused_memory_and_its_neighbour_computes(
    shared_node: Gpud, pods: list[Pod]
) -> None:
    full, second_slice = slice_of(shared_node, 0), slice_of(shared_node, 1)
    give(shared_node, (full, pods[0]), (second_slice, pods[1]))
    assert shared_node.call("inventory")["isolation"] == {"enforced": True, "reason": ""}
    with client_process(full["socket_dir"], pods[0].join, 384 * MIB) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "0\n"
        assert client.stdout.readline() == "allocated\n"
        (context,) = shared_node.instance(full["uuid"])["contexts"]
        assert (
            Path(f"/proc/{context['pid']}/cgroup").read_text() == f"0::/{PARENT}/{full['uuid']}\n"
        )
        assert fields(group_of(full), "memory.stat")["shmem"] >= 384 * MIB
        with client_process(full["socket_dir"], pods[0].join, 256 * MIB) as second:
            assert second.communicate("")[0] == "0\n"  # a context, but no memory
        assert COMPUTED in vecadd(shared_node, second_slice, pods[1])
        client.communicate("")
    for gpu_slice in (full, second_slice):
        assert fields(group_of(gpu_slice), "memory.events")["oom_kill"] == 0


def test_a_worker_that_the_kernel_ends_ends_alone(shared_node: Gpud, pods: list[Pod]) -> None:
    killed, second_slice = slice_of(shared_node, 0), slice_of(shared_node, 1)
    give(shared_node, (killed, pods[0]), (second_slice, pods[1]))
    with (
        client_process(second_slice["socket_dir"], pods[1].join) as neighbour,
        client_process(killed["socket_dir"], pods[0].join, 384 * MIB) as client,
        shared_node.admin() as agent,
    ):
        for process in (client, neighbour):
            assert process.stdout is not None
            assert process.stdout.readline() == "0\n"
            assert process.stdout.readline() == "allocated\n"
        agent.call("subscribe")
        worker = shared_node.instance(killed["uuid"])["contexts"][0]["pid"]
        limit = int((group_of(killed) / "memory.max").read_text()) // MIB
        with python(ALLOCATE, limit, worker, -1000, joins=group_of(killed)) as greedy:
            wait_until(lambda: not shared_node.instance(killed["uuid"])["contexts"], PATIENCE_S)
            assert greedy.stdout is not None
            assert 0 < int(greedy.stdout.readline()) < limit
        assert fields(group_of(killed), "memory.events")["oom_kill"] == 1
        event = agent.next_event()
        while event["event"] != "context_ended":
            event = agent.next_event()
        assert (event["pid"], event["reason"]) == (worker, "killed by signal 9")
        assert client.communicate("?\n")[0] == "closed\n"
        assert len(shared_node.instance(second_slice["uuid"])["contexts"]) == 1
        assert fields(group_of(second_slice), "memory.events")["oom_kill"] == 0
        assert COMPUTED in vecadd(shared_node, second_slice, pods[1])
        neighbour.communicate("")
    assert COMPUTED in vecadd(shared_node, killed, pods[0])


def test_a_slice_is_throttled_and_its_neighbour_is_not(pods: list[Pod]) -> None:
    with node("--isolation", "strict") as running:
        small, large = slice_of(running, 0), slice_of(running, 4, "3g.40gb")
        give(running, (small, pods[0]), (large, pods[1]))
        cpus = len(os.sched_getaffinity(0))
        assert (group_of(small) / "cpu.max").read_text().split() == [
            str(cpus * 100_000 * 16 // 132),
            "100000",
        ]
        with python(SPIN, joins=group_of(small)), python(SPIN, joins=group_of(small)):
            used_us = cpu_us(group_of(small), 10)
            assert used_us < 10_000_000 * cpus * 16 / 132 * 1.3
            assert fields(group_of(small), "cpu.stat")["nr_throttled"] > 20
            assert fields(group_of(large), "cpu.stat")["nr_throttled"] == 0
            assert COMPUTED in vecadd(running, large, pods[1])


def test_a_gpud_in_a_namespace_of_its_own_says_that_limits_are_not_enforced(
    pods: list[Pod],
) -> None:
    container = ROOT / f"{PARENT}-gpud"
    container.mkdir()
    enter = f'echo $$ >{container}/cgroup.procs; exec unshare --cgroup "$@"'
    try:
        with node(prefix=("sh", "-c", enter, "sh")) as running:
            gpu_slice = slice_of(running, 0)
            isolation = running.call("inventory")["isolation"]
            assert not isolation["enforced"]
            assert joining.NOT_FROM_THIS_NAMESPACE in isolation["reason"]
            # The pod is found by its group's name, which this gpud sees relative to its own group.
            give(running, (gpu_slice, pods[0]))
            assert COMPUTED in vecadd(running, gpu_slice, pods[0])
    finally:
        remove_tree(container)


def test_the_mount_restricts_namespaces_as_systemds_does() -> None:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    (line,) = [line for line in mounts if " - cgroup2 " in line]
    assert "nsdelegate" in line
