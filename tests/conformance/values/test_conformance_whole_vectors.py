"""Vectors that end beyond their variable, as LLVM reads structures of three (used_bytes_mask).

The bytes beyond it are undefined in PTX; here they are unused, and reading them must not fault.
"""

import struct

import numpy as np
import pytest

from support.execution.both_backends import Bench
from support.execution.interpreted_ptx import compile_verified
from vgpu_sim.compiler import InvalidPtxError, UnsupportedPtxError
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

HEADER = ".version 8.6\n.target sm_90\n.address_size 64\n"
REGISTERS = ".reg .b32 %r<8>; .reg .b64 %o, %d; mov.u32 %r4, %tid.x; add.u32 %r5, %r4, 40;"
FILL = "st.{0}.v2.b32 [own], {{%r4, %r5}}; st.{0}.b32 [own+8], 7;"
READ = '.pragma "used_bytes_mask 0xfff"; ld.{0}.v4.b32 {{%r0, %r1, %r2, %r3}}, [own];'
END = "mad.wide.u32 %o, %r4, 12, %o; st.b32 [%o], %r0; st.b32 [%o+4], %r1; st.b32 [%o+8], %r2; ret;"
OWN = ".align 16 .b8 own[12]"
ENTRY = f".visible .entry k(.param .u64 o) {{ {REGISTERS} ld.param.u64 %o, [o];"
CALLED = f"""
.func f(.param .b64 o, .param {OWN})
{{ {REGISTERS} ld.param.b64 %o, [o]; {READ.format("param")} {END} }}
{ENTRY} {{ .param .b64 to; .param {OWN}; st.param.b64 [to], %o; {FILL.format("param")}
  call f, (to, own); }} ret; }}
"""


@pytest.mark.parametrize(
    "text",
    [
        f"{ENTRY} .local {OWN}; {FILL.format('local')} {READ.format('local')} {END} }}",
        f"{ENTRY} .shared {OWN}; mov.u32 %r4, 0; mov.u32 %r5, 40; {FILL.format('shared')}"
        f" {READ.format('shared')} mov.u32 %r4, %tid.x; {END} }}",
        CALLED,
    ],
    ids=["local", "shared", "parameter"],
)
def test_the_last_element_is_beyond_the_variable(text: str) -> None:
    module, threads = compile_verified(HEADER + text), 40
    out = _run(module, threads, b"")
    lanes = np.arange(threads) if ".shared" not in text else np.zeros(threads, int)
    np.testing.assert_array_equal(out, np.stack([lanes, lanes + 40, lanes * 0 + 7], axis=1))


def test_vectors_beyond_a_kernels_last_parameter() -> None:
    text = (
        f".visible .entry k(.param .u64 o, .param {OWN}) {{ {REGISTERS} ld.param.u64 %o, [o];"
        f" {READ.format('param')} add.u32 %r2, %r2, %r3; {END} }}"
    )
    out = _run(compile_verified(HEADER + text), 3, struct.pack("<8x3I", 5, 6, 7))
    assert out.tolist() == [[5, 6, 7]] * 3


@pytest.mark.parametrize(
    ("load", "error"),
    [
        ("ld.param.v4.b32 {%r0, %r1, %r2, %r3}, [own+16];", InvalidPtxError),
        ("ld.param.b32 %r0, [own+-4];", InvalidPtxError),
        ("ld.param.v2.b64 {%o, %d}, [own];", UnsupportedPtxError),  # half of the second
    ],
)
def test_vectors_entirely_beyond_the_variable_are_rejected(
    load: str, error: type[Exception]
) -> None:
    text = f".visible .entry k(.param .u64 o, .param {OWN}) {{ {REGISTERS} {load} ret; }}"
    with pytest.raises(error, match="parameter"):
        compile_verified(HEADER + text)


def _run(module: Module, threads: int, others: bytes) -> np.ndarray:
    """Return the three words of each thread, the same from both backends."""
    shape, bench = ((1, 1, 1), (threads, 1, 1)), Bench(bytes(12 * threads))
    try:
        parameters = struct.pack("<Q", *bench.addresses()) + others
        expected = bench.interpret(module, *shape, parameters)[0]
        for plan in (None, jit.Plan(1, 1)):
            assert bench.execute(module, *shape, parameters, plan)[0] == expected, plan
        return np.frombuffer(expected, np.uint32).reshape(threads, 3)
    finally:
        bench.close()
