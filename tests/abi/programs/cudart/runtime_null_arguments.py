"""Call each implemented runtime function with null pointers and numbers 0 or 1, which must fail or
do nothing. Argument 1 is the major version; the last line is printed if no call ended the process.
"""

import ctypes
import sys

from vgpu_sim.clients.codegen.library import Parameter, load
from vgpu_sim.native import catalogue

# These end the context, or return a structure, which ctypes would have to know.
LEFT_OUT = {"cudaDeviceReset", "cudaThreadExit", "cudaCreateChannelDesc"}
STRUCTURE_BYTES = {
    "struct dim3": 12,
    "struct cudaExtent": 24,
    "struct cudaPitchedPtr": 32,
    "struct cudaMemLocation": 8,
    "struct CUipcHandle": 64,
}


def argument(parameter: Parameter, number: int) -> object:
    """Return a null pointer, a number, or a structure of zeros."""
    if parameter.type in STRUCTURE_BYTES:
        kind = type(
            "Zeros",
            (ctypes.Structure,),
            {"_fields_": [("words", ctypes.c_uint * (STRUCTURE_BYTES[parameter.type] // 4))]},
        )
        return kind()
    if parameter.type in ("size_t", "unsigned long long"):
        return ctypes.c_size_t(number)
    if parameter.type in ("int", "unsigned int"):
        return ctypes.c_int(number)
    return ctypes.c_void_p(0)


def main() -> None:
    """Call all functions."""
    major = int(sys.argv[1])
    library = ctypes.CDLL(f"libcudart.so.{major}")
    calls = 0
    for function in load(catalogue.CLIENTS / "libcudart", major).functions:
        if not function.kind or function.symbol in LEFT_OUT:
            continue
        for number in (0, 1):
            print(function.symbol, number, flush=True)
            arguments = [argument(one, number) for one in function.parameters]
            status = getattr(library, function.symbol)(*arguments)
            results = [one for one in function.parameters if one.type.endswith("**")]
            is_registration = function.symbol.startswith("__cuda")
            assert status != 0 or not results or is_registration, function.symbol
            calls += 1
    assert library.cudaFree(None) == 0, "the context must still work"
    print("calls", calls > 600)


if __name__ == "__main__":
    main()
