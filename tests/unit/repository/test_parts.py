"""The division of tests into those that only compute, those of processes and other unit tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.watches.parts import (
    COMPUTING,
    COMPUTING_PART,
    PARTS,
    PROCESSES_PART,
    UNITS_PART,
    part_of,
)
from support.watches.rotation import DAYS, VARIABLE, is_due

ROOT = Path(__file__).parents[3]
# Measuring waits, starting long-lived processes or several tasks; process_time, a command's result and
# one coroutine do not.
WAITING = re.compile(
    r"^\s*(?:import|from) (?:multiprocessing|socket|support\.rigs)\b"
    r"|\basyncio\.(?!run\b)|^\s*from asyncio\b|time\.perf_counter",
    re.MULTILINE,
)


@pytest.mark.parametrize("place", COMPUTING)
def test_tests_that_only_compute_do_not_wait(place: str) -> None:
    path = ROOT / place
    files = [path] if path.is_file() else list(path.rglob("test_*.py"))
    assert files
    assert [str(file) for file in files if WAITING.search(file.read_text())] == []


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("tests/conformance/values/test_conformance_sums.py", COMPUTING_PART),
        ("tests/unit/mig/test_mig_plan.py", COMPUTING_PART),
        ("tests/unit/mig_others/test_a.py", UNITS_PART),
        ("tests/e2e/devices/test_dra.py", PROCESSES_PART),
        ("tests/integration/run/test_run_sdk.py", COMPUTING_PART),
        ("tests/integration/run/test_run_lifetime.py", PROCESSES_PART),
        ("tests/integration/gpud/test_gpud_storms.py", PROCESSES_PART),
    ],
)
def test_a_folder_decides_the_part(file: str, part: str) -> None:
    assert part_of(ROOT / file, ROOT) == part


def test_each_part_collects_its_own_files_only() -> None:
    own = {
        COMPUTING_PART: "tests/unit/rdma",
        PROCESSES_PART: "tests/integration/console",
        UNITS_PART: "tests/unit/kubelet_conformance",
    }
    for part in PARTS:
        options = ["--collect-only", "-qq", "-p", "no:cacheprovider", "--part", part]
        command = [sys.executable, "-m", "pytest", *options, *own.values()]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        files = {Path(line.partition(":")[0]).parent for line in found.stdout.splitlines() if line}
        assert files == {Path(own[part])}, found.stderr


@pytest.mark.parametrize(("prefix", "days"), DAYS.items())
def test_in_rotation_each_test_runs_on_one_of_the_days(prefix: str, days: int) -> None:
    for number in range(50):
        name = f"{prefix}{number}]"
        assert [is_due(name, day) for day in range(20_000, 20_000 + days)].count(True) == 1


def test_other_tests_run_every_day() -> None:
    assert all(is_due("tests/unit/mig/test_mig_plan.py::test_a", day) for day in range(10))


def test_what_is_in_rotation_exists() -> None:
    for prefix in DAYS:
        path, _, name = prefix.partition("::")
        assert (ROOT / path).exists()
        assert not name or f"def {name.removesuffix('[')}(" in (ROOT / path).read_text()


@pytest.mark.parametrize(("options", "rotates"), [(["--part", COMPUTING_PART], True), ([], False)])
def test_only_parts_are_in_rotation(options: list[str], rotates: bool) -> None:
    place = "tests/conformance/values/test_conformance_quads.py"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    listing = subprocess.run(
        [*command, *options, place],
        cwd=ROOT,
        env={**os.environ, VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (" deselected" in listing.stdout) is rotates
