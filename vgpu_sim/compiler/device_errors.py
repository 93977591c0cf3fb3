"""Names and texts of the errors that the device runtime returns (``device_runtime.ptx``)."""

from collections.abc import Iterator
from typing import Final

_ERRORS: Final = (
    (0, "cudaSuccess", "no error"),
    (1, "cudaErrorInvalidValue", "invalid argument"),
    (2, "cudaErrorMemoryAllocation", "out of memory"),
    (9, "cudaErrorInvalidConfiguration", "invalid configuration argument"),
    (65, "cudaErrorLaunchMaxDepthExceeded", "launch max depth exceeded"),
    (69, "cudaErrorLaunchPendingCountExceeded", "launch pending count exceeded"),
    (98, "cudaErrorInvalidDeviceFunction", "invalid device function"),
    (400, "cudaErrorInvalidResourceHandle", "invalid resource handle"),
    (801, "cudaErrorNotSupported", "operation not supported"),
)
_UNKNOWN: Final = "unrecognized error code"


def ptx_text() -> str:
    """Return the functions cudaGetErrorName and cudaGetErrorString."""
    names = {code: name for code, name, _ in _ERRORS}
    texts = {code: text for code, _, text in _ERRORS}
    parts = (
        *_yield_function("cudaGetErrorName", names),
        *_yield_function("cudaGetErrorString", texts),
    )
    return "\n".join(parts) + "\n"


def _yield_function(function: str, words: dict[int, str]) -> Iterator[str]:
    offsets, data = {}, b""
    for code, word in (*words.items(), (-1, _UNKNOWN)):
        offsets[code] = len(data)
        data += word.encode("ascii") + b"\0"
    table = f"__tessera_{function}"
    yield f".global .align 1 .b8 {table}[] = {{{', '.join(map(str, data))}}};"
    yield f".func (.param .b64 text) {function}(.param .b32 error)"
    yield "{\n  .reg .pred %p;\n  .reg .b32 %error;\n  .reg .b64 %base, %at;"
    yield f"  ld.param.b32 %error, [error];\n  mov.b64 %base, {table};"
    yield f"  cvta.global.u64 %base, %base;\n  mov.b64 %at, {offsets.pop(-1)};"
    for code, offset in offsets.items():
        yield f"  setp.eq.b32 %p, %error, {code};\n  selp.b64 %at, {offset}, %at, %p;"
    yield "  add.u64 %base, %base, %at;\n  st.param.b64 [text], %base;\n  ret;\n}"
