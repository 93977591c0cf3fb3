"""What the JIT cannot compile, told from the code alone: asked when a module is loaded.

The one place that says so: whoever lowers an instruction takes it that this was asked before, and
reports a defect of ours (``CodeGenerationError``) where it finds what is refused here.
"""

from vgpu_sim.exec import cfg
from vgpu_sim.exec.errors import UnsupportedError
from vgpu_sim.exec.jit.ir.reducible import make_reducible
from vgpu_sim.isa import Function


def refusals(function: Function) -> tuple[UnsupportedError, ...]:
    """Return every reason why ``function`` cannot be compiled; none if it can.

    Raises:
        ControlFlowError: see ``cfg.build``.
    """
    try:
        reduced, _ = make_reducible(function, tuple(range(len(function.code))))
        graph = cfg.build(reduced)
    except cfg.LoopNestError as error:
        return (UnsupportedError(str(error), function.name, 0),)
    if graph.loop_depth > cfg.MAX_LOOP_DEPTH:
        what = f"more than {cfg.MAX_LOOP_DEPTH} loops within each other"
        return (UnsupportedError(what, function.name),)
    return ()
