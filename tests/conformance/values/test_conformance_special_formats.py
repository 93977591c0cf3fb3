"""cvt to numbers with six fraction bits, and fma.oob, on both executors against numpy."""

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified

COUNT = 1024
_OUTSIDE = 0x7FFF


def _run(body: str, *inputs: np.ndarray, target: str = "sm_100a") -> np.ndarray:
    """Return the first 32-bit word that each thread stores, with its words of inputs in %x."""
    loads = "".join(
        f"ld.param.u64 %p, [p{n}]; add.u64 %p, %p, %o; ld.global.b32 %x{n}, [%p];"
        for n in range(len(inputs))
    )
    parameters = ", ".join(f".param .u64 p{n}" for n in range(len(inputs)))
    source = f""".version 9.1
.target {target}
.address_size 64
.visible .entry k(.param .u64 out, {parameters})
{{
  .reg .b32 %i, %x<4>, %d; .reg .b64 %p, %o; .reg .b16 %h, %s<4>; .reg .f32 %f<4>;
  mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 4; {loads}
  {body}
  ld.param.u64 %p, [out]; add.u64 %p, %p, %o; st.global.b32 [%p], %d;
  ret;
}}
"""
    module = compile_verified(source, (10, 0) if target == "sm_100a" else (9, 0))
    buffers = [bytes(4 * COUNT), *(given.astype(np.uint32).tobytes() for given in inputs)]
    found = compare(module, buffers, (1, 1, 1), (COUNT, 1, 1), [None])
    return np.frombuffer(found[0], np.uint32)


def _words(seed: int) -> np.ndarray:
    dice = np.random.default_rng(seed)
    near = (dice.integers(-300, 300, COUNT) / 128).astype(np.float32)
    chosen = np.where(dice.integers(0, 2, COUNT) == 1, near, dice.normal(0, 2, COUNT))
    chosen = chosen.astype(np.float32).view(np.uint32)
    chosen[:6] = [0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000, 0x80000000, 0x7F7FFFFF]
    return chosen


def _fixed(bits: np.ndarray, *, relu: bool) -> np.ndarray:
    with np.errstate(over="ignore"):
        number = bits.view(np.float32).astype(np.float64) * 64
    whole = np.clip(np.rint(np.where(np.isnan(number), 127, number)), 0 if relu else -128, 127)
    return whole.astype(np.int64) & 0xFF


@pytest.mark.parametrize("relu", [False, True])
def test_numbers_with_six_fraction_bits(relu: bool) -> None:
    suffix = ".relu" if relu else ""
    a, b = _words(1), _words(2)
    body = f"""mov.b32 %f0, %x0; mov.b32 %f1, %x1;
      cvt.rn.satfinite{suffix}.s2f6x2.f32 %h, %f0, %f1; cvt.u32.u16 %d, %h;"""
    expected = _fixed(a, relu=relu) << 8 | _fixed(b, relu=relu)
    np.testing.assert_array_equal(_run(body, a, b), expected)
    pair = a & 0xFFFF0000 | b >> 16
    body = f"cvt.rn.satfinite{suffix}.s2f6x2.bf16x2 %h, %x0; cvt.u32.u16 %d, %h;"
    expected = _fixed(a & 0xFFFF0000, relu=relu) << 8 | _fixed(b & 0xFFFF0000, relu=relu)
    np.testing.assert_array_equal(_run(body, pair), expected)


@pytest.mark.parametrize("type_", ["f16x2", "bf16x2", "f16", "bf16"])
def test_elements_outside_make_zeros(type_: str) -> None:
    dice = np.random.default_rng(3)
    halves = dice.integers(0, 1 << 16, (3, COUNT, 2)).astype(np.uint32)
    halves[dice.integers(0, 4, halves.shape) == 0] = _OUTSIDE
    words = halves[..., 0] | halves[..., 1] << 16
    if type_.endswith("x2"):
        body, plain = (f"fma.rn{oob}.{type_} %d, %x0, %x1, %x2;" for oob in (".oob", ""))
    else:
        cut = "".join(f"cvt.u16.u32 %s{n}, %x{n};" for n in range(3))
        body, plain = (
            f"{cut} fma.rn{oob}.{type_} %h, %s0, %s1, %s2; cvt.u32.u16 %d, %h;"
            for oob in (".oob", "")
        )
    outside = (halves == _OUTSIDE).any(0)
    expected = _run(plain, *words, target="sm_90")
    for half in range(2):
        expected = np.where(outside[:, half], expected & ~np.uint32(0xFFFF << 16 * half), expected)
    np.testing.assert_array_equal(_run(body, *words, target="sm_90"), expected)
