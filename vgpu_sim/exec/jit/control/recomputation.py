"""The operations that recompute an address with other values in place of phis.

Only integers that depend on launch parameters, indices and literals are recomputed: that has no
side effects and costs a few instructions.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.families import LOWERING
from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Phi, Source, Value
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, LaneShape, Vector
from vgpu_sim.exec.jit.text.masks import FULL
from vgpu_sim.exec.jit.values.environment import Values
from vgpu_sim.isa import Op, Space

Step = Operation | Mapping[Phi, Source]
"""A step of a recomputation: an operation to repeat, or values to hold in place of all phis at
once.
"""

_COMPUTED: Final = frozenset(
    (Op.MOV, Op.ADD, Op.SUB, Op.MUL, Op.MAD, Op.SHL, Op.SHR, Op.AND, Op.OR, Op.XOR, Op.CVT)
)


class Recomputed:
    """Collects the operations that must be repeated to recompute some values.

    Only operations in the blocks ``body`` are collected. They are added to ``steps`` in order of
    execution, while ``steps`` has no more entries than ``step_limit``.

    ``at_hand`` returns whether a value from outside ``body`` is available without computation.
    ``suits`` returns whether a value of a given shape may be recomputed. ``replace`` returns
    whether another value can replace a phi; if so, it adds the steps that compute that value.
    """

    def __init__(
        self,
        values: Values,
        body: frozenset[int],
        *,
        at_hand: Callable[[Value], bool],
        replace: Callable[["Recomputed", Phi], bool],
        suits: Callable[[LaneShape], bool],
        step_limit: int,
    ) -> None:
        self.steps: list[Step] = []
        self._values = values
        self._ssa = values.analysis.ssa
        self._body = body
        self._at_hand = at_hand
        self._replace = replace
        self._suits = suits
        self._most = step_limit
        self._done: set[Operation | Phi] = set()

    def collect(self, source: Source) -> bool:
        """Add to ``steps`` the operations that recompute ``source``.

        Return whether ``source`` can be recomputed.
        """
        if not isinstance(source, Value):
            return True
        if self._ssa.block_of[source] not in self._body:
            return self._at_hand(source)
        shape = self._values.shape(source, source.bits)
        node = self._ssa.definition[source]
        if node in self._done or (isinstance(shape, Affine) and shape.constant is not None):
            return True
        if isinstance(node, Merge) or not self._suits(shape):
            return False
        if isinstance(node, Phi):
            is_recomputable = self._replace(self, node)
        else:
            within = _is_computed(node) and len(self.steps) <= self._most
            is_recomputable = within and all(map(self.collect, node.sources))
            if is_recomputable and not isinstance(
                shape, Vector
            ):  # ``wraps`` recomputes first lanes
                self.steps.append(node)
        if is_recomputable:
            self._done.add(node)
        return is_recomputable


def write(emitter: Emitter, steps: Iterable[Step]) -> None:
    """Emit ``steps`` for all lanes, and record the LLVM values that now hold their results."""
    values = emitter.values
    for step in steps:
        if isinstance(step, Operation):
            LOWERING[step.instruction.op](emitter, step, FULL, True)
            continue
        names = [
            (phi.result, values.materialise(source, phi.result, clean=False))
            for phi, source in step.items()
            if values.form_of(phi.result) is not None
        ]
        for result, held_names in names:
            values.hold(result, held_names)


def _is_computed(node: Operation) -> bool:
    """Return whether a node computes integers only from its operands or from launch constants."""
    instruction = node.instruction
    if instruction.op is Op.S2R:
        known = instruction.sreg is not None and not instruction.sreg.is_clock
    elif instruction.op is Op.LD:
        known = instruction.space is Space.PARAM
    else:
        known = instruction.op in _COMPUTED and instruction.type.is_integer
    whole = instruction.source_type is None or instruction.source_type.is_integer
    return known and not instruction.saturate and whole
