"""Code that a tenant leaves in the object cache can run only in a sandbox, and does not run even
there.
"""

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.processes import hostile_objects
from support.processes.tessera_run import EXAMPLES, run
from vgpu_sim.gpud.limits.caches import MAX_CACHE_BYTES, MAX_CACHE_ENTRIES


def entries(place: Path) -> dict[Path, int]:
    """Return the object cache's entries by their inodes."""
    return {path: path.stat().st_ino for path in (place / "cache").rglob("*.object")}


NEXT_YEAR = time.time() + 365 * 86400.0
VECTORADD = (sys.executable, str(EXAMPLES / "vectoradd.py"), "--n", "512")


def kernels(objects: Iterable[Path]) -> set[str]:
    """Return the kernels of these objects: each has a first object and a better one."""
    return {entry.name.partition(".")[0] for entry in objects}


def test_a_second_run_takes_its_objects_from_the_cache(place: Path) -> None:
    assert run(place, *VECTORADD, backend="jit").returncode == 0
    first = entries(place)
    assert len(kernels(first)) == 1, "the kernel's, and none of the warm-up"
    assert run(place, *VECTORADD, backend="jit").returncode == 0
    second = entries(place)
    assert second.items() >= first.items()
    assert kernels(second) == kernels(first)


@pytest.mark.parametrize(
    "hostile", [hostile_objects.kernel_with_initialiser, hostile_objects.kernel_that_creates]
)
def test_a_planted_object_never_runs_as_the_user(place: Path, hostile) -> None:
    first = run(place, *VECTORADD, backend="jit")
    assert first.returncode == 0, first.stderr
    (directory,) = {entry.parent for entry in entries(place)}
    marker = place / "the attack ran"
    hostile_objects.plant(directory, hostile(marker))
    second = run(place, *VECTORADD, backend="jit")
    assert not marker.exists()
    if hostile is hostile_objects.kernel_with_initialiser:  # it is detected, and replaced
        assert second.returncode == 0, second.stderr
        assert "512 results verified" in second.stdout


def test_a_sparse_file_evicts_nothing_and_the_oldest_of_too_many_files_go(place: Path) -> None:
    assert run(place, *VECTORADD, backend="jit").returncode == 0
    first = entries(place)
    (directory,) = {entry.parent for entry in first}
    sparse = directory / "sparse"
    with sparse.open("wb") as file:
        file.truncate(4 * MAX_CACHE_BYTES)
    older = [directory / f"empty-{number}" for number in range(MAX_CACHE_ENTRIES)]
    for path in older:
        path.touch()
    for age, path in enumerate([sparse, *first]):  # newer than all of these, the sparse one newest
        os.utime(path, (NEXT_YEAR - age, NEXT_YEAR - age))
    second = run(place, *VECTORADD, backend="jit")  # trims as it starts its context
    assert "512 results verified" in second.stdout, second.stderr
    assert sum(path.exists() for path in older) < MAX_CACHE_ENTRIES, "it has been trimmed"
    assert entries(place).items() >= first.items()
    assert sparse.exists()
