"""The fuzzer itself: what is wrong it finds, whatever dies it survives, and it goes on where it was."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.fuzzers.fuzzing import shrink, trial, workers
from support.fuzzers.fuzzing.campaign import Campaign, Options, kernel_seed
from support.fuzzers.fuzzing.outcomes import Outcome, World
from support.fuzzers.fuzzing.trial import Finding, Report
from support.fuzzers.fuzzing.workers import Task, Workers
from support.kernels.random_kernels import functions, kernels, meetings
from support.kernels.random_kernels.dice import Dice
from support.oracles.scalar_ptx import text
from support.oracles.scalar_ptx.machine import Machine
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import cfg, jit
from vgpu_sim.exec.interp import cta
from vgpu_sim.exec.interp.families import integer, sync
from vgpu_sim.isa import Op
from vgpu_sim.worker.compiling import children

_ROOT = Path(__file__).parents[2]


def test_choices_are_the_same_everywhere() -> None:
    dice = Dice(7)
    assert [dice.number(0, 999) for _ in range(6)] == [255, 477, 251, 634, 115, 247]
    program = "from support.kernels.random_kernels import kernels; print(hash(kernels.generate(77).text.encode()))"
    said = {
        subprocess.run(
            [sys.executable, "-c", program.replace("hash(", "__import__('zlib').crc32(")],
            env=os.environ | {"PYTHONPATH": "tests", "PYTHONHASHSEED": salt},
            cwd=_ROOT,
            capture_output=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    }
    assert len(said) == 1


def test_neighbouring_seeds_have_nothing_in_common() -> None:
    long = Dice(0)
    drawn = {long.bits(48) for _ in range(5000)}
    others = [stream.bits(48) for seed in range(1, 99) for stream in (Dice(seed), Dice(seed, 1))]
    assert len(set(others)) == len(others)
    assert not drawn & set(others)


def test_generated_kernels_reach_what_they_are_for() -> None:
    texts = [kernels.generate(seed) for seed in range(300)]
    blocks = {kernel.block for kernel in texts}
    assert {(7, 1, 1), (48, 1, 1), (33, 7, 1), (25, 8, 1), (1, 256, 1)} <= blocks
    everything = "\n".join(kernel.code for kernel in texts)
    words = {word for line in everything.splitlines() for word in line.split()}
    stems = {word.split(".")[0] for word in words}
    assert {"exit;", "ret;"} <= words
    assert {"cvt", "selp", "mad", "fma", "div", "rem", "shl", "shr", "sqrt", "rcp"} <= stems
    for part in (
        ".v2",
        ".v4",
        ".s8 ",
        ".u16 ",
        ".hi.s64",
        ".rni",
        ".sat",
        ".ftz",
        "ld.param",
        "!%p",
    ):
        assert part in everything, part
    sizes = sorted(kernel.code.count(";") for kernel in texts)
    assert sizes[150] < 140
    assert 20 < sum(kernel.wild for kernel in texts) < 60
    assert kernels.parse(texts[5].text) == texts[5]


def test_the_evaluator_knows_all_that_is_generated() -> None:
    for seed in range(150):
        kernel = text.read(kernels.generate(seed).code)
        Machine(kernel, [], bytes(64), dict.fromkeys(kernel.variables, 0))


_TINY = """.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 table, .param .u64 out, .param .u32 n, .param .u32 m,
  .param .u64 w, .param .f32 f)
{
 .reg .b64 %out; .reg .b32 %r<2>, %tid_x;
 ld.param.u64 %out, [out];
 mov.u32 %tid_x, %tid.x;
 mad.wide.u32 %out, %tid_x, 144, %out;
 xor.b32 %r0, %tid_x, 5;
 st.global.b32 [%out], %r0;
}
"""


_BRANCH = re.compile(r"@!?(\S+) bra (\w+);")
_UNIFORM = re.compile(r"(?:mov\.b32|and\.b32|setp\.\w+\.u32) (\S+), (%n|%m|%ctaid\.x|%t32_\d+)[,;]")


def _shared_joins(code: str) -> bool:
    """Whether a label is reached by branches that lanes take together and by others."""
    uniform: set[str] = set()
    senses: dict[str, set[bool]] = {}
    for line in code.splitlines():
        made, branch = _UNIFORM.search(line), _BRANCH.search(line)
        if made:
            same = not made[2].startswith("%t32_") or made[2] in uniform
            (uniform.add if same else uniform.discard)(made[1])
        if branch:
            senses.setdefault(branch[2], set()).add(branch[1] in uniform)
    return any(len(both) == 2 for label, both in senses.items() if label != "EXIT")


def test_generated_control_flow_has_shared_joins_and_no_shape_at_all() -> None:
    made = [kernels.generate(seed) for seed in range(150)]
    assert sum(_shared_joins(kernel.code) for kernel in made) > 15
    functions = [compile_ptx(k.text, capability=(10, 0)).functions[0] for k in made[:60]]
    graphs = [cfg.build(function) for function in functions]
    assert any(graph.irreducible_edges for graph in graphs)
    assert any(len(graph.loops) > 1 for graph in graphs)


_SHAPES = {
    "calls": (r"call(\.uni)? \(%r\d+\), f\d", "calls", 15),
    "calls through pointers": (r"call \(%r\d+\), %to", "calls", 8),
    "recursion": (r"call \(%x1\), f\d", "calls", 15),
    "local arrays by data": (r"\[%place\]", "calls", 15),
    "a float in an address": (r"cvt\.\w+\.u32\.f(32|64)", "plain", 5),
    "vector accesses": (r"(ld|st)[.\w]*\.v[24]\.", "plain", 25),
    "gathers": (r"ld\.global\S* \S+, \[%t64_\d+", "plain", 25),
    "switches": (r"setp\.(eq|le)\.u32 %t1_\d+, %t32_\d+, 2;\n @%t1_\d+ bra", "plain", 8),
    "a second latch": (r"and\.pred (%t1_\d+), %t1_\d+, %p\d;\n @\1 bra", "plain", 3),
    "barriers in loops": (
        r"bra L\d+;[\s\S]*bar\S*\.sync[\s\S]*ne\.u32 (%t1_\d+)[^;]*;\n @\1 bra",
        "meet",
        15,
    ),
    "shared memory": (r"ld\S*\.shared", "meet", 30),
    "atomics": (r"(atom|red)\.\S+", "meet", 10),
    "shuffles": (r"shfl\.sync", "meet", 8),
    "votes": (r"vote\.sync", "meet", 8),
    "calls of threads that meet": (r"call(\.uni)? \(%r\d+\)", "meet", 4),
}
_GENERATORS = {"plain": kernels.generate, "calls": functions.generate, "meet": meetings.generate}


def test_every_shape_that_is_meant_to_occur_does() -> None:
    """How many of 60 kernels have each: a generator that lost one would find nothing in it."""
    made = {kind: [make(seed).code for seed in range(60)] for kind, make in _GENERATORS.items()}
    counts = {
        name: sum(re.search(pattern, code) is not None for code in made[kind])
        for name, (pattern, kind, _) in _SHAPES.items()
    }
    missing = {n: c for n, c in counts.items() if c < _SHAPES[n][2]}
    assert not missing


def _tiny() -> kernels.Kernel:
    return replace(kernels.generate(1), grid=(1, 1, 1), block=(24, 1, 1), code=_TINY)


def test_what_is_right_is_no_finding() -> None:
    report = trial.examine(_tiny(), plan_count=1)
    assert report == Report(1, runs=2)


def test_a_wrong_interpreter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(integer._BINARY, Op.XOR, integer._BINARY[Op.OR])
    report = trial.examine(_tiny(), plans=())
    assert [f.kind for f in report.findings] == ["interpreter differs"]


def test_wrong_native_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = jit.Compiler.compile

    def compile_wrongly(self, module, function, block, plan=None):  # type: ignore[no-untyped-def]
        code = tuple(replace(i, op=Op.OR) if i.op is Op.XOR else i for i in function.code)
        return right(self, module, replace(function, code=code), block, plan)

    monkeypatch.setattr(jit.Compiler, "compile", compile_wrongly)
    report = trial.examine(_tiny(), plan_count=1)
    assert [f.kind for f in report.findings] == ["jit differs"] * 2


@pytest.mark.parametrize(
    "line", ["ld.global.b32 %r0, [%out+65536];\n st.b32 [%out], %r0;", "st.b32 [4096], %r0;"]
)
def test_a_fault_on_one_side_only_is_found(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _tiny().with_code(_TINY.replace("}", f" {line}\n}}"))
    report = trial.examine(kernel, plan_count=1)
    assert report == Report(1, faulted=True, runs=2)
    monkeypatch.setattr(World, "execute", lambda *_: Outcome(slots=b""))
    monkeypatch.setattr(World, "interpret", lambda *_: Outcome(slots=b""))
    report = trial.examine(kernel, plan_count=0)
    assert [f.kind for f in report.findings] == ["interpreter differs", "jit differs"]


def _kernel_with(part: str) -> kernels.Kernel:
    return next(k for k in map(kernels.generate, range(1000)) if part in k.code and not k.wild)


def _dies_of(kernel: kernels.Kernel, progress: trial.Progress, **_: object) -> Report:
    progress("running Plan(width=4, vectors=2, versioned=True, tier=1)")
    if "div" in kernel.code:
        os.write(2, b"Assertion `it' failed.\n")
        os.abort()
    return Report(kernel.seed, runs=1)


def test_a_worker_that_dies_is_a_finding_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "examine", _dies_of)
    deadly = {seed for seed in range(30) if "div" in kernels.generate(seed).code}
    with Workers(2) as pool:
        reports = [report for _, report in pool.examine(workers.tasks(iter(range(30)), 1))]
    assert {report.seed for report in reports} == set(range(30))
    assert {report.seed for report in reports if report.findings} == deadly
    finding = next(report.findings[0] for report in reports if report.findings)
    assert "SIGABRT" in finding.detail
    assert "Assertion `it' failed." in finding.detail
    assert trial.plan_named(finding.plan) == jit.Plan(4, 2)


def test_code_that_takes_for_ever_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM gets the time that the worker gives it, and a circle in it ends the fuzzer's worker."""

    def circle(text: str, tier: int) -> bytes:
        while True:
            pass

    monkeypatch.setattr(trial.llvm, "object_code", circle)
    monkeypatch.setattr(children, "CPU_SECONDS", 0.05)
    monkeypatch.setattr(children, "CPU_SECONDS_PER_MEGABYTE", 0.0)
    with Workers(1) as pool:
        ((_, report),) = pool.examine(iter([Task(_tiny(), plans=(None,))]))
    (finding,) = report.findings
    assert finding.kind == "worker dies"
    assert finding.detail.startswith("SIGPROF while generating")


def test_shrinking_keeps_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "examine", _dies_of)
    kernel = _kernel_with("div.")
    with Workers(1) as pool:
        (_, report) = next(pool.examine(iter([Task(kernel)])))
        finding = report.findings[0]
        small = shrink.shrink(kernel, shrink.still_fails(pool, finding, None), 60)
    body = small.code.split("{\n")[1].split("}")[0].splitlines()
    assert len(small.code.splitlines()) == 7
    assert len(body) == 1
    assert "div" in body[0]


def test_a_campaign_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def note(kernel: kernels.Kernel, progress: trial.Progress, **_: object) -> Report:
        wrong = [Finding("jit differs", "None", "3 words")] if kernel.seed % 4 == 1 else []
        return Report(kernel.seed, wrong, runs=1)

    monkeypatch.setattr(trial, "examine", note)
    options = Options(3, 5, 5.0, jobs=2, shrink_seconds=0, folder=tmp_path)
    for times in (1, 2):
        totals = Campaign(options, lambda _: None).run()
        assert totals.kernels == 5
        assert ("10 in all runs" in totals.summary()) == (times == 2)
        seen += totals.failed
    assert json.loads((tmp_path / "state.json").read_text()) == {"3": 10}
    assert sorted(seen) == [kernel_seed(3, index) for index in (1, 5, 9)]
    kept = kernels.parse((tmp_path / str(seen[0]) / "kernel.ptx").read_text())
    assert kept == kernels.generate(seen[0])


def test_kernels_that_meet_have_one_meaning_and_the_interpreter_gives_it() -> None:
    made = [meetings.generate(seed) for seed in range(30)]
    assert sum("st.shared" in kernel.code for kernel in made) > 25
    for kernel in made:
        report = trial.examine(kernel, plans=())
        assert not report.findings
        assert not report.unordered


def test_a_barrier_without_effect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync.Barriers, "arrive", lambda _, path, *rest, **kind: [path])
    monkeypatch.setattr(cta, "sorted", lambda groups: sorted(groups, reverse=True), raising=False)
    reports = [trial.examine(meetings.generate(seed), plans=()) for seed in range(30)]
    assert any(f.kind == "interpreter differs" for report in reports for f in report.findings)


def test_the_jit_runs_kernels_that_meet() -> None:
    options = Options(sequence=0, n=2, minutes=5, jobs=1, plan_count=1, meet=True)
    totals = Campaign(options, say=lambda _: None).run()
    assert totals.kernels == 2
    assert not totals.failed
    assert not totals.refused
