"""What the JIT cannot compile, told from the code alone: asked when a module is loaded.

The one place that says so: whoever lowers an instruction takes it that this was asked before, and
reports a defect of ours (``CodeGenerationError``) where it finds what is refused here.
"""

from vgpu_sim.exec import cfg
from vgpu_sim.exec.errors import UnsupportedError
from vgpu_sim.exec.jit.reducible import make_reducible
from vgpu_sim.isa import (
    DataType,
    Family,
    Function,
    Instruction,
    Op,
    Rounding,
    Space,
    SpecialRegister,
)

DIRECTED = (Rounding.RZ, Rounding.RM, Rounding.RP)
_EXTREMA = (Op.FMIN, Op.FMAX)  # exact: a rounding means nothing to them


def refusals(function: Function) -> tuple[UnsupportedError, ...]:
    """Return every reason why ``function`` cannot be compiled; none if it can.

    Raises:
        ControlFlowError: see ``cfg.build``.
    """
    found = [
        UnsupportedError(what, function.name, word)
        for word, instruction in enumerate(function.code)
        if (what := _unsupported(instruction))
    ]
    try:
        reduced, _ = make_reducible(function, tuple(range(len(function.code))))
        graph = cfg.build(reduced)
    except cfg.LoopNestError as error:
        return (*found, UnsupportedError(str(error), function.name, 0))
    if graph.loop_depth > cfg.MAX_LOOP_DEPTH:
        what = f"more than {cfg.MAX_LOOP_DEPTH} loops within each other"
        found.append(UnsupportedError(what, function.name))
    return tuple(found)


def _unsupported(instruction: Instruction) -> str:
    op, type_, source = instruction.op, instruction.type, instruction.source_type
    if instruction.sreg is SpecialRegister.SHARED_WINDOW:
        return "the generic address of shared memory"
    if instruction.space is Space.LOCAL:
        return "local memory"
    if type_ is not DataType.F64 or instruction.rounding not in DIRECTED:
        return ""
    if op.family is Family.FLOAT and op not in _EXTREMA:
        return f"{op.name} F64 {instruction.rounding.name}"
    if op is Op.CVT and source is not None and source.is_integer and source.bits == 64:
        return f"CVT F64 {source.name} {instruction.rounding.name}"
    return ""
