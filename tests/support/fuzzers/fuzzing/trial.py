"""The three-way comparison of one kernel, with all kinds of findings."""

import itertools
import logging
import re
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from support.fuzzers.fuzzing.outcomes import Unordered, World, difference
from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.kernels import Kernel
from support.oracles.scalar_ptx import text
from vgpu_sim import compiler
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.planning import tiers
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.isa import Module
from vgpu_sim.worker.compiling import children

_CAPABILITY = (10, 0)
Progress = Callable[[str], None]
Block = tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """One defect. ``plan`` is the JIT's, as text; empty if the JIT is not involved."""

    kind: str
    plan: str
    detail: str

    def signature(self) -> str:
        """Return the part of a finding that is equal for findings of the same likely cause."""
        words = self.detail.partition("\n")[0].partition("(")[0].split()[:12]
        return f"{self.kind}: {' '.join(w for w in words if not any(c.isdigit() for c in w))}"


def plan_named(text: str) -> jit.Plan | None:
    """Return the plan whose text appears in ``text``; None, the default plan, if there is none."""
    said = dict(re.findall(r"(\w+)=(\w+)", text))
    if "width" not in said:
        return None
    width, vectors, tier = (int(said[name]) for name in ("width", "vectors", "tier"))
    return jit.Plan(width, vectors, said["versioned"] == "True", tier)


@dataclass
class Report:
    """The result of one kernel. ``refused`` is the reason if the JIT rejected it."""

    seed: int
    findings: list[Finding] = field(default_factory=list)
    unordered: str = ""
    refused: str = ""
    faulted: bool = False
    runs: int = 0


def choose_plans(kernel: Kernel, module: Module, count: int) -> list[jit.Plan | None]:
    """Return the default plan and ``count`` legal ones, selected by the kernel's seed.

    With ``count`` 0, return a single plan, which is the default one for a third of the kernels:
    another kernel reveals more than another run of the same kernel.
    """
    dice = Dice(kernel.seed, 3)
    if not count and not kernel.plan:
        kind = kernel.seed % 3
        if kind == 0:
            return [None]
        first = _first(kernel, module) if kind == 1 and dice.one_in(2) else None
        return [first or _drawn(kernel, module, dice)]
    plans = [_drawn(kernel, module, dice) for _ in range(count)]
    named = [plan_named(kernel.plan)] if kernel.plan else []
    first = _first(kernel, module) if dice.one_in(2) else None
    return [None, *named, *([first] if first is not None else []), *plans]


def _first(kernel: Kernel, module: Module) -> jit.Plan | None:
    """Return the plan with which launches begin; None if it is the default one."""
    form = ssa.build(module.functions[0])
    return tiers.first_tier_plan(form, kernel.block, llvm.vector_bits())[0]


def _drawn(kernel: Kernel, module: Module, dice: Dice) -> jit.Plan:
    """Draw any legal plan.

    Code of many vectors is long and reveals little more: half of the draws prefer few vectors.
    """

    def order(found: list[Geometry]) -> list[Geometry]:
        shuffled = sorted(found, key=lambda _: dice.bits(32))
        return shuffled if dice.one_in(2) else sorted(shuffled, key=lambda g: g.vectors > 4)

    plans = jit.legal_plans(module.functions[0], kernel.block, order)
    plan = next(plans)
    plan = next(plans) if dice.one_in(2) else plan  # with and without versions
    return replace(plan, tier=0) if dice.one_in(3) else plan


def examine(
    kernel: Kernel,
    progress: Progress = lambda _: None,
    *,
    plans: Sequence[jit.Plan | None] | None = None,
    plan_count: int = 0,
) -> Report:
    """Run a kernel on the evaluator, the interpreter and the JIT, and compare their results.

    ``progress`` is called with the name of each step, so that a crash can be attributed.
    """
    report = Report(kernel.seed)
    progress("compiling the text")
    try:
        module = compiler.compile_ptx(kernel.text, capability=_CAPABILITY)
    except compiler.PtxError as error:
        report.findings.append(Finding("compiler refuses", "", str(error)))
        return report
    except Exception as error:  # noqa: BLE001 - any other error is a defect, and the fuzzer continues
        report.findings.append(Finding("compiler fails", "", format_error(error)))
        return report
    world = World(kernel, module)
    try:
        progress("evaluating")
        try:
            expected = world.evaluate()
        except (Unordered, text.SyntaxFault) as error:
            report.unordered = f"{type(error).__name__} {error}"
            return report
        report.faulted = bool(expected.codes)
        progress("interpreting")
        interpret(report, lambda: difference(expected, world.interpret()))
        if plans is None:
            plans = choose_plans(kernel, module, plan_count)
        dice = Dice(kernel.seed, 4)

        def differs(loaded: jit.Loaded) -> str:
            return difference(expected, world.execute(loaded, _ranges(kernel, dice)))

        run_plans(report, module, kernel.block, plans, differs, progress)
        return report
    finally:
        world.close()


def interpret(report: Report, differs: Callable[[], str]) -> None:
    """Report a difference that ``differs`` returns for the interpreter, or the interpreter's
    failure.
    """
    try:
        wrong = differs()
    except Exception as error:  # noqa: BLE001 - as above
        report.findings.append(Finding("interpreter fails", "", format_error(error)))
        return
    if wrong:
        report.findings.append(Finding("interpreter differs", "", wrong))


def run_plans(
    report: Report,
    module: Module,
    block: Block,
    plans: Sequence[jit.Plan | None],
    differs: Callable[[jit.Loaded], str],
    progress: Progress,
) -> None:
    """Report, for native code of each plan, differences that ``differs`` returns and errors that
    the JIT logs.

    A kernel that the JIT rejects is ``refused``.
    """
    native = jit.Compiler()
    native.use_emitter(emit_in_time)
    complaints = _Complaints()
    for plan in plans:
        complaints.said.clear()
        try:
            progress(f"generating code for {plan}")
            code = native.compile(module, module.functions[0], block, plan)
            shown = str(code.plan)
            progress(f"linking {shown}")
            loaded = native.load(code)
            progress(f"running {shown}")
            wrong = differs(loaded)
        except jit.UnsupportedError as error:
            report.refused = error.what
            return
        except Exception as error:  # noqa: BLE001 - as above
            report.findings.append(Finding("jit fails", str(plan), format_error(error)))
            continue
        report.runs += 1
        report.findings += (Finding("jit complains", shown, what) for what in complaints.said)
        if wrong:
            report.findings.append(Finding("jit differs", shown, wrong))


def emit_in_time(text: str, tier: int) -> bytes:
    """Generate code as a worker does, which limits LLVM's CPU time.

    Exceeding the limit ends this process, by SIGPROF.
    """
    signal.setitimer(signal.ITIMER_PROF, children.allowed_seconds(len(text)))
    try:
        return llvm.object_code(text, tier)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class _Complaints(logging.Handler):
    """Collects the JIT's error messages: defects from which it recovered."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []
        logger = logging.getLogger("vgpu_sim.exec.jit")
        for other in [h for h in logger.handlers if isinstance(h, _Complaints)]:
            logger.removeHandler(other)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def _ranges(kernel: Kernel, dice: Dice) -> list[tuple[int, int]]:
    """Return all blocks as one range, or each block as a range, from the last to the first."""
    x, y, z = kernel.grid
    if dice.one_in(2):
        return [(0, x * y * z)]
    return list(itertools.pairwise(range(x * y * z + 1)))[::-1]


def format_error(error: Exception) -> str:
    """Return an error with the innermost places of its traceback."""
    frames = "".join(traceback.format_tb(error.__traceback__)[-4:])
    return f"{type(error).__name__}: {error}"[:2000] + f"\n{frames}"


def crash(number: int, stage: str, log: str) -> Finding:
    """Return the finding for the death of a worker in ``stage``."""
    name = signal.Signals(number).name if number in set(signal.Signals) else f"exit {number}"
    lines = [line.strip()[:300] for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "LLVM ERROR" in line or "Assertion" in line]
    first = "; ".join(telling[:1])
    head = f"{name} while {stage.split(' ')[0]}: {first}"
    return Finding("worker dies", stage, "\n".join([head, *lines[-20:]]))
