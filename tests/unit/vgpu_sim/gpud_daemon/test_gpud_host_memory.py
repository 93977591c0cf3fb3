"""The default budget follows the host's memory, and shrinks when others use it."""

from pathlib import Path

import pytest

from vgpu_sim.gpud.limits.cgroups.own import find_groups
from vgpu_sim.gpud.limits.host_memory import HostMemory, default_budget_bytes, read

GIB = 1 << 30


def write(meminfo: Path, total: float, available: float, shared: float = 0) -> Path:
    fields = {"MemTotal": total, "MemFree": 0.1, "MemAvailable": available, "Shmem": shared}
    lines = [f"{name}: {round(gib * (1 << 20))} kB" for name, gib in fields.items()]
    meminfo.write_text("\n".join(["HugePages_Total: 0", *lines]) + "\n")
    return meminfo


def write_group(
    group: Path, limit: float | None, usage: float, version: int, **stat: float
) -> Path:
    group.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current")
    unlimited = "max"
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        unlimited = str((1 << 63) - 4096)
        # Without the groups below, whose sums are what counts.
        stat = {"inactive_file": 0, "shmem": 0} | {f"total_{key}": n for key, n in stat.items()}
    (group / names[0]).write_text(f"{unlimited if limit is None else round(limit * GIB)}\n")
    (group / names[1]).write_text(f"{round(usage * GIB)}\n")
    (group / "memory.stat").write_text(
        "".join(f"{name} {round(gib * GIB)}\n" for name, gib in stat.items())
    )
    return group


@pytest.mark.parametrize(
    ("total", "available", "expected"),
    [(24, 23, 12), (24, 12, 10), (24, 14, 12), (24, 4, 2), (24, 2, 0.5), (2, 1, 0.25), (4, 0, 0)],
)
def test_the_default_is_half_of_the_host_or_what_is_available_less_2_gib(
    tmp_path: Path, total: float, available: float, expected: float
) -> None:
    meminfo = write(tmp_path / "meminfo", total, available)
    assert default_budget_bytes(meminfo, ()) == expected * GIB


def test_other_texts_are_refused_and_old_kernels_have_all_available(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("nothing\n")
    with pytest.raises(ValueError, match="MemTotal"):
        read(meminfo)
    meminfo.write_text("MemTotal:       16777216 kB\n")
    assert default_budget_bytes(meminfo, ()) == 8 * GIB


def test_memory_that_is_granted_and_not_yet_filled_counts_once(tmp_path: Path) -> None:
    meminfo = write(tmp_path / "meminfo", 24, 12, shared=1)
    host = HostMemory(meminfo, ())
    assert host.free_bytes(0) == 10 * GIB
    assert host.free_bytes(6 * GIB) == 4 * GIB, "granted, not filled"
    write(meminfo, 24, 9, shared=4)
    assert host.free_bytes(6 * GIB) == 4 * GIB, "half filled"
    write(meminfo, 24, 6, shared=7)
    assert host.free_bytes(6 * GIB) == 4 * GIB, "filled"


def test_what_other_programs_take_is_not_granted(tmp_path: Path) -> None:
    meminfo = write(tmp_path / "meminfo", 24, 12)
    host = HostMemory(meminfo, ())
    write(meminfo, 24, 5, shared=0)
    assert host.free_bytes(0) == 3 * GIB
    write(meminfo, 24, 5, shared=9)  # of another program
    assert host.free_bytes(0) == 3 * GIB
    write(meminfo, 24, 1, shared=0)
    assert host.free_bytes(3 * GIB) == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("limit", "usage", "inactive", "expected"),
    [
        (8, 0.5, 0, 4),  # half of the limit, not of the host
        (8, 5, 0, 1),
        (8, 5, 2, 3),  # the page cache is given up first
        (8, 1, 2, 4),
        (8, 8.5, 0, 0),
        (None, 50, 0, 32),
        (100, 50, 0, 32),
    ],
)
def test_a_control_group_s_limit_lowers_the_default(
    tmp_path: Path,
    version: int,
    limit: float | None,
    usage: float,
    inactive: float,
    expected: float,
) -> None:
    meminfo = write(tmp_path / "meminfo", 64, 60)
    group = write_group(tmp_path / "group", limit, usage, version, inactive_file=inactive)
    assert default_budget_bytes(meminfo, [group]) == expected * GIB


@pytest.mark.parametrize("version", [1, 2])
def test_memory_that_is_filled_is_that_of_the_control_group(tmp_path: Path, version: int) -> None:
    meminfo = write(tmp_path / "meminfo", 64, 60, shared=1)
    group = write_group(tmp_path / "group", 12, 2, version, shmem=1)
    host = HostMemory(meminfo, [group])
    assert host.free_bytes(0) == 8 * GIB
    assert host.free_bytes(6 * GIB) == 2 * GIB, "granted, not filled"
    write(meminfo, 64, 40, shared=21)  # by other containers
    assert host.free_bytes(6 * GIB) == 2 * GIB
    write_group(group, 12, 8, version, shmem=7)
    assert host.free_bytes(6 * GIB) == 2 * GIB, "filled"
    write_group(group, 12, 11, version, shmem=7)
    assert host.free_bytes(6 * GIB) == 0.25 * GIB


def test_a_group_that_cannot_be_read_limits_nothing(tmp_path: Path) -> None:
    meminfo = write(tmp_path / "meminfo", 24, 23)
    assert default_budget_bytes(meminfo, [tmp_path / "none"]) == 12 * GIB


def write_process(folder: Path, groups: str, *mounts: str) -> Path:
    folder.mkdir()
    (folder / "cgroup").write_text(groups)
    (folder / "mountinfo").write_text("".join(f"{mount}\n" for mount in mounts))
    return folder


def test_the_groups_are_the_process_s_own_and_their_ancestors(tmp_path: Path) -> None:
    mounted = tmp_path / "cgroup"
    unrelated_mount = "22 1 0:20 / /proc rw,nosuid shared:1 - proc proc rw"
    second = f"31 23 0:28 / {mounted} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
    process = write_process(tmp_path / "a", "0::/user.slice/run-7\n", unrelated_mount, second)
    assert find_groups(process) == (mounted / "user.slice/run-7", mounted / "user.slice", mounted)
    first = f"35 31 0:32 / {mounted}/memory rw - cgroup cgroup rw,memory"
    cpu = f"36 31 0:33 / {mounted}/cpu rw - cgroup cgroup rw,cpu,cpuacct"
    groups = "4:cpu,cpuacct:/x\n3:memory:/pod/one\n0::/\n"
    process = write_process(tmp_path / "b", groups, cpu, first)
    memory = mounted / "memory"
    assert find_groups(process) == (memory / "pod/one", memory / "pod", memory)


@pytest.mark.parametrize("path", ["/", "/docker/7", "/../../other", "/docker/8"])
def test_a_container_s_group_is_the_root_of_its_mount(tmp_path: Path, path: str) -> None:
    root = "/" if path != "/docker/7" else path
    mount = f"31 23 0:28 {root} {tmp_path} ro - cgroup2 cgroup rw"
    if path == "/docker/8":
        mount = mount.replace("0:28 /", "0:28 /docker/7")
    process = write_process(tmp_path / "process", f"0::{path}\n", mount)
    assert find_groups(process) == (tmp_path,)


def test_a_system_without_control_groups_has_none(tmp_path: Path) -> None:
    assert find_groups(tmp_path / "none") == ()
