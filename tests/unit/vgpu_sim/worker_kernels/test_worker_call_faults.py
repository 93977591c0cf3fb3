"""Contexts that end by calls and local memory: both backends report the same error and line."""

import struct

import numpy as np
import pytest

from support.processes.worker_client import Zygote, running_client
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.compiler.lower.stack import program
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.cuda import CudaError

_SOURCE = """.version 8.0
.target sm_80
.address_size 64
.func (.reg .u32 r) deep(.reg .u32 n)
{
    .reg .u32 %a;
    add.u32 %a, n, 1;
    call (%a), deep, (%a);
    add.u32 r, %a, n;
    ret;
}
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .local .align 4 .b8 own[64];
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    cvt.u64.u32 %rd2, %r1;
    mov.u64 %rd3, own;
    add.u64 %rd3, %rd3, %rd2;
    mov.u32 %r2, %tid.x;
    BODY
    st.global.u32 [%rd1], %r2;
    ret;
    proto: .callprototype (.reg .u32 _) _ (.reg .u32 _);
}
"""


@pytest.mark.parametrize("backend", ["interp", "jit"])
@pytest.mark.parametrize(
    ("body", "n", "kind", "error", "words"),
    [
        ("st.local.u32 [%rd3], %r2;", 64, "ADDRESS", "ILLEGAL_ADDRESS", "ST.LOCAL.U32"),
        ("st.local.u32 [%rd3], %r2;", 6, "MISALIGNED", "MISALIGNED_ADDRESS", "ST.LOCAL.U32"),
        ("call (%r2), deep, (%r2);", 0, "STACK", "HARDWARE_STACK_ERROR", "a thread's stack"),
        (
            "call (%r2), %rd2, (%r2), proto;",
            7,
            "FUNCTION",
            "INVALID_PC",
            "does not hold a callable function",
        ),
    ],
)
def test_a_context_dies_where_its_program_went_wrong(
    zygote: Zygote, backend: str, body: str, n: int, kind: str, error: str, words: str
) -> None:
    source = _SOURCE.replace("BODY", body)
    line = 1 + next(i for i, text in enumerate(source.splitlines()) if body in text)
    line = 8 if kind == "STACK" else line  # the call within the function
    with running_client(zygote, backend=backend) as client:
        kernel = client.load(source.encode()).functions["k"].kernel
        memory = client.allocate(4096)
        client.launch(kernel, (2, 1, 1), (64, 1, 1), struct.pack("<QI", memory.address, n))
        page = client.wait_for_error()
        assert (page.error, page.fault.kind) == (CudaError[error], FaultKind[kind])
        assert page.fault.ptx_line == line
        assert words in page.fault.message.decode()


@pytest.mark.parametrize("backend", ["interp", "jit"])
@pytest.mark.parametrize("wait", ["", "bar.sync 0;\n"])
def test_a_context_dies_where_its_program_has_no_local_memory(
    zygote: Zygote, backend: str, wait: str
) -> None:
    body = f"{wait}ld.local.u32 %r2, [64];"
    source = _SOURCE.replace("    .local .align 4 .b8 own[64];\n", "")
    source = source.replace("    mov.u64 %rd3, own;\n", "").replace("BODY", body)
    with running_client(zygote, backend=backend) as client:
        kernel = client.load(source.encode()).functions["k"].kernel
        memory = client.allocate(4096)
        client.launch(kernel, (2, 1, 1), (64, 1, 1), struct.pack("<QI", memory.address, 0))
        page = client.wait_for_error()
        assert (page.error, page.fault.kind) == (CudaError.ILLEGAL_ADDRESS, FaultKind.ADDRESS)
        assert "LD.LOCAL.U32" in page.fault.message.decode()


_DRIVER = """.version 8.0
.target sm_80
.address_size 64
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,
                           .param .b64 e);
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func free(.param .b64 a);
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .b64 %a;
    .reg .b32 %n, %r;
    .param .b64 p;
    .param .b32 c;
    ld.param.u64 %a, [out];
    ld.param.u32 %n, [n];
    st.param.b64 [p], 8;
    st.param.b32 [c], 77;
    BODY
    ret;
}
"""


@pytest.mark.parametrize("jumps", [False, True])
@pytest.mark.parametrize(
    "body",
    ["call __assertfail, (p, p, c, p, p);", "call (%r), vprintf, (p, p);", "call free, (p);"],
)
def test_what_goes_wrong_in_the_drivers_functions_has_the_line_of_the_call(
    body: str, jumps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If such a function is jumped to, the line is that of its declaration in the program."""
    if jumps:
        monkeypatch.setattr(program, "MAX_INLINE_STATEMENTS", 0)
    text = _DRIVER.replace("BODY", body)
    module = compile_ptx(text, capability=(9, 0))
    lines = text.splitlines()
    called = 1 + next(n for n, line in enumerate(lines) if body in line)
    name = next(word for word in ("__assertfail", "vprintf", "free") if word in body)
    declared = 1 + next(n for n, line in enumerate(lines) if name in line)
    known = set(module.functions[0].lines[1:])  # code before the first statement has none
    assert 0 not in known
    assert called in known
    assert (declared in known) == jumps
    kernel = 1 + next(n for n, line in enumerate(lines) if ".entry" in line)
    assert {line for line in known if line < kernel} <= {declared}


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_an_assertion_dies_at_its_line(zygote: Zygote, backend: str) -> None:
    source = _DRIVER.replace("BODY", "call __assertfail, (p, p, c, p, p);")
    line = 1 + next(n for n, text in enumerate(source.splitlines()) if "call " in text)
    with running_client(zygote, backend=backend) as client:
        kernel = client.load(source.encode()).functions["k"].kernel
        memory = client.allocate(4096)
        client.launch(kernel, (2, 1, 1), (64, 1, 1), struct.pack("<QI", memory.address, 0))
        page = client.wait_for_error()
        assert (page.fault.kind, page.fault.ptx_line) == (FaultKind.ASSERTION, line)


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_local_memory_and_recursion_in_a_worker(zygote: Zygote, backend: str) -> None:
    source = _SOURCE.replace(
        "    call (%a)", "    .reg .pred %p;\n setp.gt.u32 %p, n, 9;\n    @!%p call (%a)"
    )
    body = "st.local.u32 [%rd3], %r2; ld.local.u32 %r2, [%rd3]; call (%r2), deep, (%r1);"
    source = source.replace("BODY", body)
    with running_client(zygote, backend=backend) as client:
        kernel = client.load(source.encode()).functions["k"].kernel
        memory = client.allocate(4096)
        parameters = struct.pack("<QI", memory.address, 4)
        client.wait(0, client.launch(kernel, (64, 1, 1), (64, 1, 1), parameters))
        found = int(np.frombuffer(memory.alias, dtype=np.uint32)[0])
        assert found == sum(range(4, 11)) + 11
