"""Modules whose kernels are compiled when they are requested."""

import struct
from pathlib import Path

import pytest

from support.processes.worker_client import Client, LoadedModule, Zygote, running_client
from vgpu_sim.compiler import lazy
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import ChunkKind, LoadFlag

PAGE = 4096
TEXT = b"""//%s
.version 8.0
.target sm_90a
.address_size 64
.global .align 4 .u32 shared = 40;
.func (.param .b32 r) plus_two(.param .b32 a)
{
    .reg .b32 %%x<3>;
    ld.param.b32 %%x1, [a];
    add.s32 %%x2, %%x1, 2;
    st.param.b32 [r], %%x2;
    ret;
}
.visible .entry answer(.param .u64 output)
{
    .reg .b32 %%r<3>;
    .reg .b64 %%d<3>;
    ld.param.u64 %%d1, [output];
    ld.global.u32 %%r1, [shared];
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %%r1; call (b), plus_two, (a);
      ld.param.b32 %%r2, [b]; }
    st.global.u32 [shared], %%r2;
    st.global.u32 [%%d1], %%r2;
    ret;
}
.visible .entry counts(.param .u64 output)
.maxntid 64
{
    .global .align 8 .u32 own[3] = {5, 6, 7};
    .reg .b32 %%r<3>;
    .reg .b64 %%d<3>;
    ld.param.u64 %%d1, [output];
    atom.global.add.u32 %%r1, [own+4], 10;
    st.global.u32 [%%d1], %%r1;
    ret;
}
.visible .entry by_address(.param .u64 output)
{
    .reg .b64 %%d<3>;
    mov.b64 %%d1, output;
    cvta.param.u64 %%d1, %%d1;
    ld.u64 %%d2, [%%d1];
    st.global.u32 [%%d2], 77;
    ret;
}
.visible .entry refused() { pmevent 1; ret; }
.visible .entry broken()
{
    mov.b32 %%undeclared, 1;
}
""" % (b"." * lazy.LEAST_BYTES)
NAMES = ["answer", "counts", "by_address", "refused", "broken"]


def load(client: Client, text: bytes = TEXT) -> LoadedModule:
    module = client.load(text, LoadFlag.LAZY)
    assert module.status == CudaError.SUCCESS, module.log
    return module


def run(client: Client, module: LoadedModule, name: str) -> int:
    """Launch a kernel of a lazy module twice; return its second result."""
    host = client.allocate(PAGE, ChunkKind.HOST)
    one = client.load_kernel(module.handle, NAMES.index(name))
    assert (one.status, list(one.functions)) == (CudaError.SUCCESS, [name]), one.log
    parameters = struct.pack("<Q", host.address)
    for _ in range(2):
        value = client.launch(one.functions[name].kernel, (1, 1, 1), (1, 1, 1), parameters)
    client.wait(0, value)
    return int.from_bytes(host.alias[:4], "little")


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_kernels_share_the_variables_of_their_file_and_have_their_own(
    zygote: Zygote, backend: str
) -> None:
    with running_client(zygote, backend=backend) as client:
        before = client.memory_info()[0]
        module = load(client)
        assert list(module.functions) == NAMES
        assert {one.kernel for one in module.functions.values()} == {0}
        address, size = module.variables["shared"]
        assert size == 4
        kept = before - client.memory_info()[0]  # the text, and the segment of the variable
        assert kept == -(-len(TEXT) // PAGE) * PAGE + PAGE
        assert run(client, module, "answer") == 44
        assert run(client, module, "counts") == 16
        assert run(client, module, "by_address") == 77
        other = load(client)
        assert run(client, other, "counts") == 16
        assert other.variables["shared"][0] != address
        assert client.unload(module) == CudaError.SUCCESS
        assert run(client, other, "by_address") == 77
        assert client.unload(other) == CudaError.SUCCESS
        assert before - client.memory_info()[0] == 5 * 2 << 20  # only the chunks of ``run``


def test_a_requested_kernel_is_described_refused_or_invalid(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        module = load(client)
        assert not module.log
        counts = client.load_kernel(module.handle, NAMES.index("counts"))
        again = client.load_kernel(module.handle, NAMES.index("counts"))
        record = counts.functions["counts"]
        assert (record.max_threads, counts.parameters) == (64, [(0, 8)])
        assert again.functions["counts"].kernel == record.kernel
        refused = client.load_kernel(module.handle, NAMES.index("refused"))
        line = TEXT[: TEXT.index(b"pmevent")].count(b"\n") + 1
        assert refused.status == CudaError.SUCCESS
        assert not refused.functions
        assert f":{line}:" in refused.refused["refused"]
        assert client.gpud.event("unsupported_ptx")["message"] == refused.log
        broken = client.load_kernel(module.handle, NAMES.index("broken"))
        assert broken.status == CudaError.INVALID_PTX
        assert "undeclared" in broken.log
        assert client.page.error == 0


def test_other_requests_for_kernels_are_answered_with_an_error(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        module = load(client)
        eager = client.load(TEXT.replace(b"mov.b32 %undeclared, 1;", b"ret;"))
        assert eager.functions["answer"].kernel != 0
        for handle, index in (
            (module.handle, len(NAMES)),
            (module.handle, 0xFFFF_FFFF),
            (eager.handle, 0),
            (eager.handle + 1, 0),
            (0, 0),
        ):
            assert client.load_kernel(handle, index).status == CudaError.INVALID_HANDLE
        assert client.unload(module) == CudaError.SUCCESS
        assert client.load_kernel(module.handle, 0).status == CudaError.INVALID_HANDLE
        assert client.page.error == 0


def test_a_load_without_the_flag_compiles_the_whole_text(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        module = client.load(TEXT)
        assert (module.status, module.functions) == (CudaError.INVALID_PTX, {})
        assert "undeclared" in module.log


def test_a_text_that_the_slice_has_no_room_for_is_not_kept(zygote: Zygote) -> None:
    with running_client(zygote, budget_bytes=len(TEXT)) as client:
        free = client.memory_info()[0]
        assert client.load(TEXT, LoadFlag.LAZY).status == CudaError.OUT_OF_MEMORY
        assert client.memory_info()[0] == free
    with running_client(zygote, budget_bytes=-(-len(TEXT) // PAGE) * PAGE) as client:
        free = client.memory_info()[0]
        assert client.load(TEXT, LoadFlag.LAZY).status == CudaError.OUT_OF_MEMORY
        assert client.memory_info()[0] == free


def test_kernels_are_cached_one_by_one(zygote: Zygote, tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        with running_client(zygote, cache_dir=str(tmp_path)) as client:
            results.append(run(client, load(client), "counts"))
    assert results == [16, 16]
    assert len(list(tmp_path.glob("*.module"))) == 1
