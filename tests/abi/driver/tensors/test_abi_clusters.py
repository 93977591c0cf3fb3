"""Launches with clusters: attributes of launches, functions and graph nodes, limits and occupancy."""

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as bindings

INVALID_VALUE, NOT_PERMITTED, INVALID_CLUSTER = 1, 800, 912
BLOCKS, THREADS = 16, 32
# Each block stores what its neighbour in the cluster has, and the cluster's size.
KERNEL = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry plain(.param .u64 po) { BODY }
.visible .entry pairs(.param .u64 po) .explicitcluster .reqnctapercluster 2, 1, 1 { BODY }
.visible .entry sized(.param .u64 po) .explicitcluster { BODY }
.visible .entry grid(.param .u64 po) .blocksareclusters .reqnctapercluster 4, 1, 1 .reqntid 32 { BODY }
.visible .entry most4(.param .u64 po) .maxclusterrank 4 { BODY }
""".replace(
    "BODY",
    """
    .reg .b32 %r<12>; .reg .b64 %d<4>; .shared .b32 sm[32];
    ld.param.u64 %d0, [po]; mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %tid.x; mov.u32 %r7, %ctaid.x;
    shl.b32 %r2, %r1, 2; mov.u32 %r4, sm; add.u32 %r4, %r4, %r2; st.shared.u32 [%r4], %r7;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    mov.u32 %r8, %cluster_nctarank; add.u32 %r6, %r0, 1; rem.u32 %r6, %r6, %r8;
    mapa.shared::cluster.u32 %r3, %r4, %r6; ld.shared::cluster.u32 %r5, [%r3];
    mad.lo.u32 %r5, %r5, 100, %r8; mad.lo.u32 %r9, %r7, 32, %r1; mul.wide.u32 %d1, %r9, 4;
    add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r5;
    barrier.cluster.arrive; barrier.cluster.wait; ret;
    """,
)
A, L = bindings.CUfunction_attribute, bindings.CUlaunchAttributeID


@pytest.fixture
def kernels(cuda):
    module = cuda.cuModuleLoadData(KERNEL.encode() + b"\0")
    out = cuda.cuMemAlloc(BLOCKS * THREADS * 4)
    return {
        n: cuda.cuModuleGetFunction(module, n.encode())
        for n in ("plain", "pairs", "sized", "most4", "grid")
    }, out


def config(cluster=None, blocks=BLOCKS):
    """Return a launch's configuration; ``cluster`` is the number of its blocks in x, or all three."""
    made = bindings.CUlaunchConfig()
    made.gridDimX, made.gridDimY, made.gridDimZ = blocks, 1, 1
    made.blockDimX, made.blockDimY, made.blockDimZ = THREADS, 1, 1
    if cluster is not None:
        attribute = bindings.CUlaunchAttribute()
        attribute.id = L.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = cluster if isinstance(cluster, tuple) else (cluster, 1, 1)
        place = attribute.value.clusterDim
        place.x, place.y, place.z = size
        made.attrs, made.numAttrs = [attribute], 1
    return made


def launch(function, out, **given):
    (status,) = bindings.cuLaunchKernelEx(
        config(**given), function, ((int(out),), (ctypes.c_uint64,)), 0
    )
    return int(status)


def read(cuda, out):
    found = np.zeros(BLOCKS * THREADS, np.uint32)
    cuda.cuMemcpyDtoH(found, out, found.nbytes)
    return found.reshape(BLOCKS, THREADS)[:, 5]


def neighbours(size):
    each = np.arange(BLOCKS)
    return (each // size * size + (each + 1) % size) * 100 + size


@pytest.mark.parametrize("threads", [1, THREADS])
def test_a_grid_of_clusters(cuda, kernels, threads):
    functions, out = kernels
    pointer = ctypes.c_uint64(int(out))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    stream = cuda.cuStreamCreate(0)
    arguments = (functions["grid"], BLOCKS // 4, 1, 1, threads, 1, 1, 0, stream)
    for captured in (False, True):
        cuda.cuMemsetD32(out, 0, BLOCKS * THREADS)
        if captured:
            cuda.cuStreamBeginCapture(stream, bindings.CUstreamCaptureMode(2))
        cuda.cuLaunchKernel(*arguments, ctypes.addressof(parameters), 0)
        if captured:
            graph = cuda.cuGraphInstantiate(cuda.cuStreamEndCapture(stream), 0)
            cuda.cuGraphLaunch(graph, stream)
        cuda.cuStreamSynchronize(stream)
        assert np.array_equal(read(cuda, out), neighbours(4))
    (status,) = bindings.cuLaunchKernel(
        functions["grid"], 1 << 30, 1, 1, threads, 1, 1, 0, stream, ctypes.addressof(parameters), 0
    )
    assert int(status) == INVALID_VALUE


@pytest.mark.parametrize(
    ("name", "stated", "size"),
    [("plain", None, 1), ("plain", 4, 4), ("plain", 8, 8), ("pairs", None, 2), ("pairs", 2, 2),
     ("sized", 4, 4), ("most4", 4, 4)],
)  # fmt: skip
def test_the_launch_or_the_kernel_states_the_cluster(cuda, kernels, name, stated, size):
    functions, out = kernels
    assert launch(functions[name], out, cluster=stated) == 0
    assert np.array_equal(read(cuda, out), neighbours(size))


@pytest.mark.parametrize(
    ("name", "given"),
    [("plain", {"cluster": 3}), ("plain", {"cluster": 16}), ("plain", {"cluster": (2, 2, 1)}),
     ("plain", {"cluster": (0, 1, 1)}), ("plain", {"cluster": 2, "blocks": 15}),
     ("plain", {"cluster": (65536, 65536, 1)}), ("pairs", {"cluster": 4}),
     ("pairs", {"blocks": 15}), ("sized", {}),
     ("most4", {"cluster": 8}), ("plain", {"cluster": (65536, 65536, 65536)})],
)  # fmt: skip
def test_wrong_clusters_are_refused(cuda, kernels, name, given):
    functions, out = kernels
    assert launch(functions[name], out, **given) == INVALID_CLUSTER
    cuda.cuCtxSynchronize()


def test_the_attributes_of_a_function(cuda, kernels):
    functions, out = kernels
    numbers = range(10, 16)
    found = {
        name: [cuda.cuFuncGetAttribute(A(n), function) for n in numbers]
        for name, function in functions.items()
    }
    assert found == {
        "plain": [0, 0, 0, 0, 0, 0],
        "pairs": [0, 2, 1, 1, 0, 0],
        "sized": [1, 0, 0, 0, 0, 0],
        "most4": [0, 0, 0, 0, 0, 0],
        "grid": [0, 4, 1, 1, 0, 0],
    }
    wide, policy = (
        A.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
        A.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    )
    any_size = A.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    assert bindings.cuFuncSetAttribute(functions["pairs"], wide, 4)[0] == NOT_PERMITTED
    assert bindings.cuFuncSetAttribute(functions["plain"], wide, -1)[0] == INVALID_VALUE
    assert bindings.cuFuncSetAttribute(functions["plain"], policy, 3)[0] == INVALID_VALUE
    for number, value in ((11, 16), (12, 1), (13, 1)):
        cuda.cuFuncSetAttribute(functions["plain"], A(number), value)
    assert launch(functions["plain"], out) == INVALID_CLUSTER  # 16 blocks are not portable
    cuda.cuFuncSetAttribute(functions["plain"], any_size, 1)
    assert launch(functions["plain"], out) == 0
    assert np.array_equal(read(cuda, out), neighbours(16))


def test_occupancy_counts_clusters(cuda, kernels):
    functions, _ = kernels
    plain = functions["plain"]
    # Of clusters a multiprocessor holds 8 blocks (measured on an H100 80GB HBM3, driver 580.159).
    blocks = min(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(plain, THREADS, 0), 8)
    count = cuda.cuDeviceGetAttribute(
        bindings.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0
    )
    assert cuda.cuOccupancyMaxActiveClusters(plain, config(8)) == blocks * count // 8
    assert bindings.cuOccupancyMaxActiveClusters(plain, config(16))[0] == INVALID_CLUSTER
    assert cuda.cuOccupancyMaxActiveClusters(plain, config()) == 0
    for launch_config, status in ((config(3), INVALID_CLUSTER), (config(2), 1), (config(), 1)):
        if status == 1:
            launch_config.gridDimX = 0
        assert bindings.cuOccupancyMaxActiveClusters(plain, launch_config)[0] == status
        assert bindings.cuOccupancyMaxPotentialClusterSize(plain, launch_config)[0] == status
    assert cuda.cuOccupancyMaxActiveClusters(functions["pairs"], config()) == blocks * count // 2
    assert cuda.cuOccupancyMaxPotentialClusterSize(plain, config()) == 8
    assert cuda.cuOccupancyMaxPotentialClusterSize(functions["most4"], config()) == 4
    cuda.cuFuncSetAttribute(plain, A.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
    assert cuda.cuOccupancyMaxPotentialClusterSize(plain, config()) == 16


def test_a_captured_launch_keeps_its_cluster(cuda, kernels):
    functions, out = kernels
    stream = cuda.cuStreamCreate(0)
    cuda.cuStreamBeginCapture(stream, bindings.CUstreamCaptureMode(0))
    made = config(4)
    made.hStream = stream
    cuda.cuLaunchKernelEx(made, functions["plain"], ((int(out),), (ctypes.c_uint64,)), 0)
    graph = cuda.cuStreamEndCapture(stream)
    (node,) = bindings.cuGraphGetNodes(graph, 1)[1]
    value = cuda.cuGraphKernelNodeGetAttribute(node, L.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    assert (value.clusterDim.x, value.clusterDim.y, value.clusterDim.z) == (4, 1, 1)
    for wrong in (3, 16, 32, 1 << 31):
        value.clusterDim.x = wrong
        status = bindings.cuGraphKernelNodeSetAttribute(
            node, L.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value
        )
        assert int(status[0]) == INVALID_CLUSTER
    for size in (4, 2):
        value.clusterDim.x = size
        cuda.cuGraphKernelNodeSetAttribute(node, L.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value)
        ready = cuda.cuGraphInstantiate(graph, 0)
        cuda.cuGraphLaunch(ready, stream)
        cuda.cuStreamSynchronize(stream)
        assert np.array_equal(read(cuda, out), neighbours(size))
