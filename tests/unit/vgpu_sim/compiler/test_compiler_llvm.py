"""PTX that LLVM's NVPTX back end emits in this process: untyped registers, 64-bit phis, vectors."""

from collections.abc import Callable

import numpy as np
import pytest
from llvmlite import binding as llvm

from support.execution.interpreted_ptx import compile_verified, run

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

SREG = "llvm.nvvm.read.ptx.sreg"
INDEX = f"""
  %tid = call i32 @{SREG}.tid.x()
  %cta = call i32 @{SREG}.ctaid.x()
  %ntid = call i32 @{SREG}.ntid.x()
  %base = mul i32 %cta, %ntid
  %i = add i32 %base, %tid
  %i64 = sext i32 %i to i64
"""
DECLARATIONS = (
    "\n".join(f"declare i32 @{SREG}.{name}.x()" for name in ("tid", "ctaid", "ntid"))
    + "\ndeclare float @llvm.fma.f32(float, float, float)\ndeclare double @llvm.sqrt.f64(double)\n"
)


def _ptx(parameters: str, body: str, cpu: str, features: str, attributes: str = "") -> str:
    text = f"""
target triple = "nvptx64-nvidia-cuda"
{DECLARATIONS}
define ptx_kernel void @k({parameters}) {attributes} {{
entry:
{INDEX}
{body}
}}
"""
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(
        cpu=cpu, features=features, opt=3
    )
    ptx: str = machine.emit_assembly(llvm.parse_assembly(text))
    return ptx


TARGETS = [("sm_70", "+ptx70"), ("sm_80", "+ptx78"), ("sm_90", "+ptx88")]
N = 96
RANDOM = np.random.default_rng(3)
FLOATS = RANDOM.standard_normal(N * 4).astype(np.float32)
INTS = RANDOM.integers(-(1 << 31), 1 << 31, N, dtype=np.int64).astype(np.int32)

POLYNOMIAL = """
  %p = getelementptr float, ptr addrspace(1) %in, i64 %i64
  %x = load float, ptr addrspace(1) %p
  %y = call float @llvm.fma.f32(float %x, float 2.0, float -0.5)
  %z = fmul float %y, %x
  %small = fcmp olt float %z, 1.0
  %r = select i1 %small, float %z, float %x
  %q = getelementptr float, ptr addrspace(1) %out, i64 %i64
  store float %r, ptr addrspace(1) %q
  ret void
"""


def _polynomial(x: np.ndarray) -> np.ndarray:
    y = (np.float64(2) * x - 0.5).astype(np.float32)  # exact product: one rounding, as fma
    z = y * x
    return np.where(z < 1, z, x)


LOOP = """
  %start = icmp sgt i32 %i, 0
  br i1 %start, label %loop, label %done
loop:
  %k = phi i32 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i32 [ 7, %entry ], [ %more, %loop ]
  %k64 = zext i32 %k to i64
  %p = getelementptr i32, ptr addrspace(1) %in, i64 %k64
  %v = load i32, ptr addrspace(1) %p
  %m = mul i32 %v, %k
  %more = xor i32 %sum, %m
  %next = add i32 %k, 1
  %again = icmp ult i32 %next, %i
  br i1 %again, label %loop, label %done
done:
  %r = phi i32 [ -1, %entry ], [ %more, %loop ]
  %q = getelementptr i32, ptr addrspace(1) %out, i64 %i64
  store i32 %r, ptr addrspace(1) %q
  ret void
"""


def _loop(v: np.ndarray) -> np.ndarray:
    terms = (v.astype(np.int64) * np.arange(N)).astype(np.int32)
    sums = [np.bitwise_xor.reduce(terms[:i], initial=7) if i else -1 for i in range(N)]
    return np.array(sums, np.int32)


DIVISION = """
  %p = getelementptr i32, ptr addrspace(1) %in, i64 %i64
  %v = load i32, ptr addrspace(1) %p
  %odd = or i32 %i, 1
  %d = sdiv i32 %v, %odd
  %u = urem i32 %v, %odd
  %shift = and i32 %i, 31
  %a = ashr i32 %d, %shift
  %wide = sext i32 %a to i64
  %product = mul i64 %wide, 123456789
  %high = lshr i64 %product, 7
  %low = trunc i64 %high to i32
  %narrow = trunc i32 %u to i8
  %back = sext i8 %narrow to i32
  %r = add i32 %low, %back
  %q = getelementptr i32, ptr addrspace(1) %out, i64 %i64
  store i32 %r, ptr addrspace(1) %q
  ret void
"""


def _division(v: np.ndarray) -> np.ndarray:
    results = []
    for i, value in enumerate(v.tolist()):
        odd = i | 1
        quotient = abs(value) // odd * (1 if value >= 0 else -1)
        shifted = quotient >> (i & 31)
        low = (shifted * 123456789 & (1 << 64) - 1) >> 7
        byte = ((value & 0xFFFF_FFFF) % odd & 0xFF) ^ 0x80
        results.append((low + byte - 0x80) & 0xFFFF_FFFF)
    return np.array(results, np.uint32).view(np.int32)


CONVERSIONS = """
  %p = getelementptr float, ptr addrspace(1) %in, i64 %i64
  %x = load float, ptr addrspace(1) %p
  %big = fmul float %x, 1000.0
  %n = fptosi float %big to i32
  %wide = fpext float %x to double
  %scaled = fadd double %wide, 5.0
  %root = call double @llvm.sqrt.f64(double %scaled)
  %ratio = fdiv double %root, 3.0
  %short = fptrunc double %ratio to float
  %whole = sitofp i32 %n to float
  %half = fptrunc float %whole to half
  %again = fpext half %half to float
  %r = fsub float %short, %again
  %q = getelementptr float, ptr addrspace(1) %out, i64 %i64
  store float %r, ptr addrspace(1) %q
  ret void
"""


def _conversions(x: np.ndarray) -> np.ndarray:
    n = np.trunc(x * np.float32(1000)).astype(np.int32)
    short = (np.sqrt(x.astype(np.float64) + 5) / 3).astype(np.float32)
    return short - n.astype(np.float32).astype(np.float16).astype(np.float32)


@pytest.mark.parametrize(("cpu", "features"), TARGETS)
@pytest.mark.parametrize(
    ("body", "data", "wanted"),
    [
        pytest.param(POLYNOMIAL, FLOATS[:N], _polynomial, id="polynomial"),
        pytest.param(LOOP, INTS, _loop, id="loop"),
        pytest.param(DIVISION, INTS, _division, id="division"),
        pytest.param(CONVERSIONS, FLOATS[:N], _conversions, id="conversions"),
    ],
)
def test_results_are_those_of_numpy(
    body: str,
    data: np.ndarray,
    wanted: Callable[[np.ndarray], np.ndarray],
    cpu: str,
    features: str,
) -> None:
    parameters = "ptr addrspace(1) %in, ptr addrspace(1) %out"
    source = _ptx(parameters, body, cpu, features)
    _, out = run(source, [data, np.zeros_like(data)], grid=(3, 1, 1), block=(32, 1, 1))
    np.testing.assert_array_equal(out, wanted(data))


@pytest.mark.parametrize(("cpu", "features"), TARGETS)
def test_vectors_and_required_blocks(cpu: str, features: str) -> None:
    body = """
      %p = getelementptr <4 x float>, ptr addrspace(1) %in, i64 %i64
      %v = load <4 x float>, ptr addrspace(1) %p, align 16
      %w = shufflevector <4 x float> %v, <4 x float> poison, <4 x i32> <i32 3, i32 2, i32 1, i32 0>
      %s = fadd <4 x float> %v, %w
      %q = getelementptr <4 x float>, ptr addrspace(1) %out, i64 %i64
      store <4 x float> %s, ptr addrspace(1) %q, align 16
      ret void
    """
    parameters = "ptr addrspace(1) %in, ptr addrspace(1) %out"
    source = _ptx(parameters, body, cpu, features, '"nvvm.reqntid"="32"')
    assert compile_verified(source).functions[0].required_block == (32, 1, 1)
    _, out = run(source, [FLOATS, np.zeros_like(FLOATS)], grid=(3, 1, 1))
    rows = FLOATS.reshape(-1, 4)
    np.testing.assert_array_equal(out.reshape(-1, 4), rows + rows[:, ::-1])


@pytest.mark.parametrize(("cpu", "features"), TARGETS)
def test_parameters_by_value_and_generic_pointers(cpu: str, features: str) -> None:
    body = """
      %second = getelementptr inbounds { i8, i64, [3 x i16] }, ptr %packed, i32 0, i32 1
      %a = load i64, ptr %second
      %third = getelementptr inbounds { i8, i64, [3 x i16] }, ptr %packed, i32 0, i32 2, i32 2
      %b = load i16, ptr %third
      %c = zext i16 %b to i64
      %d = add i64 %a, %c
      %small = sext i8 %byte to i64
      %e = mul i64 %d, %small
      store i64 %e, ptr %out
      ret void
    """
    parameters = "ptr %out, i8 %byte, ptr byval({ i8, i64, [3 x i16] }) align 8 %packed"
    source = _ptx(parameters, body, cpu, features)
    value = np.zeros(24, np.uint8)
    value[8:16] = np.frombuffer(np.int64(-7_000_000_000).tobytes(), np.uint8)
    value[20:22] = (0xFF, 0x80)
    packed = np.frombuffer(value.tobytes(), np.dtype("V24"))[0]
    arguments = [np.zeros(1, np.int64), np.int8(-3), packed]
    (out,) = run(source, arguments, block=(1, 1, 1))
    assert out.tolist() == [(-7_000_000_000 + 0x80FF) * -3]


def test_a_jump_table() -> None:
    cases = "\n".join(f"i32 {n}, label %c{n}" for n in range(8))
    blocks = "\n".join(
        f"c{n}:\n store i32 {n * n * 7919 % 101}, ptr addrspace(1) %out\n br label %done"
        for n in range(8)
    )
    body = f"""
      switch i32 %i, label %done [ {cases} ]
      {blocks}
    done:
      ret void
    """
    source = _ptx("ptr addrspace(1) %out", body, "sm_90", "+ptx88")
    assert "brx.idx" in source
    out, *_ = run(source, [np.zeros(64, np.uint32)], block=(64, 1, 1))
    assert int(out[0]) in {n * n * 7919 % 101 for n in range(8)}
