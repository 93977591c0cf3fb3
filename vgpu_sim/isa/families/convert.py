"""Conversion between all numeric types."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import choice, flag
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import MINIFLOATS, NUMERIC, OpSpec, Role
from vgpu_sim.isa.types import DataType, Rounding

_INTEGRAL = (Rounding.RNI, Rounding.RZI, Rounding.RMI, Rounding.RPI)
_RESULT = (Rounding.RN, Rounding.RZ, Rounding.RM, Rounding.RP)
_SMALL = (DataType.F16, DataType.BF16)
_NARROWED = (DataType.F16, DataType.BF16, DataType.F32)
_TYPES = (*NUMERIC, DataType.TF32, *MINIFLOATS, DataType.UE8M0)
_STOCHASTIC = (*_SMALL, *MINIFLOATS)


def _roundings(to: DataType, source: DataType) -> tuple[Rounding, ...]:
    """Return the rounding modes that a conversion allows; NONE is among them if it needs none."""
    if to in MINIFLOATS:
        return (Rounding.RN,) if source in _NARROWED else ()
    if to is DataType.UE8M0:
        good = source in (DataType.F32, DataType.BF16)
        return (Rounding.RZ, Rounding.RP) if good else ()
    if to is DataType.TF32:
        return (Rounding.RN, Rounding.RZ, Rounding.RNA) if source is DataType.F32 else ()
    if source in MINIFLOATS:
        return (Rounding.NONE,) if to in _SMALL else ()
    if source is DataType.UE8M0:
        return (Rounding.NONE,) if to is DataType.BF16 else ()
    if source is DataType.TF32:
        return ()
    if not to.is_float:
        return _INTEGRAL if source.is_float else (Rounding.NONE,)
    if not source.is_float:
        return (Rounding.NONE, *_RESULT)
    if to is source:
        return (Rounding.NONE, *_INTEGRAL)
    if to.bits > source.bits:
        return (Rounding.NONE,)
    return (Rounding.NONE, *_RESULT)


def _clamps(to: DataType, source: DataType) -> tuple[bool, bool]:
    """Return whether a conversion allows RELU, and whether it allows FINITE."""
    if to in (DataType.TF32, *MINIFLOATS):
        return True, True
    if to is DataType.UE8M0:
        return False, True
    is_small_pair = to in _SMALL and source in (DataType.F32, *MINIFLOATS)
    return is_small_pair, is_small_pair


def _errors(instruction: Instruction, function: Function) -> Iterator[str]:
    type_, source, rounding = instruction.type, instruction.source_type, instruction.rounding
    if source is None:
        return
    name = f"CVT.{type_.name}.{source.name}"
    if rounding not in _roundings(type_, source):
        yield f"{name} does not take rounding {rounding.name}"
    if instruction.ftz and (DataType.F32 not in (type_, source) or type_ not in NUMERIC):
        yield f"{name} does not take FTZ"
    if instruction.saturate and not {type_, source} <= set(NUMERIC):
        yield f"{name} does not take SAT"
    relu, finite = _clamps(type_, source)
    if (instruction.relu and not relu) or (instruction.relu and instruction.saturate):
        yield f"{name} does not take RELU"
    if (instruction.finite and not finite) or (instruction.finite and instruction.saturate):
        yield f"{name} does not take FINITE"
    if type_ in MINIFLOATS and not instruction.finite:
        yield f"{name} requires FINITE"


def _stochastic_errors(instruction: Instruction, function: Function) -> Iterator[str]:
    if instruction.type in MINIFLOATS and not instruction.finite:
        yield f"CVT_RS.{instruction.type.name} requires FINITE"


def _names(roundings: tuple[Rounding, ...]) -> str:
    return ", ".join(rounding.name for rounding in roundings)


_FINITE_NOTE = (
    "FINITE converts overflow and infinity to the largest number of the format; a NaN becomes"
    " the canonical one, or, in E2M3, E3M2 and E2M1, which have no NaN, the largest number. RELU"
    " replaces negative results, including -0, by +0."
)

ROWS: Final = (
    OpSpec(
        Op.CVT,
        "convert",
        "d (type) = a (source type). Integer to integer: truncates, or clamps to d's range with"
        " SAT. Float to integer: rounds according to RNI (nearest even), RZI (toward zero), RMI"
        " (down), RPI (up) and clamps to d's range; NaN becomes the pattern with only the top bit"
        " set if the source is F64 or d has 64 bits, else 0. Integer to float, and to a narrower"
        " float: rounds once. Between equal formats RNI ... RPI round to an integral value. FTZ"
        " flushes an F32 source and an F32 result; SAT clamps a float result to [0, 1]."
        f" {_FINITE_NOTE} To UE8M0, a's sign is ignored, zero becomes the smallest power, and a"
        " value that is too large becomes NaN, with FINITE the largest power.",
        "cvt",
        _TYPES,
        (Role.VALUE,),
        (Role.SOURCE,),
        (
            choice(
                "rounding",
                Rounding,
                32,
                4,
                dict.fromkeys((Rounding.NONE, *_RESULT, Rounding.RNA, *_INTEGRAL), _TYPES),
            ),
            flag("ftz", "FTZ", 36),
            flag("saturate", "SAT", 37),
            flag("relu", "RELU", 38),
            flag("finite", "FINITE", 39),
            choice("source_type", DataType, 24, 8, dict.fromkeys(_TYPES, _TYPES), spoken=False),
        ),
        check=_errors,
        notes=(
            ("rounding, float to integer", f"{_names(_INTEGRAL)} (required)"),
            (
                "rounding, to a float from an integer or another float at least as wide",
                _names(_RESULT),
            ),
            ("rounding, between equal float formats", _names(_INTEGRAL)),
            (
                "to E4M3, E5M2, E2M3, E3M2, E2M1",
                "from F16, BF16 and F32; always with RN and FINITE",
            ),
            ("from E4M3, E5M2, E2M3, E3M2, E2M1", "to F16 and BF16, exact"),
            ("to TF32", "from F32; RN, RZ or RNA"),
            ("to UE8M0", "from BF16 and F32; RZ or RP"),
            ("from UE8M0", "to BF16, exact"),
            ("FTZ", "where the source or the result is F32"),
            ("RELU", "to TF32 and the formats of 8 bits; to F16 and BF16 from those and F32"),
            ("FINITE", "as RELU, and to UE8M0"),
        ),
    ),
    OpSpec(
        Op.CVT_RS,
        "convert, rounded stochastically",
        "d (type) = a (F32). The digits of a beyond d's precision are a fraction of d's last place,"
        " cut to 16 bits (13 if d is F16); if its sum with as many low bits of b reaches 1, the"
        f" magnitude is rounded up, else down. {_FINITE_NOTE}",
        "cvt.rs",
        _STOCHASTIC,
        (Role.VALUE,),
        (Role.SOURCE, Role.COUNT),
        (
            flag("relu", "RELU", 38),
            flag("finite", "FINITE", 39),
            choice("source_type", DataType, 24, 8, {DataType.F32: _STOCHASTIC}, spoken=False),
        ),
        check=_stochastic_errors,
        notes=(("E4M3, E5M2, E2M3, E3M2, E2M1", "always with FINITE"),),
    ),
)
