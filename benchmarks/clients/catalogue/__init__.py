"""The clients, one record each."""

from benchmarks.clients.catalogue.compilers import (
    CUDA_SAMPLES,
    KERNELS,
    KERNELS_NVCC,
    TAICHI,
    TAICHI_EXAMPLES,
    TINYGRAD,
)
from benchmarks.clients.catalogue.cuda_core import CUDA_BINDINGS, CUDA_CORE
from benchmarks.clients.catalogue.cute_dsl import CUTE_DSL_A100, CUTE_DSL_B200, CUTE_DSL_H100
from benchmarks.clients.catalogue.cutlass import (
    CUTLASS_A100,
    CUTLASS_B200,
    CUTLASS_H100,
    CUTLASS_RTX,
)
from benchmarks.clients.catalogue.numba_cuda import NUMBA_CUDA, WITHOUT_NVJITLINK
from benchmarks.clients.catalogue.pytorch_tests import PYTORCH_TESTS
from benchmarks.clients.catalogue.stock_wheels import JAX, NVML, ONNX_RUNTIME, PYTORCH, TENSORFLOW
from benchmarks.clients.catalogue.triton import (
    TRITON,
    TRITON_ADA,
    TRITON_B200,
    TRITON_CORE,
    TRITON_GLUON,
    TRITON_H100,
    TRITON_RTX,
)

CLIENTS = {
    client.name: client
    for client in (
        NUMBA_CUDA,
        WITHOUT_NVJITLINK,
        CUDA_CORE,
        CUDA_BINDINGS,
        TRITON,
        TRITON_ADA,
        TRITON_H100,
        TRITON_B200,
        TRITON_RTX,
        TRITON_GLUON,
        TRITON_CORE,
        ONNX_RUNTIME,
        PYTORCH,
        *PYTORCH_TESTS,
        JAX,
        TENSORFLOW,
        TAICHI,
        TAICHI_EXAMPLES,
        TINYGRAD,
        CUDA_SAMPLES,
        KERNELS,
        KERNELS_NVCC,
        NVML,
        CUTLASS_A100,
        CUTLASS_H100,
        CUTLASS_B200,
        CUTLASS_RTX,
        CUTE_DSL_A100,
        CUTE_DSL_H100,
        CUTE_DSL_B200,
    )
}
