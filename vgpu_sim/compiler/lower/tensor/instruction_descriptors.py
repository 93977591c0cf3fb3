"""PTX that tests an instruction descriptor of tcgen05.mma (PTX ISA, "Instruction descriptor")."""

from typing import Final

_NARROW: Final = (0, 1, 3, 4, 5)  # E4M3, E5M2, E2M3, E3M2, E2M1
_TYPES: Final = {
    "f16": (0, 1),
    "tf32": (2,),
    "f8f6f4": _NARROW,
    "i8": (0, 1),
    "mxf8f6f4": _NARROW,
    "mxf4": (1,),
    "mxf4nvf4": (1,),
}
_RESULTS: Final = {"f16": (0, 1), "tf32": (1,), "f8f6f4": (0, 1), "i8": (2,)}
_ZEROS: Final = {
    "f16": 0xE080_004F,
    "tf32": 0xE080_004F,
    "f8f6f4": 0xE080_004F,
    "i8": 0xE080_604F,
    "mxf8f6f4": 0x8700_004F,
    "mxf4": 0x8701_904F,
    "mxf4nvf4": 0x8701_904F,
}
"""Bits that must be 0: reserved ones, those of sparse products, of .ws and of saturation."""
_SPARSE: Final = 4
_SELECTOR: Final = 3
SELECTS: Final = ("f16", "tf32")
"""The kinds in which the lowest two bits select one of four columns of metadata."""
_REUSE: Final = 0xC000_0000
"""The bits of .ws that state the most columns by which B may be shifted, which are a hint."""
_EXACT: Final = 2
_UNITS: Final = 32  # N / 8


ONE, PAIR, STATIONARY = "one", "pair", "stationary"
"""How a product uses tensor memory: that of one block, of two, or of one by ``.ws``."""


def tests(
    kind: str, block: int, *, in_tensor: bool, arrangement: str, sparse: bool, shifted: bool
) -> str:
    """Return PTX that jumps to ILLEGAL unless the descriptor %idesc is legal. It stores N in %n,
    the columns of tensor memory that D has in %width, and in %small whether a matrix may begin at
    lane 16. With ``shifted``, the rows of A are shifted.
    """
    zeros = _ZEROS[kind] & ~_REUSE if arrangement == STATIONARY else _ZEROS[kind]
    if sparse and kind in SELECTS:
        zeros &= ~_SELECTOR
    parts = [
        f"and.b32 %t0, %idesc, {zeros:#x}; setp.ne.u32 %out, %t0, {_SPARSE * sparse};",
        "@%out bra ILLEGAL;",
        _field(7, 3, _TYPES[kind]),
        _field(10, 3 if kind not in ("mxf4", "mxf4nvf4") else 2, _TYPES[kind]),
        "bfe.u32 %n, %idesc, 17, 6;",
        f"sub.u32 %t0, %n, 1; setp.ge.u32 %out, %t0, {_UNITS}; @%out bra ILLEGAL;",
    ]
    if kind in _RESULTS:
        parts += [_field(4, 2, _RESULTS[kind]), *_types(kind)]
    else:
        parts += _scaled(kind, block)
    parts += _shape(kind, arrangement, shifted=shifted)
    if kind in ("f8f6f4", "mxf8f6f4"):
        parts += [] if in_tensor else [_not_across(15, 7)]
        parts.append(_not_across(16, 10))
    if in_tensor:
        parts.append("and.b32 %t0, %idesc, 0x8000; setp.ne.u32 %out, %t0, 0; @%out bra ILLEGAL;")
    parts.append("shl.b32 %n, %n, 3; shl.b32 %width, %width, 3;")
    return "\n".join(parts)


def _field(first: int, bits: int, legal: tuple[int, ...]) -> str:
    """Return PTX that tests a field, whose value may be one of ``legal``."""
    chosen = sum(1 << value for value in legal)
    return f"""
      bfe.u32 %f, %idesc, {first}, {bits}; mov.b32 %t0, {chosen}; shr.u32 %t0, %t0, %f;
      and.b32 %t0, %t0, 1; setp.eq.u32 %out, %t0, 0; @%out bra ILLEGAL;
    """


def _types(kind: str) -> list[str]:
    """Return PTX that tests the types of .kind::f16: both are the same; BF16 has no D of F16."""
    if kind != "f16":
        return []
    return [
        """
          bfe.u32 %t0, %idesc, 7, 3; bfe.u32 %t1, %idesc, 10, 3; setp.ne.u32 %out, %t0, %t1;
          @%out bra ILLEGAL; bfe.u32 %t1, %idesc, 4, 2; setp.gt.u32 %out, %t0, %t1;
          @%out bra ILLEGAL;
        """
    ]


def _shape(kind: str, arrangement: str, *, shifted: bool) -> list[str]:
    """Return PTX that tests M and N / 8, which is %n, and stores %width / 8 and %small."""
    scaled = kind not in _RESULTS
    first, bits, shift = (27, 2, 7) if scaled else (24, 5, 4)

    def code(rows: int) -> int:
        return rows >> shift

    head = f"bfe.u32 %f, %idesc, {first}, {bits}; mov.b32 %width, %n; setp.ne.u32 %small, %n, %n;"
    if arrangement == STATIONARY:  # N is 64, 128 or 256; D's columns are in 128 / M parts
        return [
            head,
            _field(first, bits, (code(32), code(64), code(128))),
            "popc.b32 %t0, %n; setp.ne.u32 %out, %t0, 1; @%out bra ILLEGAL;",
            "setp.lt.u32 %out, %n, 8; @%out bra ILLEGAL;",
            f"mul.lo.u32 %width, %n, %f; shr.u32 %width, %width, {7 - shift};",
        ]
    if arrangement == PAIR:
        step = 3 if kind == "i8" else 1
        return [
            head,
            _field(first, bits, (code(128), code(256))),
            f"and.b32 %t0, %n, {step}; setp.ne.u32 %out, %t0, 0; @%out bra ILLEGAL;",
            f"setp.eq.u32 %out, %f, {code(128)}; @%out shr.u32 %width, %width, 1;",
        ]
    if scaled:
        return [head, _field(first, bits, (code(128),))]
    if shifted:
        head += _field(first, bits, (code(128),))
    parts = [
        head,
        """
          setp.eq.u32 %small, %f, 4;
          setp.ne.u32 %out, %f, 8; @%small bra ROWS; @%out bra ILLEGAL;
          and.b32 %t0, %n, 1; setp.ne.u32 %out, %t0, 0; @%out bra ILLEGAL;
        ROWS:
        """,
    ]
    if kind == "i8":  # an odd number of 8 columns only up to 24
        parts.append("""
          and.b32 %t0, %n, 1; mul.lo.u32 %t0, %t0, %n; setp.gt.u32 %out, %t0, 3;
          @%out bra ILLEGAL;
        """)
    return parts


def _scaled(kind: str, block: int) -> list[str]:
    scale_types = (0, 1) if block == _EXACT else (1,)
    parts = [_field(23, 1, scale_types)]
    ids = (0, 1, 2, 3) if kind == "mxf8f6f4" else (0,) if block == _EXACT else (0, 2)
    parts += [_field(29, 2, ids), _field(4, 2, ids)]
    return parts


def _not_across(turned: int, type_: int) -> str:
    """Return PTX that refuses a factor of 6 or 4 bits that is contiguous along M or N."""
    return f"""
      bfe.u32 %t0, %idesc, {turned}, 1; bfe.u32 %t1, %idesc, {type_}, 3;
      mul.lo.u32 %t0, %t0, %t1; setp.gt.u32 %out, %t0, 1; @%out bra ILLEGAL;
    """
