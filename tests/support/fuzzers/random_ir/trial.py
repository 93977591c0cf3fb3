"""One program on the host, the interpreter and the JIT."""

import itertools
from dataclasses import replace

import numpy as np

from support.fuzzers.fuzzing.trial import (
    Finding,
    Progress,
    Report,
    format_error,
    interpret,
    run_plans,
)
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

_WRITTEN = (
    6  # further plans whose code is emitted but not compiled, because compilation is expensive
)
_LONG_CODE_WORDS = 700  # from here on, only plans for which LLVM is fast


def examine(program: Program, progress: Progress = lambda _: None, plan_count: int = 1) -> Report:
    """Run a program on the host, the interpreter and the JIT, and compare the results.

    ``progress`` is called with the name of each step, so that a crash can be attributed. The JIT uses
    the default plan, the first tier's, and ``plan_count`` other legal ones. If LLVM emits no PTX,
    ``refused`` contains the reason.
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
        report.findings.append(Finding("host fails", "", format_error(error)))
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
    except Exception as error:  # noqa: BLE001 - any other error is a defect, and the fuzzer continues
        report.findings.append(Finding("compiler fails", "", format_error(error)))
        return None
    if module.refused:
        report.findings.append(Finding("compiler refuses", "", str(module.refused[0])))
        return None
    return module


def plans(program: Program, module: Module, count: int) -> list[jit.Plan | None]:
    """Return the default plan, the one with which a launch begins, and ``count`` other legal
    ones.
    """
    function, dice = module.functions[0], Dice(program.seed, 3)
    first, _ = tiers.first_tier_plan(ssa.build(function), program.block, llvm.vector_bits())
    if len(function.code) > _LONG_CODE_WORDS:
        return [first or jit.Plan(1, 1, versioned=False, tier=0)]

    drawn = [
        replace(plan, tier=0) if dice.one_in(3) else plan for plan in _drawn(program, module, count)
    ]
    return [None, *([first] if first else []), *drawn]


def _drawn(program: Program, module: Module, count: int) -> list[jit.Plan]:
    """Return up to ``count`` legal plans, the same ones first for any count."""
    dice = Dice(program.seed, 4)

    def order(found: list[Geometry]) -> list[Geometry]:
        """Put small groups first: code of many vectors is long and reveals little more."""
        return sorted(found, key=lambda geometry: (geometry.vectors > 4, dice.bits(32)))

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
        report.findings.append(Finding("jit fails", "", format_error(error)))
        return

    def differs(loaded: jit.Loaded) -> str:
        found = world.execute(loaded)
        return found if isinstance(found, str) else difference(want, found)

    run_plans(report, module, program.block, chosen, differs, progress)
    if report.refused:  # the JIT must compile what LLVM emits
        report.findings.append(Finding("jit refuses", "", report.refused))


def _write(program: Program, module: Module, plan_count: int, report: Report) -> None:
    """Emit code by more plans than are executed: emission asserts the JIT's own decisions."""
    for plan in _drawn(program, module, plan_count + _WRITTEN)[plan_count:]:
        try:
            jit.Compiler().emit_llvm(module, module.functions[0], program.block, plan)
        except Exception as error:  # noqa: BLE001 - as above
            report.findings.append(Finding("jit fails", str(plan), format_error(error)))


def difference(want: np.ndarray, have: np.ndarray) -> str:
    """Return a description of where two outputs differ; empty if they do not."""
    places = np.flatnonzero(want != have)
    if not len(places):
        return ""
    shown = [f"[{place}] {have[place]:#x} not {want[place]:#x}" for place in places[:4]]
    return f"{len(places)} words differ ({'; '.join(shown)})"
