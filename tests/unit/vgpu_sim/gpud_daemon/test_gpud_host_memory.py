"""The default budget follows the host's memory, and shrinks when others use it."""

from pathlib import Path

import pytest

from vgpu_sim.gpud.limits.host_memory import HostMemory, default_budget_bytes, read

GIB = 1 << 30


def write(meminfo: Path, total: float, available: float, shared: float = 0) -> Path:
    fields = {"MemTotal": total, "MemFree": 0.1, "MemAvailable": available, "Shmem": shared}
    lines = [f"{name}: {round(gib * (1 << 20))} kB" for name, gib in fields.items()]
    meminfo.write_text("\n".join(["HugePages_Total: 0", *lines]) + "\n")
    return meminfo


@pytest.mark.parametrize(
    ("total", "available", "expected"),
    [(24, 23, 12), (24, 12, 10), (24, 14, 12), (24, 4, 2), (24, 2, 0.5), (2, 1, 0.25), (4, 0, 0)],
)
def test_the_default_is_half_of_the_host_or_what_is_available_less_2_gib(
    tmp_path: Path, total: float, available: float, expected: float
) -> None:
    meminfo = write(tmp_path / "meminfo", total, available)
    assert default_budget_bytes(meminfo) == expected * GIB


def test_other_texts_are_refused_and_old_kernels_have_all_available(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("nothing\n")
    with pytest.raises(ValueError, match="MemTotal"):
        read(meminfo)
    meminfo.write_text("MemTotal:       16777216 kB\n")
    assert default_budget_bytes(meminfo) == 8 * GIB


def test_memory_that_is_granted_and_not_yet_filled_counts_once(tmp_path: Path) -> None:
    meminfo = write(tmp_path / "meminfo", 24, 12, shared=1)
    host = HostMemory(meminfo)
    assert host.free_bytes(0) == 10 * GIB
    assert host.free_bytes(6 * GIB) == 4 * GIB, "granted, not filled"
    write(meminfo, 24, 9, shared=4)
    assert host.free_bytes(6 * GIB) == 4 * GIB, "half filled"
    write(meminfo, 24, 6, shared=7)
    assert host.free_bytes(6 * GIB) == 4 * GIB, "filled"


def test_what_other_programs_take_is_not_granted(tmp_path: Path) -> None:
    meminfo = write(tmp_path / "meminfo", 24, 12)
    host = HostMemory(meminfo)
    write(meminfo, 24, 5, shared=0)
    assert host.free_bytes(0) == 3 * GIB
    write(meminfo, 24, 5, shared=9)  # of another program
    assert host.free_bytes(0) == 3 * GIB
    write(meminfo, 24, 1, shared=0)
    assert host.free_bytes(3 * GIB) == 0
