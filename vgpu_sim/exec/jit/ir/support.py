"""Code that the JIT cannot compile, detected when a module is loaded, from the code alone.

This is the only place that decides it: a lowering relies on that check, and raises
``CodeGenerationError``, a defect of Tessera, if it finds code that is rejected here.
"""

from vgpu_sim.exec import cfg
from vgpu_sim.exec.errors import UnsupportedError
from vgpu_sim.exec.jit.ir.reducible import make_reducible
from vgpu_sim.isa import Function


def refusals(function: Function) -> tuple[UnsupportedError, ...]:
    """Return every reason why ``function`` cannot be compiled; empty if it can.

    Raises:
        ControlFlowError: see ``cfg.build``.
    """
    try:
        reduced, _ = make_reducible(function, tuple(range(len(function.code))))
        graph = cfg.build(reduced)
    except cfg.LoopNestError as error:
        return (UnsupportedError(str(error), function.name, 0),)
    if graph.loop_depth > cfg.MAX_LOOP_DEPTH:
        reason = f"more than {cfg.MAX_LOOP_DEPTH} loops within each other"
        return (UnsupportedError(reason, function.name),)
    return ()
