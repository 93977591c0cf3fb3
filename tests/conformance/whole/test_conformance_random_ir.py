"""Random LLVM IR: compiled by LLVM for this machine, and as PTX by the interpreter and the JIT.

A share of ``make fuzz ir=1``, always of the same programs; ``found`` contains minimised former
failures. The PTX is typical of compilers: their calling convention, local memory, odd widths,
all optimisation levels.
"""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from support.fuzzers.fuzzing import trial as fuzzing_trial
from support.fuzzers.fuzzing.campaign import Campaign, Options, kernel_seed
from support.fuzzers.fuzzing.trial import Report
from support.fuzzers.random_ir import backends, programs, shrink, trial
from support.fuzzers.random_ir.campaign import RandomIr
from support.fuzzers.random_ir.programs import Program
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import CodeGenerationError, UnsupportedError
from vgpu_sim.exec.interp.families import integer
from vgpu_sim.isa import Op

_FOUND = sorted((Path(__file__).parents[1] / "found").glob("*.ll"))
# For each target and level, programs that take less than a second.
_FIXED = (1, 2, 10, 11, 14, 16, 18, 20, 21, 24, 26, 37, 39)
_STAGE_SECONDS = 120


def _reports(tasks: list[Program]) -> Iterator[tuple[Program, Report]]:
    subject = RandomIr()
    with subject.workers(1, _STAGE_SECONDS) as pool:
        yield from pool.examine(iter(tasks))


def test_the_three_agree() -> None:
    drawn = [programs.generate(kernel_seed(1, index)) for index in _FIXED]
    assert {program.target for program in drawn} == set(programs.TARGETS)
    assert {(program.passes, program.level) for program in drawn} == set(programs.LEVELS)
    reports = [report for _, report in _reports(drawn)]
    wrong = [
        f"make fuzz ir=1 kernel={report.seed}: {finding.kind}, {finding.plan}: {finding.detail}"
        for report in reports
        for finding in report.findings
    ]
    assert not wrong, "\n".join(wrong)
    assert not any(report.refused for report in reports)
    assert sum(report.runs for report in reports) > 2 * len(_FIXED)


@pytest.mark.parametrize("path", _FOUND, ids=lambda path: path.stem)
def test_former_failures_pass(path: Path) -> None:
    ((_, report),) = _reports([programs.parse(path.read_text())])
    assert not report.findings
    assert not report.refused
    assert report.runs


def test_a_seed_has_one_program_and_a_file_holds_it() -> None:
    program = programs.generate(kernel_seed(3, 5))
    assert program == programs.generate(kernel_seed(3, 5))
    assert program == programs.parse(program.to_text())
    assert program.text != programs.generate(kernel_seed(3, 6)).text
    with pytest.raises(ValueError, match="first line is no '; random_ir ' with block"):
        programs.parse(program.text)


def test_a_reduced_program_is_a_smaller_valid_program() -> None:
    for index in range(12):
        seed = kernel_seed(4, index)
        whole = programs.generate(seed)
        for drawn in range(2, 5):
            part = programs.generate(seed, range(0, whole.statements, drawn))
            assert part.statements == whole.statements
            assert len(part.text) < len(whole.text)
            backends.verify(part)
        nothing = programs.generate(seed, range(whole.statements))
        backends.verify(nothing)
        assert "br " not in nothing.text.partition("@body(")[2]


def test_programs_cover_their_features() -> None:
    drawn = [programs.generate(kernel_seed(5, index)) for index in range(60)]
    assert {program.target for program in drawn} == set(programs.TARGETS)
    assert {(program.passes, program.level) for program in drawn} == set(programs.LEVELS)
    text = "\n".join(program.text for program in drawn)
    for wanted in (
        *("switch i8", "i128", "i33", "i7", "half", "double", "byval(%S2)", "<4 x i8>", "memmove"),
        *(
            "memset",
            "align 1\n",
            "fpto",
            "with.overflow",
            "fshl",
            "bitreverse",
            "ptr @f",
            "@tab0",
            "@shared",
        ),
    ):
        assert wanted in text, wanted


def test_results_are_the_same_on_all_executors() -> None:
    """x86 rounded these twice, or treated bits of a NaN as a value."""
    for index in range(200):
        text = programs.generate(kernel_seed(6, index)).text
        text = text.replace("] undef, align 16", "")  # written by each thread before it is read
        assert not re.search(
            r"fptrunc double \S+ to half|[su]itofp i(24|32|33|48|64|128) \S+ to half", text
        )
        assert "llvm.fma.f16" not in text
        assert not re.search(r"fpto[su]i |\b(nsw|nuw|exact|fast|undef|poison)\b", text)
        for kind, name, number in re.findall(
            r"bitcast (half|float|double) (\S+) to i\d+\n(.*)", text
        ):
            assert f"fcmp uno {kind} {name}, {name}" in number
        for shift in re.findall(r"(?:shl|lshr|ashr) i\d+ \S+, (%\w+)$", text, re.MULTILINE):
            assert re.search(rf"{shift} = (and|urem) i\d+ ", text)
        for by in re.findall(r"[su](?:div|rem) i\d+ \S+, (%\w+)$", text, re.MULTILINE):
            assert re.search(rf"{by} = or i\d+ \S+, 1$", text, re.MULTILINE)


def test_a_wrong_interpreter_is_found_and_minimised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(candidate: Program) -> bool:
        found = trial.examine(candidate).findings
        return any(finding.kind == "interpreter differs" for finding in found)

    monkeypatch.setattr(trial, "plans", lambda *_: [])
    monkeypatch.setattr(trial, "_WRITTEN", 0)
    correct = integer._BINARY[Op.XOR]
    monkeypatch.setitem(integer._BINARY, Op.XOR, integer._BINARY[Op.OR])
    program = next(filter(fails, map(programs.generate, range(100))))
    left = iter(range(12))  # a fixed number of candidates, independent of the machine's speed

    def fails_again(candidate: Program) -> bool:
        return next(left, None) is not None and fails(candidate)

    small = shrink.shrink(program, fails_again, 600)
    assert fails(small)
    assert len(small.text) < len(program.text)
    monkeypatch.setitem(integer._BINARY, Op.XOR, correct)
    assert not fails(small)


def test_a_difference_is_reported_and_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(trial, "_WRITTEN", 0)
    host = backends.host
    monkeypatch.setattr(backends, "host", lambda program: host(program) ^ np.uint64(1))
    said: list[str] = []
    options = Options(9, 1, minutes=60, jobs=1, shrink_seconds=1.0, folder=tmp_path)
    subject = RandomIr(plan_count=0, shrink_seconds=1.0)
    totals = Campaign(options, said.append, subject).run()
    seed, program = kernel_seed(9, 0), programs.generate(kernel_seed(9, 0))
    kinds = [finding.kind for finding in totals.failed[seed]]
    assert kinds[0] == "interpreter differs"
    assert set(kinds[1:]) == {"jit differs"}
    assert str(program.block) in said[0]
    kept = tmp_path / str(seed)
    assert programs.parse((kept / "program.ll").read_text()) == program
    assert ".entry kernel" in (kept / "kernel.ptx").read_text()
    small = programs.parse((kept / "shrunk.ll").read_text())
    assert small.threads == 1
    assert said[-1].endswith(f"make fuzz ir=1 kernel={kept / 'shrunk.ll'}")
    again = Campaign(replace(options, n=0), said.append, RandomIr())
    assert again.run().kernels == 0
    assert json.loads((tmp_path / "state.json").read_text()) == {"9": 1}


def test_a_jit_fallback_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that LLVM rejects is compiled lane by lane instead: correct results, and a reported
    defect.
    """
    emit, calls = fuzzing_trial.emit_in_time, itertools.count()

    def refuse_the_first(text: str, tier: int) -> bytes:
        if next(calls) == 0:
            raise CodeGenerationError("expected instruction opcode")
        return emit(text, tier)

    monkeypatch.setattr(fuzzing_trial, "emit_in_time", refuse_the_first)
    monkeypatch.setattr(trial, "plans", lambda *_: [None])
    monkeypatch.setattr(trial, "_WRITTEN", 0)
    (finding,) = trial.examine(programs.generate(kernel_seed(1, 1))).findings
    assert finding.kind == "jit complains"
    assert "expected instruction opcode; compiling lane by lane" in finding.detail


def test_a_rejection_by_the_jit_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise UnsupportedError("an odd instruction", "kernel", 1)

    monkeypatch.setattr(jit.Compiler, "compile", refuse)
    monkeypatch.setattr(trial, "plans", lambda *_: [None])
    monkeypatch.setattr(trial, "_WRITTEN", 0)
    (finding,) = trial.examine(programs.generate(kernel_seed(1, 1))).findings
    assert (finding.kind, finding.detail) == ("jit refuses", "an odd instruction")


def test_a_program_without_ptx_from_llvm_is_no_finding() -> None:
    program = replace(programs.generate(1), text="not IR")
    with pytest.raises(backends.NoPtx, match="expected top-level entity"):
        backends.ptx_alone(program)
    report = trial.examine(program)
    assert "LLVM writes no PTX" in report.refused
    assert not report.findings
