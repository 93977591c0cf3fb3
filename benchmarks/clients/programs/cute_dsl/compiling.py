"""Compiles one of CuTe DSL's examples for tensors of static shapes: FOLDER EXAMPLE."""

import importlib.util
import sys
from pathlib import Path

import cutlass
from cuda.bindings import driver
from cutlass import cute
from cutlass.cute.runtime import make_fake_tensor

F16, F32 = cutlass.Float16, cutlass.Float32


def _load(folder, path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, folder / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _tensor(dtype, shape, strides):
    return make_fake_tensor(dtype, shape, strides, assumed_align=16)


def _rows(dtype, rows, columns, *batch):
    """Return a matrix whose columns are contiguous; with a batch of one if ``batch`` is 1."""
    return _tensor(dtype, (rows, columns, *batch), (columns, 1, *(rows * columns,) * len(batch)))


def main():
    folder, example = Path(sys.argv[1]), sys.argv[2]
    stream = driver.CUstream(0)
    kind, _, variant = example.partition("-")
    if kind == "elementwise_add":
        module = _load(folder, "ampere/kernel/elementwise/elementwise_add.py")
        cute.compile(module.elementwise_add, *(_rows(F32, 256, 512) for _ in range(3)))
    elif kind == "sgemm":
        module = _load(folder, "ampere/kernel/dense_gemm/sgemm.py")
        a, b = (_tensor(F32, (256, 64), (1, 256)) for _ in range(2))
        cute.compile(module.SGemm(), a, b, _rows(F32, 256, 256), stream=stream)
    elif kind == "tensorop_gemm":
        module = _load(folder, "ampere/kernel/dense_gemm/tensorop_gemm.py")
        a, b = (_rows(F16, 256, 128, 1) for _ in range(2))
        kernel = module.TensorOpGemm(F16, F16, F32, (2, 2, 1))
        cute.compile(kernel, a, b, _rows(F16, 256, 256, 1), stream)
    elif kind == "flash_attention":
        module = _load(folder, "ampere/kernel/attention/flash_attention_v2.py")
        tensors = (_tensor(F16, (1, 256, 4, 64), (65536, 256, 64, 1)) for _ in range(4))
        kernel = module.FlashAttentionForwardAmpere(64, 64, 64, 128, variant == "causal")
        cute.compile(kernel, *tensors, F32(0.125), stream)
    elif kind == "hopper_gemm":
        module = _load(folder, "hopper/kernel/dense_gemm/dense_gemm.py")
        kernel = module.HopperWgmmaGemmKernel(F32, (128, 128), (int(variant), 1))
        cute.compile(kernel, *(_rows(F16, 256, 256, 1) for _ in range(3)), stream)
    elif kind == "blackwell_gemm":
        module = _load(folder, f"blackwell/tutorial/tutorial_gemm/fp16_gemm_{variant}.py")
        clusters = () if int(variant[0]) < 3 else (1,)  # at most one cluster is active
        cute.compile(module.host_function, *(_rows(F16, 256, 256) for _ in range(3)), *clusters)
    else:
        sys.exit(f"no example {example!r}")


main()
