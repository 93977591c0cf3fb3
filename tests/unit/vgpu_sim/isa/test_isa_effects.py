"""Effects are declared in the rows, and passes respect them for every opcode."""

import pytest

from vgpu_sim.compiler.liveness import intervals
from vgpu_sim.exec import cfg
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.isa import (
    EFFECTS,
    DataType,
    Function,
    Guard,
    Instruction,
    Op,
    Predicate,
    Register,
    Space,
    is_visible,
    reads_memory,
)
from vgpu_sim.isa.effects import Effects

_ADD = Instruction(Op.ADD, DataType.U32, (Register(0),), (Register(0), Register(1)))
_GUARDED = Instruction(
    Op.ADD, DataType.U32, (Register(1),), (Register(0), Register(1)), Guard(Predicate(0))
)
_RET = Instruction(Op.RET)


def _function(*code: Instruction) -> Function:
    return Function("f", (), 8, (32, 32, 32), 1, code, (0,) * len(code))


def test_effects_of_the_opcodes() -> None:
    assert {op: effects for op, effects in EFFECTS.items() if effects != Effects()} == {
        Op.BRA: Effects(jumps=True),
        Op.RET: Effects(ends=True),
        Op.TRAP: Effects(ends=True, traps=True),
        Op.NANOSLEEP: Effects(rests=True),
        Op.LD: Effects(reads=True),
        Op.ST: Effects(writes=True),
        Op.BAR_SYNC: Effects(orders=True, stops=True),
        Op.BAR_ARRIVE: Effects(orders=True, stops=True),
        Op.BAR_RED: Effects(orders=True, stops=True),
        Op.CLUSTER_ARRIVE: Effects(orders=True, stops=True),
        Op.CLUSTER_WAIT: Effects(orders=True, stops=True),
        Op.CANCEL: Effects(orders=True, rests=True),
        Op.BAR_WARP: Effects(orders=True, collective=True),
        **{op: Effects(collective=True) for op in Op if Op.SHFL <= op < Op.BAR_WARP},
        Op.ATOM: Effects(reads=True, writes=True, orders=True),
        Op.RED: Effects(reads=True, writes=True, orders=True),
        Op.FENCE: Effects(orders=True),
        Op.LD_ZFILL: Effects(reads=True),
        Op.MMA: Effects(collective=True),
        Op.MMA_SCALE: Effects(collective=True),
        Op.LDMATRIX: Effects(reads=True, collective=True),
        Op.TMMA: Effects(orders=True),
    }


@pytest.mark.parametrize(
    ("effects", "leaves", "visible", "masked"),
    [
        (Effects(), False, False, False),
        (Effects(reads=True), False, False, True),
        (Effects(writes=True), False, True, True),
        (Effects(orders=True), False, True, True),
        (Effects(stops=True), False, True, True),
        (Effects(rests=True), False, True, True),
        (Effects(collective=True), False, True, True),
        (Effects(jumps=True), True, False, False),
        (Effects(ends=True), True, False, False),
        (Effects(ends=True, traps=True), True, True, True),
    ],
)
def test_properties_derived_from_effects(
    effects: Effects, leaves: bool, visible: bool, masked: bool
) -> None:
    assert (effects.leaves, effects.visible, effects.masked) == (leaves, visible, masked)


def test_the_parameter_block_is_no_memory_and_a_volatile_load_is_seen() -> None:
    load = Instruction(Op.LD, space=Space.GLOBAL)
    assert reads_memory(load)
    assert not is_visible(load)
    assert not reads_memory(Instruction(Op.LD, space=Space.PARAM))
    assert not reads_memory(Instruction(Op.ST, space=Space.GLOBAL))
    assert is_visible(Instruction(Op.LD, space=Space.GLOBAL, volatile=True))


def _restartable(function: Function) -> list[bool]:
    form = ssa.build(function)
    analysis = Analysis(form, Geometry((16, 1, 1), 16, 1), assume_guards=False)
    return [
        analysis.may_restart(node)
        for block in form.blocks.values()
        for node in block.nodes
        if isinstance(node, ssa.Operation)
    ]


@pytest.mark.parametrize("effect", ["writes", "orders", "stops", "collective", "traps"])
def test_nothing_restarts_after_a_visible_effect(
    effect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = _function(_GUARDED, _ADD, _RET)
    assert _restartable(function) == [True, True]
    monkeypatch.setitem(EFFECTS, Op.ADD, Effects(**{effect: True}))
    assert _restartable(function) == [False, False]


def test_a_guard_masks_an_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    def guard() -> ssa.Condition | None:
        block = next(iter(ssa.build(_function(_GUARDED, _RET)).blocks.values()))
        operation = block.nodes[0]
        assert isinstance(operation, ssa.Operation)
        return operation.guard

    assert guard() is None
    monkeypatch.setitem(EFFECTS, Op.ADD, Effects(collective=True))
    assert guard() is not None


def test_a_word_that_ends_threads_ends_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    function = _function(Instruction(Op.NOP), _ADD, _RET)
    assert [block.end for block in cfg.build(function).blocks] == [3]
    assert [(i.index, i.start) for i in intervals(function)] == [(0, 0), (1, 0)]
    monkeypatch.setitem(EFFECTS, Op.NOP, Effects(ends=True))
    blocks = cfg.build(function).blocks
    assert [(block.end, block.successors) for block in blocks] == [(1, (2,)), (3, ())]
    assert [(i.index, i.start) for i in intervals(function)] == [(0, 2), (1, 2)]
