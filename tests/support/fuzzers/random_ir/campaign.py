"""Random LLVM IR as the subject of a campaign of the fuzzer (``fuzzing.campaign``)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.fuzzers.fuzzing.trial import Finding, Progress, Report
from support.fuzzers.fuzzing.workers import Workers
from support.fuzzers.random_ir import backends, programs, shrink, trial
from support.fuzzers.random_ir.programs import Program


@dataclass(frozen=True)
class RandomIr:
    """Programs under ``plan_count`` plans besides those that launches choose by themselves."""

    plan_count: int = 1
    shrink_seconds: float = 60.0
    name: str = ""  # suffix in the state, which has a folder of its own

    def workers(self, jobs: int, max_stage_seconds: float) -> Workers:
        def examine(program: Program, progress: Progress) -> Report:
            return trial.examine(program, progress, self.plan_count)

        return Workers(jobs, max_stage_seconds, examine)

    def tasks(self, seeds: Iterator[int]) -> Iterator[Program]:
        return map(programs.generate, seeds)

    def describe(self, program: Program) -> str:
        """Return a description of how a program is compiled and launched."""
        return (
            f"block {program.block}, {program.target}, "
            f"passes -O{program.passes}, code -O{program.level}"
        )

    def save(self, program: Program, place: Path) -> None:
        """Write the program and its PTX."""
        (place / "program.ll").write_text(program.to_text())
        _write_ptx(program, place / "kernel.ptx")

    def shrunk(self, pool: Workers, program: Program, finding: Finding, place: Path) -> str:
        """Write a program of fewer statements that fails in the same way; return its
        description.
        """

        def fails(candidate: Program) -> bool:
            for _, report in pool.examine(iter([candidate])):
                return any(f.signature() == finding.signature() for f in report.findings)
            return False

        small = shrink.shrink(program, fails, self.shrink_seconds)
        path = place / "shrunk.ll"
        path.write_text(small.to_text())
        _write_ptx(small, place / "shrunk.ptx")
        return f"{len(small.text.splitlines())} lines: make fuzz ir=1 kernel={path}"


def _write_ptx(program: Program, path: Path) -> None:
    try:
        path.write_text(backends.ptx_alone(program))
    except backends.NoPtx as error:
        path.write_text(f"// {error}\n")
