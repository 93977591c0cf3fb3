"""Modules: the inputs of cuModuleLoadData, and its results."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.kernels import ptx_kernels
from support.processes.worker_client import Client, Zygote, running_client
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.address_map import MODULE_BYTES_PER_CONTEXT, MODULE_OFFSET
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import ChunkKind, MessageType
from vgpu_sim.isa import container

VECADD = (Path(__file__).parents[4] / "examples/vecadd.ptx").read_bytes()
HEAD = b".version 7.0\n.target sm_80\n.address_size 64\n"
VARIABLES = (
    HEAD
    + b"""
.global .align 4 .u32 answer = 42;
.global .align 8 .b8 table[5000];
.visible .entry read_answer(.param .u64 output)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [output];
    ld.global.u32 %r1, [answer];
    st.global.u32 [%d1], %r1;
    ret;
}
"""
)
BACKENDS = ["interp", "jit"]


@pytest.fixture(scope="module")
def shared_client(zygote: Zygote) -> Iterator[Client]:
    """A client for images that are refused and have no effect."""
    with running_client(zygote) as client:
        yield client


def elf(machine: int) -> bytes:
    """Return the header of an ELF file for a machine: 190 is CUDA, 62 x86-64."""
    return b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HH", 2, machine) + bytes(44)


def compute(client: Client, kernel: int) -> np.ndarray:
    memory = [client.allocate(4000) for _ in range(3)]
    a, b, c = (np.frombuffer(m.alias, dtype=np.float32)[:1000] for m in memory)
    a[:], b[:] = np.arange(1000), 0.5
    parameters = struct.pack("<QQQi", *(m.address for m in memory), 1000)
    client.wait(0, client.launch(kernel, (4, 1, 1), (256, 1, 1), parameters))
    return c.copy()


@pytest.mark.parametrize(
    ("image", "status", "log"),
    [
        (b"this is not PTX", CudaError.INVALID_PTX, ":1:"),
        (b"\xff\xfe\x00garbage", CudaError.INVALID_PTX, ""),
        (VECADD.replace(b"%f3, %f1", b"%f99, %f1"), CudaError.INVALID_PTX, ":"),
        (VECADD.replace(b"sm_80", b"sm_120"), CudaError.NO_BINARY_FOR_GPU, "sm_120"),
        (elf(190), CudaError.NO_BINARY_FOR_GPU, "the image is a cubin"),
        (elf(62), CudaError.INVALID_IMAGE, "a program or library of the host"),
        (b"\x7fELF", CudaError.INVALID_IMAGE, "a program or library of the host"),
        (b"\x50\xed\x55\xba" + bytes(60), CudaError.INVALID_IMAGE, "fat binary"),
        (
            container.encode(compile_ptx(VECADD, capability=(9, 0)))[:-1],
            CudaError.INVALID_IMAGE,
            "",
        ),
        (b"", CudaError.INVALID_IMAGE, "size"),
    ],
)
def test_an_image_that_cannot_be_loaded(
    shared_client: Client, image: bytes, status: CudaError, log: str
) -> None:
    module = shared_client.load(image)
    assert module.status == status
    assert log in module.log
    assert module.log.endswith("\n")
    assert not module.functions
    assert shared_client.page.error == 0


def test_a_kernel_that_is_not_supported_is_named_and_reported(shared_client: Client) -> None:
    text = HEAD.replace(b"7.0", b"8.0").replace(b"sm_80", b"sm_90a") + (
        b".visible .entry k()\n{\n    pmevent 1;\n    ret;\n}\n.visible .entry other() { ret; }\n"
    )
    line = next(i for i, t in enumerate(text.splitlines(), 1) if b"pmevent" in t)
    container_of = container.encode(compile_ptx(text, capability=(9, 0), partial=True))
    for image in (text, container_of):
        module = shared_client.load(image)
        assert module.status == CudaError.SUCCESS
        assert list(module.functions) == ["other"]
        assert module.refused == {
            "k": f"<ptx>:{line}:5: instruction 'pmevent' is not supported yet\n    pmevent 1;\n"
        }
        assert module.log == f"kernel 'k' cannot be used yet:\n{module.refused['k']}"
        assert shared_client.gpud.event("unsupported_ptx")["message"] == module.log


def test_what_concerns_the_whole_file_refuses_it(shared_client: Client) -> None:
    module = shared_client.load(HEAD.replace(b"64", b"32"))
    assert module.status == CudaError.NOT_SUPPORTED
    assert "a 32-bit .address_size" in module.log


def test_kernels_that_a_backend_cannot_run_are_refused_when_they_are_loaded(
    zygote: Zygote, tmp_path: Path
) -> None:
    deep = ptx_kernels.nested_loops(257).encode()
    images = [deep, container.encode(compile_ptx(deep, capability=(9, 0)))]
    for backend in ("interp", "jit", "jit"):  # once more from the cache
        with running_client(zygote, backend=backend, cache_dir=str(tmp_path)) as client:
            for image in images:
                module = client.load(image)
                assert module.status == CudaError.SUCCESS
                assert list(module.functions) == ([] if backend == "jit" else ["nested"])
                log = module.refused.get("nested", "")
                assert ("more than 256 loops within each other" in log) == (backend == "jit")
            assert client.page.error == 0


@pytest.mark.parametrize("announced", [5, messages.MAX_IMAGE_BYTES + 1, (1 << 64) - 1])
def test_an_image_of_another_size(shared_client: Client, announced: int) -> None:
    descriptor = os.memfd_create("image")
    os.write(descriptor, b"1234")
    payload = bytes(messages.ModuleLoad(image_bytes=announced))
    reply = shared_client.request(MessageType.MODULE_LOAD, payload, (descriptor,))
    os.close(descriptor)
    assert reply.status == CudaError.INVALID_IMAGE


def test_an_image_that_is_no_file(shared_client: Client) -> None:
    reader, writer = os.pipe()
    payload = bytes(messages.ModuleLoad(image_bytes=16))
    reply = shared_client.request(MessageType.MODULE_LOAD, payload, (reader,))
    os.close(reader)
    os.close(writer)
    assert reply.status == CudaError.INVALID_IMAGE


@pytest.mark.parametrize("backend", BACKENDS)
def test_ptx_ends_at_a_nul_and_containers_need_none(zygote: Zygote, backend: str) -> None:
    module = compile_ptx(VECADD, capability=(9, 0))
    with running_client(zygote, backend=backend) as client:
        for image in (VECADD + b"\0trailing", container.encode(module)):
            loaded = client.load(image)
            assert loaded.status == CudaError.SUCCESS, loaded.log
            result = compute(client, loaded.functions["vecadd"].kernel)
            np.testing.assert_array_equal(result, np.arange(1000) + 0.5)


def test_a_container_for_newer_hardware(zygote: Zygote) -> None:
    image = container.encode(compile_ptx(VECADD, capability=(9, 0)))
    with running_client(zygote, capability=(7, 5)) as client:
        module = client.load(image)
        assert module.status == CudaError.NO_BINARY_FOR_GPU
        assert "8.0" in module.log
        assert "7.5" in module.log


def test_the_table_describes_functions(shared_client: Client) -> None:
    module = shared_client.load(
        VECADD.replace(b")\n{", b")\n.maxntid 128, 2, 1\n{")
        + b"\n.visible .entry empty()\n.reqntid 64, 1, 1\n{\n    ret;\n}\n"
    )
    assert module.status == CudaError.SUCCESS, module.log
    vecadd, empty = module.functions["vecadd"], module.functions["empty"]
    assert (vecadd.parameter_first, vecadd.parameter_count, vecadd.parameter_bytes) == (0, 4, 28)
    assert module.parameters == [(0, 8), (8, 8), (16, 8), (24, 4)]
    assert (empty.parameter_count, empty.parameter_bytes) == (0, 0)
    assert (vecadd.max_threads, empty.max_threads) == (256, 64)
    assert tuple(empty.required_block) == (64, 1, 1)
    assert (vecadd.ptx_version, vecadd.binary_version) == (80, 90)  # the architectures
    assert vecadd.registers > 0
    assert vecadd.kernel != empty.kernel


@pytest.mark.parametrize("backend", BACKENDS)
def test_module_variables(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend, context_index=2) as client:
        first, second = client.load(VARIABLES), client.load(VARIABLES)
        base = client.config.aperture_base + MODULE_OFFSET + 2 * MODULE_BYTES_PER_CONTEXT
        answers = [module.variables["answer"][0] for module in (first, second)]
        assert all(base <= address < base + MODULE_BYTES_PER_CONTEXT for address in answers)
        assert answers[0] != answers[1]
        assert first.variables["table"][1] == 5000
        assert client.gpud.used == 2 * 8192
        host = client.allocate(4096, ChunkKind.HOST)
        client.fill(answers[1], 1, 77, 4)
        for place, module in enumerate((first, second)):
            output = struct.pack("<Q", host.address + 4 * place)
            kernel = module.functions["read_answer"].kernel
            client.wait(0, client.launch(kernel, (1, 1, 1), (1, 1, 1), output))
        client.wait(0, client.copy(host.address + 8, answers[1], 4))
        assert struct.unpack("<3I", host.alias[:12]) == (42, 77, 77)
        used = client.gpud.used
        assert client.unload(first) == CudaError.SUCCESS
        assert client.memory_info()[0] == client.gpud.total - used + 8192
        assert client.unload(first) == CudaError.INVALID_HANDLE
        third = client.load(VARIABLES)
        assert third.variables["answer"][0] == answers[0]
        assert third.functions["read_answer"].kernel != first.functions["read_answer"].kernel


ADDRESSES = (
    HEAD
    + b"""
.global .align 8 .u64 places[2] = {generic(table)+8, places};
.global .align 4 .u32 table[4] = {1, 2, 3, 4};
.visible .entry follow(.param .u64 output)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [output];
    ld.global.u64 %d2, [places];
    ld.global.u32 %r1, [%d2];
    st.global.u32 [%d1], %r1;
    ret;
}
"""
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_variables_hold_addresses_of_where_they_lie(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        host = client.allocate(4096, ChunkKind.HOST)
        client.load(VARIABLES)
        module = client.load(ADDRESSES)
        where = module.variables["places"][0]
        client.wait(0, client.copy(host.address + 8, where, 16))
        kernel = module.functions["follow"].kernel
        output = struct.pack("<Q", host.address)
        client.wait(0, client.launch(kernel, (1, 1, 1), (1, 1, 1), output))
        assert struct.unpack("<I4x2Q", host.alias[:24]) == (
            3,
            module.variables["table"][0] + 8,
            where,
        )


BY_ADDRESS = (
    HEAD
    + b"""
.visible .entry pick(.param .u64 output, .param .align 8 .b8 values[64])
{
    .reg .b32 %r<3>;
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [output];
    mov.u32 %r1, %tid.x;
    mov.b64 %d2, values;
    mad.wide.u32 %d2, %r1, 4, %d2;
    ld.param.u32 %r2, [%d2+8];
    mad.wide.u32 %d1, %r1, 4, %d1;
    st.global.u32 [%d1], %r2;
    ret;
}
"""
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_launch_has_its_own_parameters_in_memory(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        host = client.allocate(4096, ChunkKind.HOST)
        client.load(VARIABLES)
        module = client.load(BY_ADDRESS)
        kernel = module.functions["pick"].kernel
        for first in (100, 200, 300):
            values = struct.pack("<Q16I", host.address + first, *range(first, first + 16))
            client.launch(kernel, (1, 1, 1), (8, 1, 1), values)
        client.wait(0, client.copy(host.address, host.address, 8))
        for first in (100, 200, 300):
            found = struct.unpack("<8I", host.alias[first : first + 32])
            assert found == tuple(range(first + 2, first + 10))


def test_variables_are_charged_to_the_slice(zygote: Zygote) -> None:
    with running_client(zygote, budget_bytes=4096) as client:
        module = client.load(VARIABLES)
        assert module.status == CudaError.OUT_OF_MEMORY
        assert client.page.error == 0


def test_more_kernels_than_a_context_can_have_are_refused_and_leave_nothing(zygote: Zygote) -> None:
    kernels = b"".join(b".visible .entry k%d() { ret; }\n" % i for i in range(3000))
    image = container.encode(compile_ptx(HEAD + b".global .u32 v;\n" + kernels, capability=(9, 0)))
    with running_client(zygote) as client:
        modules = [client.load(image) for _ in range(5)]
        assert [module.status for module in modules] == [CudaError.SUCCESS] * 5
        free = client.memory_info()[0]
        for _ in range(3):  # if some of its kernels remained, the loads below would fail
            refused = client.load(image)
            assert refused.status == CudaError.OUT_OF_MEMORY
            assert "kernels" in refused.log
        assert client.memory_info()[0] == free
        assert client.unload(modules[0]) == CudaError.SUCCESS
        assert client.load(image).status == CudaError.SUCCESS


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_modules_are_kept_and_checked(
    zygote: Zygote, backend: str, tmp_path: Path
) -> None:
    expected = np.arange(1000) + 0.5
    for _ in range(2):
        with running_client(zygote, backend=backend, cache_dir=str(tmp_path)) as client:
            kernel = client.load(VECADD).functions["vecadd"].kernel
            np.testing.assert_array_equal(compute(client, kernel), expected)
    entries = list(tmp_path.glob("*.module"))
    assert len(entries) == 1
    intact = entries[0].read_bytes()
    for damaged in (intact[:-1], intact[:100], b"", intact[:-5] + b"\0" + intact[-4:]):
        entries[0].write_bytes(damaged)
        with running_client(zygote, backend=backend, cache_dir=str(tmp_path)) as client:
            kernel = client.load(VECADD).functions["vecadd"].kernel
            np.testing.assert_array_equal(compute(client, kernel), expected)
        assert entries[0].read_bytes() == intact
    assert list(tmp_path.glob("*.new")) == []


def test_the_cache_is_used(zygote: Zygote, tmp_path: Path) -> None:
    """A second load gets a modified entry of the same name."""
    subtracting = VECADD.replace(b"add.f32", b"sub.f32")
    names = []
    for text in (VECADD, subtracting):
        with running_client(zygote, cache_dir=str(tmp_path)) as client:
            assert client.load(text).status == CudaError.SUCCESS
        names.append(next(p for p in tmp_path.glob("*.module") if p not in names))
    names[0].write_bytes(names[1].read_bytes())
    with running_client(zygote, cache_dir=str(tmp_path)) as client:
        kernel = client.load(VECADD).functions["vecadd"].kernel
        np.testing.assert_array_equal(compute(client, kernel), np.arange(1000) - 0.5)
