"""Conversion between all numeric types."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import choice, flag
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import NUMERIC, OpSpec, Role
from vgpu_sim.isa.types import DataType, Rounding

_INTEGRAL = (Rounding.RNI, Rounding.RZI, Rounding.RMI, Rounding.RPI)
_RESULT = (Rounding.RN, Rounding.RZ, Rounding.RM, Rounding.RP)


def _roundings(to: DataType, source: DataType) -> tuple[Rounding, ...]:
    """Return the legal roundings; NONE is among them where it may be left out."""
    if not to.is_float:
        return _INTEGRAL if source.is_float else (Rounding.NONE,)
    if not source.is_float:
        return (Rounding.NONE, *_RESULT)
    if to is source:
        return (Rounding.NONE, *_INTEGRAL)
    if to.bits > source.bits:
        return (Rounding.NONE,)
    return (Rounding.NONE, *_RESULT)


def _errors(instruction: Instruction, function: Function) -> Iterator[str]:
    type_, source, rounding = instruction.type, instruction.source_type, instruction.rounding
    if source is None:
        return
    if rounding not in _roundings(type_, source):
        yield f"CVT.{type_.name}.{source.name} does not take rounding {rounding.name}"
    if instruction.ftz and DataType.F32 not in (type_, source):
        yield f"CVT.{type_.name}.{source.name} does not take FTZ"


def _names(roundings: tuple[Rounding, ...]) -> str:
    return ", ".join(rounding.name for rounding in roundings)


ROWS: Final = (
    OpSpec(
        Op.CVT,
        "convert",
        "d (type) = a (source type). Integer to integer: truncates, or clamps to d's range under"
        " SAT. Float to integer: rounds as RNI (nearest even), RZI (toward zero), RMI (down),"
        " RPI (up) says and clamps to d's range; NaN becomes the pattern with the top bit alone set"
        " if the source is F64 or d has 64 bits, else 0. Integer to float, and to a narrower"
        " float: rounds once. Between equal formats RNI ... RPI round to an integral value. FTZ"
        " flushes an F32 source and an F32 result; SAT clamps a float result to [0, 1].",
        "cvt",
        NUMERIC,
        (Role.VALUE,),
        (Role.SOURCE,),
        (
            choice(
                "rounding",
                Rounding,
                32,
                4,
                dict.fromkeys((Rounding.NONE, *_RESULT, *_INTEGRAL), NUMERIC),
            ),
            flag("ftz", "FTZ", 36),
            flag("saturate", "SAT", 37),
            choice("source_type", DataType, 24, 8, dict.fromkeys(NUMERIC, NUMERIC), spoken=False),
        ),
        check=_errors,
        notes=(
            ("rounding, float to integer", f"{_names(_INTEGRAL)} (one is needed)"),
            (
                "rounding, to a float from an integer or another float at least as wide",
                _names(_RESULT),
            ),
            ("rounding, between equal float formats", _names(_INTEGRAL)),
            ("FTZ", "where F32 takes part"),
        ),
    ),
)
