"""PTX type names and the corresponding types of the ISA."""

from vgpu_sim.isa import DataType

DATA_TYPES = {type_.name.lower(): type_ for type_ in DataType}
"""``u32`` -> ``DataType.U32``; PTX and the ISA name types alike."""

UNTYPED = {8: DataType.B8, 16: DataType.B16, 32: DataType.B32, 64: DataType.B64}
UNSIGNED = {8: DataType.U8, 16: DataType.U16, 32: DataType.U32, 64: DataType.U64}

# PTX ISA, "Fundamental Types": the ISA has no 8-bit registers; they become 16-bit ones, since every
# instruction that may use them (ld, st, cvt) accepts wider operands.
REGISTER_BITS = {
    **{f".{kind}8": 16 for kind in "bus"},
    **{f".{kind}16": 16 for kind in ("b", "u", "s", "f", "bf")},
    **{f".{kind}32": 32 for kind in ("b", "u", "s", "f")},
    **{f".{kind}64": 64 for kind in ("b", "u", "s", "f")},
    ".f16x2": 32,
    ".bf16x2": 32,
}
