"""Every benchmark kernel loads, computes correctly and matches clang's output for its source."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import on_slice
from benchmarks.exec import no_address_clamp
from benchmarks.exec.catalogue import CONTESTS
from benchmarks.exec.contest import KERNELS, NATIVE, OURS, POCL, UNCLAMPED
from benchmarks.exec.ptx import CLANG, compile_cuda
from benchmarks.exec.race import Outcome
from benchmarks.exec.results import section, summary

SOURCES = sorted(path.stem for path in KERNELS.glob("*.cu"))
C_COMPILER = shutil.which("cc") is not None


@pytest.fixture(scope="module")
def check_results() -> dict[str, dict[str, dict[str, str] | list[str]]]:
    """Return the results of each contest's contenders at the tiny size, in one slice."""
    return json.loads(on_slice.run([sys.executable, "-m", "benchmarks.exec.check"]))


@pytest.mark.parametrize("name", CONTESTS)
def test_contenders_compute_right(
    name: str, check_results: dict[str, dict[str, dict[str, str] | list[str]]]
) -> None:
    outcome = check_results[name]
    assert outcome["wrong"] == {}
    if CONTESTS[name].source.startswith("$") and OURS in outcome["missing"]:
        pytest.skip(outcome["missing"][OURS])
    assert OURS in outcome["right"]
    if C_COMPILER and NATIVE in CONTESTS[name].goals:
        assert NATIVE in outcome["right"]


def test_every_contest_has_its_sources_and_every_source_a_contest() -> None:
    """PTX of some kernels of tensors is generated, or comes from a folder that a variable names."""
    own = {contest.source for contest in CONTESTS.values()}
    assert {source for source in own if source and source[0] not in "$."} == set(SOURCES)
    assert {path.stem for path in KERNELS.glob("*.ptx")} == set(SOURCES)
    for contest in CONTESTS.values():
        for opponent, suffix in ((POCL, "cl"), (NATIVE, "c")):
            if opponent in contest.goals:
                assert (KERNELS / f"{contest.source}.{suffix}").exists()


@pytest.mark.skipif(
    shutil.which(CLANG) is None, reason=f"NOT RUN: no {CLANG} (apt-get install {CLANG})"
)
@pytest.mark.parametrize("name", SOURCES)
def test_ptx_is_what_clang_makes_of_the_source(name: str, tmp_path: Path) -> None:
    compile_cuda(KERNELS / f"{name}.cu", tmp_path / "made.ptx")
    assert (tmp_path / "made.ptx").read_text() == (KERNELS / f"{name}.ptx").read_text()


def test_the_build_without_clamp_differs_only_on_request() -> None:
    command = [sys.executable, "-m", "vgpu_sim.cli.main", "ptx", "explain", "--stage", "ir"]
    program = [*command[:1], "-c", "from vgpu_sim.cli.main import main; main()", *command[3:]]
    bounds = []
    with no_address_clamp.environment() as variables:
        for changed in ({"PYTHONPATH": on_slice.PYTHONPATH}, variables):
            done = subprocess.run(
                [*program, str(KERNELS / "vecadd.ptx")],
                env={**os.environ, **changed},
                capture_output=True,
                text=True,
                check=True,
            )
            bounds.append(done.stdout.count("call i64 @llvm.umin"))
    assert bounds[0] >= 3
    assert bounds[1] == 0


def test_ratios_and_what_was_not_measured_become_rows() -> None:
    contest = next(c for c in CONTESTS.values() if "pocl15" in c.tags)
    whole = Outcome(seconds={OURS: 2e-3, POCL: 2e-2, NATIVE: 1e-3, UNCLAMPED: 1.9e-3})
    rows = {row.name: row for row in section(contest, whole, clamp=True).rows}
    assert rows["PoCL (20 ms) / Tessera"].measured == pytest.approx(10)
    assert rows["PoCL (20 ms) / Tessera"].verdict == "met"
    assert rows["OpenMP C (1 ms) / Tessera"].verdict == "MISSED"
    assert rows["cost of the clamp"].measured == pytest.approx(5.26, rel=0.01)
    (total,) = summary([contest], {contest.name: whole})
    assert [row.verdict for row in total.rows] == ["met", "met", ""]
    lonely = Outcome(seconds={OURS: 2e-3}, missing={POCL: "no PoCL: apt-get"})
    rows = {row.name: row for row in section(contest, lonely, clamp=True).rows}
    assert rows["PoCL / Tessera"].verdict == "NOT MEASURED"
    assert rows["PoCL / Tessera"].missing == "no PoCL: apt-get"
    (total,) = summary([contest], {contest.name: lonely})
    assert total.rows[0].verdict == "NOT MEASURED"
    absent = section(contest, Outcome(missing={OURS: "WRONG RESULT: c"}), clamp=True)
    assert absent.skipped == "WRONG RESULT: c"
