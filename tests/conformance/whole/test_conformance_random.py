"""Random kernels: the JIT under several plans, the interpreter and the PTX oracle agree.

A share of ``make fuzz``, on one core, with two fixed sequences, so that an unrelated change
never fails by a new random kernel; ``make fuzz`` itself finds those. The number of kernels
depends on the machine and on ``--fuzz-seconds``, which both sequences share. ``found`` contains
minimised former failures.
"""

from pathlib import Path

import pytest

from support.fuzzers.fuzzing.campaign import Campaign, Options
from support.fuzzers.fuzzing.workers import Task, Workers
from support.kernels.random_kernels import kernels

_FOUND = sorted((Path(__file__).parents[1] / "found").glob("*.ptx"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("sequence", "n", "share"), [(1, 150, 0.6), (2, 1000, 0.4)])
def test_three_ways_agree(sequence: int, n: int, share: float, pytestconfig: pytest.Config) -> None:
    minutes = share * pytestconfig.getoption("--fuzz-seconds") / 60
    totals = Campaign(Options(sequence, n, minutes, jobs=1)).run()
    print(totals.summary())
    assert not totals.failed, "\n".join(
        f"make fuzz kernel={seed}: {finding.kind}, {finding.plan}: {finding.detail}"
        for seed, findings in totals.failed.items()
        for finding in findings
    )
    assert totals.runs > 0


@pytest.mark.parametrize("path", _FOUND, ids=lambda path: path.stem)
def test_former_failures_pass(path: Path) -> None:
    kernel = kernels.parse(path.read_text())
    with Workers(1) as pool:
        ((_, report),) = pool.examine(iter([Task(kernel, plan_count=6)]))
    assert not report.findings
    assert not report.unordered
    assert report.runs >= 7
