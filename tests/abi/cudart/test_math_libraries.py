"""The mathematical libraries: exports, handles as objects, and refusals that name the function."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_sim.clients.codegen import library as codegen
from vgpu_sim.native import generate

BUILT = [
    (made, generate.MATH[folder]) for folder in generate.MATH for made in codegen.load_each(folder)
]

USE = r"""
import ctypes as c
def lib(name): return c.CDLL(name)
def p(): return c.c_void_p()
out = c.byref
for major in (12, 13):
    blas, handle, stream, mode = lib(f"libcublas.so.{major}"), p(), p(), c.c_int()
    assert blas.cublasCreate_v2(out(handle)) == 0 and handle
    assert blas.cublasCreate_v2(None) == 7
    assert blas.cublasGetVersion_v2(None, out(mode)) == 0 and mode.value // 10000 == major
    assert blas.cublasSetStream_v2(handle, c.c_void_p(2)) == 0
    assert blas.cublasGetStream_v2(handle, out(stream)) == 0 and stream.value == 2
    for what in ("PointerMode_v2", "AtomicsMode", "MathMode"):
        assert blas["cublasSet" + what](handle, 1) == 0
        assert blas["cublasGet" + what](handle, out(mode)) == 0 and mode.value == 1
        assert blas["cublasSet" + what](handle, 77) == 7 and blas["cublasSet" + what](handle, -1) == 7
    assert blas.cublasSetWorkspace_v2(handle, c.c_void_p(256), c.c_size_t(9)) == 0
    assert blas.cublasSetWorkspace_v2(handle, c.c_void_p(3), c.c_size_t(9)) == 7
    for _ in range(2):
        assert blas.cublasZherk_v2(handle) == 15
    assert blas.cublasDestroy_v2(handle) == 0
    for gone in (handle, c.c_void_p(8), None):
        assert blas.cublasDestroy_v2(gone) == 1 and blas.cublasSetStream_v2(gone, None) == 1
    blas.cublasGetStatusName.restype = c.c_char_p
    assert blas.cublasGetStatusName(15) == b"CUBLAS_STATUS_NOT_SUPPORTED"
    assert blas.cublasGetStatusName(99) == b"CUBLAS_STATUS_UNKNOWN"

    light, number, size = lib(f"libcublasLt.so.{major}"), c.c_uint64(), c.c_size_t()
    assert light.cublasLtCreate(out(handle)) == 0
    layout = p()
    assert light.cublasLtMatrixLayoutCreate(
        out(layout), 0, c.c_uint64(3), c.c_uint64(5), c.c_int64(4)) == 0
    get, set = light.cublasLtMatrixLayoutGetAttribute, light.cublasLtMatrixLayoutSetAttribute
    assert get(layout, 3, out(number), c.c_size_t(8), out(size)) == 0
    assert (number.value, size.value) == (5, 8)
    assert get(layout, 3, out(number), c.c_size_t(4), None) == 7
    assert get(layout, 3, None, c.c_size_t(0), out(size)) == 0
    assert set(layout, 64, out(number), c.c_size_t(8)) == 7
    assert set(layout, 2, out(number), c.c_size_t(1 << 40)) == 7
    assert set(layout, 3, out(number), c.c_size_t(4)) == 7  # columns are 8 bytes
    assert set(layout, 3, out(number), c.c_size_t(8)) == 0
    assert set(layout, 9, out(number), c.c_size_t(4)) == 0  # without a default
    assert light.cublasLtMatmulDescDestroy(layout) == 7  # another kind of object
    assert light.cublasLtMatrixLayoutDestroy(layout) == 0 and get(layout, 3, None, 0, None) == 7
    assert light.cublasLtMatrixTransform(handle) == 15
    assert light.cublasLtDestroy(handle) == 0 and light.cublasLtDestroy(handle) == 1

dnn, handle, tensor = lib("libcudnn.so.9"), p(), p()
assert dnn.cudnnCreate(out(handle)) == 0 and dnn.cudnnSetStream(handle, c.c_void_p(1)) == 0
assert dnn.cudnnCreateTensorDescriptor(out(tensor)) == 0
assert dnn.cudnnSetTensor4dDescriptor(tensor, 1, 0, 2, 3, 4, 5) == 0
four, extents, strides = c.c_int * 4, (c.c_int * 4)(), (c.c_int * 4)()
assert dnn.cudnnGetTensorNdDescriptor(tensor, 4, None, out(mode), extents, strides) == 0
assert (list(extents), list(strides), mode.value) == ([2, 3, 4, 5], [60, 1, 15, 3], 4)
assert dnn.cudnnSetTensorNdDescriptor(tensor, 0, 9, extents, strides) == 3000
assert dnn.cudnnSetTensorNdDescriptor(tensor, 0, 2, four(1, 0, 1, 1), strides) == 2000
assert dnn.cudnnSetTensorNdDescriptor(tensor, 18, 2, four(1, 1, 1, 1), strides) == 0
assert dnn.cudnnSetTensorNdDescriptor(tensor, 19, 2, four(1, 1, 1, 1), strides) == 2000
big = 1 << 30
assert dnn.cudnnSetTensor4dDescriptor(tensor, 0, 0, 1, big, big, big) == 3000
assert dnn.cudnnConvolutionForward(handle) == 3000
assert not hasattr(dnn, "cudnnGetMaxDeviceVersion")  # would return the status as a version
assert dnn.cudnnDestroy(tensor) == 2000 and dnn.cudnnDestroy(handle) == 0

for major in (11, 12):
    fft, plan = lib(f"libcufft.so.{major}"), c.c_int()
    assert fft.cufftCreate(out(plan)) == 0 and fft.cufftSetStream(plan, None) == 0
    assert fft.cufftMakePlan1d(plan) == 16
    assert fft.cufftDestroy(plan) == 0 and fft.cufftDestroy(plan) == 1
    assert fft.cufftSetStream(-5, None) == 1
    assert fft.cufftGetVersion(out(mode)) == 0 and mode.value // 1000 == major
handle = p()
for part in ("ops", "cnn", "adv", "graph", "ext", "heuristic", "engines_precompiled"):
    assert lib(f"libcudnn_{part}.so.9").cudnnCreate(out(handle)) == 0  # of one set of handles
    assert dnn.cudnnDestroy(handle) == 0
rand = lib("libcurand.so.10")
assert rand.curandCreateGenerator(out(handle), 100) == 204
assert rand.curandGetProperty(7, out(mode)) == 104

nccl, comm, many = lib("libnccl.so.2"), p(), p()
assert nccl.ncclGetVersion(out(mode)) == 0 and mode.value == 23007
class Id(c.Structure): _fields_ = [("internal", c.c_char * 128)]
first, second = Id(), Id()
assert nccl.ncclGetUniqueId(out(first)) == 0 and nccl.ncclGetUniqueId(out(second)) == 0
assert bytes(first) != bytes(second)
assert nccl.ncclCommInitRank(out(comm), 1, first, 0) == 0
assert nccl.ncclCommInitRank(out(many), 2, Id(), 0) == 4  # ncclGetUniqueId did not make this id
assert nccl.ncclCommDestroy(many) == 0
many = p()
assert nccl.ncclCommInitRank(out(many), 1, first, 1) == 4
for name, expected in (("Count", 1), ("UserRank", 0), ("CuDevice", 0), ("GetAsyncError", 0)):
    assert nccl["ncclComm" + name](comm, out(mode)) == 0 and mode.value == expected
    assert nccl["ncclComm" + name](None, out(mode)) == 4
cuda, both, held, size, zero = lib("libcuda.so.1"), (c.c_float * 4)(1, 2, 3, 4), p(), c.c_size_t, p()
assert cuda.cuDevicePrimaryCtxRetain(out(zero), 0) == 0 == cuda.cuCtxSetCurrent(zero)
zero = p()
assert cuda.cuMemAlloc_v2(out(held), size(16)) == 0
assert cuda.cuMemcpyHtoD_v2(held, both, size(16)) == 0
one, other, two = c.c_void_p(held.value), c.c_void_p(held.value + 8), size(2)
assert nccl.ncclAllReduce(one, other, two, 7, 4, comm, None) == 0  # the average of two floats
assert cuda.cuMemcpyDtoH_v2(both, held, size(16)) == 0 and list(both) == [1, 2, 1, 2]
assert nccl.ncclReduce(one, other, two, 7, 0, 1, comm, None) == 4  # there is no rank 1
assert nccl.ncclAllGather(one, other, two, 12, comm, None) == 4  # nor a type 12
assert nccl.ncclBroadcast(one, zero, two, 7, 0, comm, None) == 4
assert nccl.ncclAllGather(one, other, size(2**62), 7, comm, None) == 4
assert nccl.ncclAllReduce(one, other, two, 7, 5, comm, None) == 4  # an operation that was not made
assert nccl.ncclBcast(one, two, 7, 0, comm, None) == 0 == nccl.ncclGroupStart()
assert nccl.ncclGroupEnd() == 0 and nccl.ncclGroupEnd() == 5
assert nccl.ncclCommSplit(comm, -1, 0, out(many), None) == 0 and not many
assert nccl.ncclCommSplit(comm, 3, 0, out(many), None) == 0 and many
assert nccl.ncclCommDestroy(many) == 0 and nccl.ncclPutSignal(comm) == 5
assert nccl.ncclCommFinalize(comm) == 0 and nccl.ncclCommFinalize(comm) == 5
assert nccl.ncclCommDestroy(comm) == 0 and nccl.ncclCommDestroy(comm) == 4

sparse, block = lib("libcusparseLt.so.0"), (c.c_uint8 * 1024)()
at = (c.addressof(block) + 15) // 16 * 16
assert sparse.cusparseLtInit(c.c_void_p(at)) == 0 and sparse.cusparseLtInit(None) == 3
assert sparse.cusparseLtGetVersion(c.c_void_p(at), out(mode)) == 0 and mode.value == 801
assert sparse.cusparseLtMatmul(c.c_void_p(at)) == 10
assert sparse.cusparseLtDestroy(c.c_void_p(at)) == 0 and sparse.cusparseLtDestroy(c.c_void_p(at)) == 3

files = lib("libcufile.so.0")
files.cuFileRead.restype = c.c_ssize_t
files.cuFileDriverOpen.restype = c.c_uint64
assert files.cuFileGetVersion(out(mode)) == 0 and mode.value == 1200
assert files.cuFileDriverOpen() == 5007 and files.cuFileUseCount() == 0
assert files.cuFileRead(None, None, c.c_size_t(1), c.c_long(0), c.c_long(0)) == -5007

shared = lib("libnvshmem_host.so.3")
shared.nvshmem_malloc.restype = c.c_void_p
assert shared.nvshmemx_init_status() == 0 and shared.nvshmem_malloc(c.c_size_t(8)) is None
assert shared.nvshmemid_hostlib_init_attr() == 3
print("right")
"""


def test_handles_are_objects_and_what_would_compute_is_refused_by_name(environment):
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    said = done.stderr.splitlines()
    refused = "cublasZherk_v2 is not supported (CUBLAS_STATUS_NOT_SUPPORTED)"
    assert said.count(f"tessera: {refused}") == 2  # once in each of two libraries
    for name in ("ncclPutSignal", "cusparseLtMatmul", "cuFileRead", "nvshmem_malloc"):
        assert any(line.startswith(f"tessera: {name} is not supported") for line in said)
    for name in ("cublasLtMatrixTransform", "cudnnConvolutionForward", "cufftMakePlan1d"):
        assert any(line.startswith(f"tessera: {name} is not supported") for line in said)
    assert "tessera: curandCreateGenerator is not supported (CURAND_STATUS_ARCH_MISMATCH)" in said


def test_matrix_products_agree_with_numpy(either_backend, request):
    program = Path(__file__).parents[1] / "programs" / "cudart" / "products.py"
    is_fast = request.node.callspec.params["either_backend"] == "jit"
    command = [sys.executable, str(program), *(["large"] if is_fast else [])]
    done = subprocess.run(command, env=either_backend, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    for refused in ("a computeType other than 16F, 32F and 64F", "types of A, B, C and scale"):
        lines = [one for one in done.stderr.splitlines() if refused in one]
        functions = [one.removeprefix("tessera: ").split(" with ")[0] for one in lines]
        # cublasSgemmEx has no argument for the type of the computation
        both = ["cublasGemmEx", "cublasSgemmEx"]
        assert functions == (both if "types of" in refused else both[:1])


def test_products_of_cublaslt_and_vectors_agree_with_numpy(environment):
    folder = Path(__file__).parents[1] / "programs" / "cudart"
    done = subprocess.run(
        [sys.executable, "-c", "import light_products, vectors"],
        env={**environment, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "right\nright\n"), done.stderr
    said = done.stderr.splitlines()
    assert len(said) == len(set(said)) == 6
    assert all(line.startswith("tessera: cublasLtMatmul with ") for line in said)


@pytest.mark.parametrize("made", BUILT, ids=lambda made: f"{made[1]}.{made[0].major}")
def test_public_names_are_exported_with_the_version_node(libraries: Path, made) -> None:
    described, name = made
    soname = f"{name}.{described.major}"
    path = str(libraries / "math" / soname)
    output = subprocess.run(
        ["readelf", "-W", "-d", "--dyn-syms", path], check=True, capture_output=True, text=True
    ).stdout
    found = re.findall(
        r"FUNC\s+GLOBAL\s+DEFAULT\s+\d+\s+([^@\s]+)(?:@@(\S+))?$", output, re.MULTILINE
    )
    assert sorted(found) == sorted((one.symbol, described.node) for one in described.functions)
    assert re.findall(r"SONAME.*\[(.*)\]", output) == [soname]
    assert set(re.findall(r"NEEDED.*\[(.*)\]", output)) <= {
        *("libcuda.so.1", "libc.so.6", "libdl.so.2"),
    }
    assert re.findall(r"RUNPATH.*\[(.*)\]", output) == ["$ORIGIN/.."]
    versions = re.findall(r"@GLIBC_([0-9.]+)", output)
    assert max(tuple(map(int, version.split("."))) for version in versions) <= (2, 17)
