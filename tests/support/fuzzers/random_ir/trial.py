"""One program on each of the three: host, interpreter, JIT."""

import itertools
from dataclasses import replace

import numpy as np

from support.fuzzers.fuzzing.trial import Finding, Progress, Report, interpret, run_plans, said
from support.fuzzers.random_ir import backends
from support.fuzzers.random_ir.programs import Program
from support.fuzzers.random_ir.world import World
from support.kernels.random_kernels.dice import Dice
from vgpu_sim import compiler
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.planning import tiers
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.isa import Module, verify

_WRITTEN = 6  # further plans whose code is written and not compiled: that is what costs
_LONG_CODE_WORDS = 700  # from here on only what LLVM spends little time on


def examine(program: Program, progress: Progress = lambda _: None, plan_count: int = 1) -> Report:
    """Compare the three; ``progress`` hears what begins, so that a crash can be placed.

    The JIT has the default plan, the first tier's, and ``plan_count`` other legal ones. Where LLVM
    writes no PTX, ``refused`` says so.
    """
    report = Report(program.seed)
    progress("writing PTX")
    try:
        text = backends.ptx_alone(program)
    except backends.NoPtx as error:
        report.refused = f"LLVM writes no PTX: {error}"
        return report
    try:
        progress("computing on the host")
        want = backends.host(program)
    except RuntimeError as error:
        report.findings.append(Finding("host fails", "", said(error)))
        return report
    progress("compiling the text")
    module = _compiled(program, text, report)
    if module is None:
        return report
    world = World(program, module)
    try:
        progress("interpreting")
        interpret(report, lambda: difference(want, world.interpret()))
        _execute(program, module, world, want, plan_count, report, progress)
        progress("writing code")
        _write(program, module, plan_count, report)
    finally:
        world.close()
    return report


def _compiled(program: Program, text: str, report: Report) -> Module | None:
    try:
        module = compiler.compile_ptx(text, capability=program.capability)
        verify.check_module(module)
    except compiler.PtxError as error:
        report.findings.append(Finding("compiler refuses", "", str(error)))
        return None
    except Exception as error:  # noqa: BLE001 - any other is a defect, and the fuzzer goes on
        report.findings.append(Finding("compiler fails", "", said(error)))
        return None
    if module.refused:
        report.findings.append(Finding("compiler refuses", "", str(module.refused[0])))
        return None
    return module


def plans(program: Program, module: Module, count: int) -> list[jit.Plan | None]:
    """Return the default plan, the one that a launch begins in, and ``count`` other legal ones."""
    function, dice = module.functions[0], Dice(program.seed, 3)
    first, _ = tiers.first(ssa.build(function), program.block, llvm.vector_bits())
    if len(function.code) > _LONG_CODE_WORDS:
        return [first or jit.Plan(1, 1, versioned=False, tier=0)]

    drawn = [
        replace(plan, tier=0) if dice.one_in(3) else plan for plan in _drawn(program, module, count)
    ]
    return [None, *([first] if first else []), *drawn]


def _drawn(program: Program, module: Module, count: int) -> list[jit.Plan]:
    """Return ``count`` legal plans, or as many as there are; always the same ones first."""
    dice = Dice(program.seed, 4)

    def order(found: list[Geometry]) -> list[Geometry]:
        """Small ones first: many strips make much code and say little more."""
        return sorted(found, key=lambda geometry: (geometry.strips > 4, dice.bits(32)))

    legal = jit.legal_plans(module.functions[0], program.block, order)
    return list(itertools.islice(legal, count))


def _execute(
    program: Program,
    module: Module,
    world: World,
    want: np.ndarray,
    plan_count: int,
    report: Report,
    progress: Progress,
) -> None:
    progress("choosing plans")
    try:
        chosen = plans(program, module, plan_count)
    except Exception as error:  # noqa: BLE001 - as above
        report.findings.append(Finding("jit fails", "", said(error)))
        return

    def differs(loaded: jit.Loaded) -> str:
        found = world.execute(loaded)
        return found if isinstance(found, str) else difference(want, found)

    run_plans(report, module, program.block, chosen, differs, progress)
    if report.refused:  # what compilers write is taken; ``refused`` is for what LLVM does not
        report.findings.append(Finding("jit refuses", "", report.refused))


def _write(program: Program, module: Module, plan_count: int, report: Report) -> None:
    """Have the JIT write code by more plans than run: it asserts what it has decided."""
    for plan in _drawn(program, module, plan_count + _WRITTEN)[plan_count:]:
        try:
            jit.Compiler().emit_llvm(module, module.functions[0], program.block, plan)
        except Exception as error:  # noqa: BLE001 - as above
            report.findings.append(Finding("jit fails", str(plan), said(error)))


def difference(want: np.ndarray, have: np.ndarray) -> str:
    """Return where two outputs differ, or nothing."""
    places = np.flatnonzero(want != have)
    if not len(places):
        return ""
    shown = [f"[{place}] {have[place]:#x} not {want[place]:#x}" for place in places[:4]]
    return f"{len(places)} words differ ({'; '.join(shown)})"
