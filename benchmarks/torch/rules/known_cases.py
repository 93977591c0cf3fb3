"""Cases that do not end as their rule has it, with the reason: any other difference is a failure.

A case of this table that agrees is a failure, too, so that the table shrinks with each cure.
"""

from typing import Final

_POWER: Final = (
    "1.7 ** 100.3: the function of libdevice is farther off than the distance stated for CUDA's"
)
_FUSED: Final = "multiplication and addition are fused elsewhere than the rule has it: a last bit"
_DOT: Final = "refused: cuBLAS's cublasDotEx"

# By the row's name, the type of the first operand, and the case's label.
KNOWN: Final[dict[tuple[str, str, str], str]] = {
    ("pow", "float32", "float32 tensors"): _POWER,
    ("_foreach_pow", "float32", "number 1.7 float32"): _POWER,
    ("addcmul", "float64", "float64"): _FUSED,
    ("lerp", "float32", "float32"): _FUSED,
    ("lerp", "float64", "float64"): _FUSED,
    **{
        ("vdot", dtype, f"{dtype}{special}"): _DOT
        for dtype in ("float16", "bfloat16")
        for special in ("", " inf", " nan")
    },
    ("addr", "complex64", "complex64"): "refused: no kernel",
}
