"""Halves as LLVM's NVPTX back end emits them: .b16 registers, packed pairs in .b32, constants."""

import ml_dtypes
import numpy as np
import pytest
from llvmlite import binding as llvm

from support.execution.interpreted_ptx import compile_verified, run

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

N = 64
TARGETS = [("sm_80", "+ptx78"), ("sm_90", "+ptx88"), ("sm_100", "+ptx88")]
_TYPES = {"half": ("f16", np.float16), "bfloat": ("bf16", ml_dtypes.bfloat16)}


def _ptx(element: str, suffix: str, cpu: str, features: str) -> str:
    text = f"""
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare {element} @llvm.fma.{suffix}({element}, {element}, {element})
declare {element} @llvm.maximum.{suffix}({element}, {element})
declare {element} @llvm.fabs.{suffix}({element})
define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %i = sext i32 %t to i64
  %p = getelementptr {element}, ptr addrspace(1) %in, i64 %i
  %x = load {element}, ptr addrspace(1) %p
  %s = fadd {element} %x, %x
  %m = fmul {element} %s, %x
  %f = call {element} @llvm.fma.{suffix}({element} %m, {element} %x, {element} %s)
  %n = fneg {element} %f
  %a = call {element} @llvm.fabs.{suffix}({element} %n)
  %y = call {element} @llvm.maximum.{suffix}({element} %a, {element} %x)
  %q = getelementptr {element}, ptr addrspace(1) %out, i64 %i
  store {element} %y, ptr addrspace(1) %q
  ret void
}}
"""
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(
        cpu=cpu, features=features, opt=3
    )
    ptx: str = machine.emit_assembly(llvm.parse_assembly(text))
    return ptx


@pytest.mark.parametrize(("cpu", "features"), TARGETS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", _TYPES)
def test_arithmetic(name: str, packed: bool, cpu: str, features: str) -> None:
    suffix, type_ = _TYPES[name]
    element = f"<2 x {name}>" if packed else name
    ptx = _ptx(element, f"v2{suffix}" if packed else suffix, cpu, features)
    count = 2 * N if packed else N
    rng = np.random.default_rng(4)
    x = rng.uniform(-4, 4, count).astype(type_)
    module = compile_verified(ptx, capability=(int(cpu[3:-1]), int(cpu[-1])))
    arrays = [x.view(np.uint16), np.zeros(count, np.uint16)]
    got = run(module, arrays, block=(N, 1, 1))[1].view(type_)
    # Products of the operands and their sums are exact in binary64, and rounded once from there.
    twice = (x + x).astype(np.float64)
    product = (twice * x.astype(np.float64)).astype(type_).astype(np.float64)
    fused = (product * x.astype(np.float64) + twice).astype(type_)
    assert (got == np.maximum(np.abs(fused), x)).all()
