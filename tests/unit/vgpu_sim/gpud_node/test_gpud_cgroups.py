"""Slice groups: version 1 on the kernel itself, version 2 against a recorded tree. On the kernel,
version 2 is tested by ``tests/integration/gpud/test_gpud_cgroup2.py``.
"""

import errno
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from vgpu_sim.gpud.limits.cgroups import joining, v1 as v1_module
from vgpu_sim.gpud.limits.cgroups.base import (
    BASE_OVERHEAD_BYTES,
    CONTEXT_OVERHEAD_BYTES,
    Share,
)
from vgpu_sim.gpud.limits.cgroups.detect import DEFAULT_ROOT, detect
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.limits.cgroups.v1 import HIERARCHIES, CgroupsV1
from vgpu_sim.gpud.limits.cgroups.v2 import CgroupsV2
from vgpu_sim.gpud.model import new_instance_uuid

GIB = 1 << 30
SHARE = Share(memory_bytes=GIB, sm_count=16, board_sm_count=132, cpu_count=2, strict=False)
STRICT = Share(memory_bytes=GIB, sm_count=60, board_sm_count=132, cpu_count=2, strict=True)
PARENT = f"tessera-test-{os.getpid()}"

needs_v1 = pytest.mark.skipif(
    not (DEFAULT_ROOT / "memory" / "cgroup.procs").exists() or os.geteuid() != 0,
    reason="NOT RUN: needs root and cgroup v1",
)


@pytest.fixture
def v1():
    try:
        groups = CgroupsV1(DEFAULT_ROOT, PARENT, cpu_count=2)
    except OSError as err:
        pytest.skip(f"NOT RUN: cgroup v1 is there but may not be changed: {err}")
    yield groups
    for name in HIERARCHIES:
        parent = DEFAULT_ROOT / name / PARENT
        for group in (*parent.glob("MIG-*"), parent):
            with suppress(FileNotFoundError):
                group.rmdir()


def read(hierarchy: str, uuid: str, name: str) -> int:
    return int((DEFAULT_ROOT / hierarchy / PARENT / uuid / name).read_text())


@needs_v1
def test_v1_sets_limits_that_the_kernel_repeats(v1):
    uuid = new_instance_uuid()
    v1.prepare(uuid, SHARE, contexts=0)
    limit = GIB + BASE_OVERHEAD_BYTES + CONTEXT_OVERHEAD_BYTES
    assert read("memory", uuid, "memory.limit_in_bytes") == limit
    assert read("cpu", uuid, "cpu.shares") == 1024 * 2 * 16 // 132
    assert read("cpu", uuid, "cpu.cfs_quota_us") == -1
    v1.prepare(uuid, STRICT, contexts=3)
    assert read("memory", uuid, "memory.limit_in_bytes") == limit + 2 * CONTEXT_OVERHEAD_BYTES
    assert read("cpu", uuid, "cpu.cfs_quota_us") == 2 * 100_000 * 60 // 132
    assert v1.existing() == {uuid}
    assert v1.isolation.enforced


@needs_v1
def test_v1_takes_a_process_in_every_hierarchy_and_holds_its_memory(v1):
    uuid = new_instance_uuid()
    v1.prepare(uuid, Share(32 << 20, 16, 132, 2, strict=False), contexts=1)
    files = v1.procs_files(uuid)
    mounted = [name for name in HIERARCHIES if (DEFAULT_ROOT / name / "cgroup.procs").exists()]
    assert len(files) == len(mounted)
    limit = BASE_OVERHEAD_BYTES + CONTEXT_OVERHEAD_BYTES + (32 << 20)
    program = (
        "import mmap, os, sys\n"
        f"for path in {files!r}: open(path, 'w').write(str(os.getpid()))\n"
        "print(open('/proc/self/cgroup').read(), flush=True)\n"
        "sys.stdin.readline()\n"
        f"memory = mmap.mmap(-1, {limit} + (64 << 20))\n"
        "for at in range(0, len(memory), 4096): memory[at] = 1\n"
    )
    with subprocess.Popen(
        ["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in mounted]
        assert all(f"/{PARENT}/{uuid}" in line for line in lines), lines
        assert v1.processes(uuid) == {child.pid}
        with pytest.raises(OSError, match="busy"):
            v1.remove(uuid)
        child.communicate("go\n")
    assert child.returncode == -9  # the kernel's error for exceeding the limit
    v1.remove(uuid)
    v1.remove(uuid)
    assert v1.existing() == set()


@needs_v1
def test_v1_removes_the_parent_only_with_the_last_slice(v1):
    uuid = new_instance_uuid()
    v1.prepare(uuid, SHARE, contexts=1)
    v1.remove_parent()
    assert v1.existing() == {uuid}
    v1.remove(uuid)
    v1.remove_parent()
    assert not list(DEFAULT_ROOT.glob(f"*/{PARENT}"))
    v1.remove_parent()


@needs_v1
def test_v1_makes_the_parent_again_that_another_gpud_has_removed(v1):
    CgroupsV1(DEFAULT_ROOT, PARENT, cpu_count=2).remove_parent()
    assert v1.existing() == set()
    uuid = new_instance_uuid()
    v1.prepare(uuid, SHARE, contexts=1)
    assert v1.existing() == {uuid}
    assert read("cpu", "", "cpu.shares") == 2 * 1024


@pytest.fixture
def v2_tree(tmp_path) -> Path:
    """The files of a v2 host that gpud reads; mkdir creates the kernel's files there."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory pids\n")
    parent = tmp_path / "tessera"
    parent.mkdir()
    (parent / "cgroup.subtree_control").write_text("")
    return tmp_path


def test_v2_delegates_then_limits(v2_tree):
    groups = CgroupsV2(v2_tree, "tessera", cpu_count=2)
    for group in (v2_tree, v2_tree / "tessera"):
        assert (group / "cgroup.subtree_control").read_text() == "+memory +cpu"
    assert (v2_tree / "tessera" / "cpu.weight").read_text() == str(100 * 2)
    uuid = new_instance_uuid()
    leaf = v2_tree / "tessera" / uuid
    leaf.mkdir()
    (leaf / "memory.swap.max").write_text("max")
    (leaf / "cgroup.procs").write_text("12\n34\n")
    groups.prepare(uuid, SHARE, contexts=1)
    assert int((leaf / "memory.max").read_text()) == SHARE.memory_limit_bytes(1)
    assert (leaf / "memory.swap.max").read_text() == "0"
    assert (leaf / "cpu.weight").read_text() == str(100 * 2 * 16 // 132)
    assert (leaf / "cpu.max").read_text() == "max 100000"
    groups.prepare(uuid, STRICT, contexts=1)
    assert (leaf / "cpu.max").read_text() == f"{2 * 100_000 * 60 // 132} 100000"
    assert groups.procs_files(uuid) == (str(leaf / "cgroup.procs"),)
    assert groups.processes(uuid) == {12, 34}
    assert groups.existing() == {uuid}


def test_v2_sets_no_limit_below_the_memory_in_use(v2_tree):
    groups = CgroupsV2(v2_tree, "tessera", cpu_count=2)
    uuid = new_instance_uuid()
    leaf = v2_tree / "tessera" / uuid
    leaf.mkdir()
    used_bytes = SHARE.memory_limit_bytes(1) + 4096
    (leaf / "memory.current").write_text(f"{used_bytes}\n")
    groups.prepare(uuid, SHARE, contexts=1)
    assert int((leaf / "memory.max").read_text()) == used_bytes
    (leaf / "memory.current").write_text("4096\n")
    groups.prepare(uuid, SHARE, contexts=1)
    assert int((leaf / "memory.max").read_text()) == SHARE.memory_limit_bytes(1)


def test_v2_makes_the_parent_again_that_another_gpud_has_removed(v2_tree):
    groups = CgroupsV2(v2_tree, "tessera", cpu_count=2)
    shutil.rmtree(v2_tree / "tessera")  # rmdir removes the kernel's files with the directory
    assert groups.existing() == set()
    uuid = new_instance_uuid()
    groups.prepare(uuid, SHARE, contexts=1)
    assert groups.existing() == {uuid}
    assert (v2_tree / "tessera" / "cgroup.subtree_control").read_text() == "+memory +cpu"


def test_a_node_without_groups_says_why(tmp_path):
    groups = detect(2, tmp_path)
    assert isinstance(groups, NoCgroups)
    assert not groups.isolation.enforced
    assert str(tmp_path) in groups.isolation.reason


def test_v2_without_the_memory_controller_says_so(v2_tree):
    (v2_tree / "cgroup.controllers").write_text("cpu pids\n")
    isolation = detect(2, v2_tree).isolation
    assert not isolation.enforced
    assert "memory" in isolation.reason


class Refusing:
    """Groups that can be created, but not joined. ``groups`` are those that exist."""

    def __init__(self, file: Path) -> None:
        self.file, self.groups = file, ["parent"]

    def prepare(self, uuid, share, contexts):
        self.groups.append(uuid)

    def procs_files(self, uuid):
        return (str(self.file),)

    def remove(self, uuid):
        self.groups.remove(uuid)

    def remove_parent(self):
        self.groups.remove("parent")


@pytest.mark.parametrize("exists", [True, False])
def test_groups_that_no_process_can_join_say_so(tmp_path, monkeypatch, exists):
    file = tmp_path / "cgroup.procs"
    if exists:
        file.write_text("")

    def refuse(path, *_arguments, **_options):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "write_text", refuse)  # as the kernel does across namespaces
    slices = Refusing(file)
    with pytest.raises(OSError, match="nsdelegate" if exists else "No such file"):
        joining.check(slices)
    assert slices.groups == []


def test_groups_that_may_not_be_made_say_so(tmp_path):
    for name in ("memory", "cpu"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text("")
        (tmp_path / name / "tessera").write_text("a file where the group should be")
    isolation = detect(2, tmp_path).isolation
    assert not isolation.enforced
    assert isolation.reason.startswith("cgroup v1: ")


def test_shared_memory_of_a_group_is_read_or_none(tmp_path):
    assert v1_module.shmem_of(tmp_path / "gone") == 0
    (tmp_path / "memory.stat").write_text("anon 7\nshmem_thp 5\n")
    assert v1_module.shmem_of(tmp_path) == 0
    (tmp_path / "memory.stat").write_text("anon 7\nshmem_thp 5\nshmem 4096\nfile 9\n")
    assert v1_module.shmem_of(tmp_path) == 4096
