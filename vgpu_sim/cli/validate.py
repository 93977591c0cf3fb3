"""``tessera validate``: checks that a CUDA program can compute here, through libcuda.so.1."""

import ctypes
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

LIBRARY: Final = "libcuda.so.1"
ELEMENTS: Final = 1 << 16
_BLOCK: Final = 256
# y[i] = 3 * x[i] + i in integers, so that every element has one exact value.
PTX: Final = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry triple(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n];
    setp.ge.u32 %p, %r4, %r5;
    @%p bra done;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mul.wide.u32 %rd3, %r4, 4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.u32 %r6, [%rd4];
    mad.lo.u32 %r7, %r6, 3, %r4;
    add.u64 %rd5, %rd2, %rd3;
    st.global.u32 [%rd5], %r7;
done:
    ret;
}
"""


class Failed(Exception):
    """The validation failed; the message is the reason."""


@click.command("validate", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Compute on the GPU that this process sees, and verify every element.

    Run it in a pod with a slice, or inside `tessera run`. Exit status: 0 all elements are right;
    1 otherwise, with the reason.
    """
    try:
        report = validate()
    except Failed as err:
        _leave_word(str(err))
        raise click.ClickException(str(err)) from err
    _leave_word(report)
    click.echo(report)


def validate(library: str = LIBRARY) -> str:
    """Return one line that states what was computed, and on which device.

    Raises:
        Failed: the driver is missing, a call failed, or a result is wrong.
    """
    try:
        call = _caller(ctypes.CDLL(library))
    except OSError as err:
        raise Failed(
            f"cannot load the CUDA driver: {err}; use a pod with a slice, or `tessera run`"
        ) from err
    device, context = ctypes.c_int(), ctypes.c_void_p()
    name = ctypes.create_string_buffer(256)
    call("cuInit", ctypes.c_uint(0))
    call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
    call("cuDeviceGetName", name, ctypes.c_int(len(name)), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    try:
        wrong = _wrong_elements(call)
    finally:
        call("cuDevicePrimaryCtxRelease_v2", device)
    if wrong:
        raise Failed(f"{wrong} of {ELEMENTS} elements are wrong on {name.value.decode()}")
    return f"{ELEMENTS} elements computed and verified on {name.value.decode()}"


def _wrong_elements(call: Callable[..., None]) -> int:
    inputs = array("I", range(7, 7 + ELEMENTS))
    results = array("I", bytes(4 * ELEMENTS))
    size = ctypes.c_size_t(4 * ELEMENTS)
    x, y = ctypes.c_uint64(), ctypes.c_uint64()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    for pointer in (x, y):
        call("cuMemAlloc_v2", ctypes.byref(pointer), size)
    call("cuMemcpyHtoD_v2", x, ctypes.c_void_p(inputs.buffer_info()[0]), size)
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
    call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"triple"))
    arguments = (x, y, ctypes.c_uint(ELEMENTS))
    addresses = (ctypes.c_void_p * 3)(*(ctypes.addressof(argument) for argument in arguments))
    unit, shared_bytes = ctypes.c_uint(1), ctypes.c_uint(0)
    grid, block = ctypes.c_uint(ELEMENTS // _BLOCK), ctypes.c_uint(_BLOCK)
    call(
        "cuLaunchKernel",
        function,
        grid,
        unit,
        unit,
        block,
        unit,
        unit,
        shared_bytes,
        ctypes.c_void_p(),
        addresses,
        ctypes.c_void_p(),
    )
    call("cuMemcpyDtoH_v2", ctypes.c_void_p(results.buffer_info()[0]), y, size)
    for pointer in (x, y):
        call("cuMemFree_v2", pointer)
    pairs = enumerate(zip(inputs, results, strict=True))
    return sum(result != 3 * value + i for i, (value, result) in pairs)


def _caller(library: ctypes.CDLL) -> Callable[..., None]:
    def call(name: str, *arguments: Any) -> None:
        status = getattr(library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            library.cuGetErrorName(status, ctypes.byref(text))
            raise Failed(f"{name}: {(text.value or str(status).encode()).decode()}")

    return call


def _leave_word(text: str) -> None:
    """Write the text to the container's termination message, which Kubernetes shows."""
    path = Path("/dev/termination-log")
    if path.exists():
        path.write_text(text, encoding="utf-8")
