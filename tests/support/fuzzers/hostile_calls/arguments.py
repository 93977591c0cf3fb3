"""Random arguments for a function of a client library, by the types of its prototype.

Pointers are NULL or point into memory of this process, at any alignment. Handles are live, freed,
of another kind, or no handles at all. Sizes and numbers are small, at limits, or enormous.
"""

import ctypes
import mmap
import random
import re
from collections.abc import Sequence

from support.fuzzers.hostile_calls import structures
from vgpu_sim.clients.codegen.library import Function, Parameter

ARENA_BYTES = 8 << 20
SLOT_BYTES = 4096
_MOST_KEPT = 12
_NUMBERS = (0, 0, 1, 1, 2, 3, 4, 8, 16, 64, 255, 256, 4096)
_WIDE = (
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
_SKIPS = (0, 0, 0, 1, 4, 255, 4096)
_WORDS = (
    "",
    "kernel",
    "counter",
    "cuInit",
    "cuStreamQuery",
    "absent",
    "0000:00:00.0",
    "x" * 300,
    "%s%n",
)
_CALLBACKS = {
    "CUhostFn", "CUstreamCallback", "CUlogsCallback", "CUoccupancyB2DSize", "cudaHostFn_t",
    "cudaStreamCallback_t", "cudaLogsCallback_t", "cudaAsyncCallback",
}  # fmt: skip
_STRUCTURES = {
    "struct dim3": 12,
    "struct cudaExtent": 24,
    "struct cudaPitchedPtr": 32,
    "struct cudaMemLocation": 8,
    "CUmemLocation": 8,
    "struct CUipcHandle": 64,
}
# Copies between any two addresses, also of the host.
_HOST_OR_DEVICE = re.compile(r"cuMemcpy(Async|WithAttributesAsync)?(_ptds|_ptsz)?$")
# The driver's and the runtime's names of one kind of handle.
_KINDS = {
    "cudaStream_t": "CUstream", "cudaEvent_t": "CUevent", "cudaGraph_t": "CUgraph",
    "cudaGraphExec_t": "CUgraphExec", "cudaGraphNode_t": "CUgraphNode", "cudaMemPool_t": "CUmemoryPool",
    "cudaLibrary_t": "CUlibrary", "cudaKernel_t": "CUkernel", "cudaFunction_t": "CUfunction",
    "cudaUserObject_t": "CUuserObject", "cudaExecutionContext_t": "CUcontext",
}  # fmt: skip


@ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
def do_nothing(*_arguments: int) -> None:
    """Stand for any callback."""


def kind_of(type_name: str) -> str:
    """Return the name of a kind of handle, whichever library names it."""
    return _KINDS.get(type_name, type_name)


class Arguments:
    """Random arguments, and the values that earlier calls have returned."""

    def __init__(self, seed: int, image: bytes) -> None:
        self._random = random.Random(seed)
        self._arena = mmap.mmap(-1, ARENA_BYTES)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._arena))
        self._handles: dict[str, list[int]] = {}
        self._next_slot = 0
        self._images = [self._text(image)]
        self._callback = ctypes.cast(do_nothing, ctypes.c_void_p).value or 0
        self._sources = structures.Sources(
            self._number,
            lambda: self._random.choice(_NUMBERS),
            lambda: self._random.choice((0, self._start + self._slot())),
            lambda: self._list_of("pointer"),
            self._handle,
            self._address,
            self._callback,
        )
        self.host_names: list[int] = []  # addresses of registered kernels and variables

    def keep(self, kind: str, value: int) -> None:
        """Remember a value that a call has returned; it stays when it is freed."""
        kept = self._handles.setdefault(kind, [])
        if len(kept) < _MOST_KEPT:
            kept.append(value)
        else:
            kept[self._random.randrange(_MOST_KEPT)] = value

    def handles_of(self, kind: str) -> Sequence[int]:
        """Return the remembered values of a kind."""
        return tuple(self._handles.get(kind, ()))

    def choose(
        self, functions: Sequence[Function], others: Sequence[Function], share: float
    ) -> Function:
        """Return one of the functions, or, in this share of the calls, one of the others."""
        return self._random.choice(others if self._random.random() < share else functions)

    def forget(self) -> None:
        """Forget all values."""
        self._handles.clear()

    def _slot(self) -> int:
        """Return the offset of a slot in the middle half of the arena."""
        slots = ARENA_BYTES // SLOT_BYTES
        self._next_slot = (self._next_slot + 1) % (slots // 2)
        return (slots // 4 + self._next_slot) * SLOT_BYTES

    def _put(self, content: bytes) -> int:
        offset = self._slot()
        self._arena[offset : offset + len(content)] = content
        return self._start + offset

    def _text(self, text: bytes) -> int:
        return self._put(text + b"\0")

    def _any(self) -> int:
        """Return a device address or a handle of any kind."""
        lists = [kept for kept in self._handles.values() if kept]
        return self._random.choice(self._random.choice(lists)) if lists else 0

    def _word(self) -> int:
        """Return one word of a structure."""
        choice = self._random.random()
        if choice < 0.5:
            return self._random.choice(_NUMBERS)
        if choice < 0.75:
            return self._any()
        if choice < 0.95:
            return self._start + self._random.randrange(ARENA_BYTES // 4, ARENA_BYTES // 2)
        return self._random.choice(_WIDE)

    def _structure(self, words: int) -> bytes:
        values = [self._word() for _ in range(words)]
        if self._random.random() < 0.3:  # pairs of 32-bit numbers
            values = [one & 0xFFFFFFFF | self._random.choice(_NUMBERS) << 32 for one in values]
        return b"".join(value.to_bytes(8, "little") for value in values)

    def _filled(self) -> int:
        """Return the address of a slot with random content, at any alignment."""
        offset = self._slot()
        if self._random.random() < 0.7:
            self._arena[offset : offset + 256] = self._structure(32)
        else:
            self._arena[offset : offset + 256] = bytes(256)
        skip = self._random.choice((0, 0, 0, 0, 1, 2, 4, 7)) if self._random.random() < 0.3 else 0
        return self._start + offset + skip

    def _list_of(self, kind: str) -> int:
        """Return the address of a list of handles, of addresses, or of pointers to slots."""
        offset = self._slot()
        kept = self._handles.get(kind) or [0]
        values = [
            self._start + self._slot() if kind == "pointer" else self._random.choice(kept)
            for _ in range(16)
        ]
        self._arena[offset : offset + 128] = b"".join(one.to_bytes(8, "little") for one in values)
        return self._start + offset

    def _pointer(self, function: Function, parameter: Parameter) -> int:
        name, pointee = parameter.name, parameter.type.removesuffix("*").rstrip()
        if self._random.random() < 0.1:
            return 0
        if name in ("image", "code", "fatCubin") or (
            name == "data" and "Module" in function.symbol
        ):
            return (
                self._random.choice(self._images) if self._random.random() < 0.7 else self._filled()
            )
        if parameter.type == "const char *":
            return self._text(self._random.choice(_WORDS).encode())
        if name in (
            "kernelParams",
            "args",
            "jitOptionsValues",
            "optionValues",
            "libraryOptionValues",
        ):
            return self._list_of("pointer")
        if name in ("func", "entryFuncAddr", "symbol", "symbolPtr", "hostFun") and self.host_names:
            return self._random.choice((*self.host_names, self._any()))
        if (
            parameter.type in ("void *", "const void *")
            and name in ("dst", "src", "devPtr", "ptr", "dptr")
            and function.symbol.startswith("cuda")  # whose addresses of the device are pointers
            and self._random.random() < 0.6
        ):
            return self._random.choice(
                self.handles_of("CUdeviceptr") or (0,)
            ) + self._random.choice(_SKIPS)
        bare = kind_of(pointee.removeprefix("const ").strip())
        if pointee in ("size_t", "unsigned int"):  # it may count the elements of another argument
            return self._put(self._random.choice(_NUMBERS).to_bytes(8, "little"))
        body = structures.BY_TYPE.get(bare) or structures.BY_NAME.get(name)
        if body:
            return self._put(body(self._sources))
        if "const" in parameter.type and bare in self._handles:
            return self._list_of(bare)
        if parameter.type in ("void **", "CUdeviceptr *", "void *const *", "const void *const *"):
            return self._list_of("CUdeviceptr" if "CUdeviceptr" in parameter.type else "pointer")
        return self._filled()

    def _address(self) -> int:
        kept = self._handles.get("CUdeviceptr")
        choice = self._random.random()
        if kept and choice < 0.7:
            return self._random.choice(kept) + self._random.choice(_SKIPS)
        return self._number() if choice < 0.85 else self._any()

    def _number(self) -> int:
        return self._random.choice(_NUMBERS if self._random.random() < 0.85 else _WIDE)

    def _handle(self, kind: str) -> int:
        choice = self._random.random()
        kept = self._handles.get(kind)
        if kept and choice < 0.75:
            return self._random.choice(kept)
        if choice < 0.85:
            return self._any()
        return self._random.choice((0, 1, 2, 3, 1 << 32, self._random.getrandbits(64)))

    def _value(self, function: Function, parameter: Parameter) -> object:
        kind = parameter.type
        if kind in _STRUCTURES:
            size = _STRUCTURES[kind]
            words = self._structure(-(-size // 8))
            return (ctypes.c_uint32 * (size // 4)).from_buffer_copy(words[:size])
        if "*" in kind:
            return ctypes.c_uint64(self._pointer(function, parameter))
        if kind in _CALLBACKS:
            return ctypes.c_uint64(self._callback if self._random.random() < 0.9 else 0)
        if kind == "CUdeviceptr" and _HOST_OR_DEVICE.match(function.symbol):
            place = self._random.choice(
                (*self.handles_of("CUdeviceptr"), self._start + self._slot())
            )
            return ctypes.c_uint64(place)
        if kind == "CUdeviceptr":
            return ctypes.c_uint64(self._address() & (1 << 64) - 1)
        if kind == "float":
            return ctypes.c_float(self._random.choice((0.0, 1.5, -1.0, float("nan"))))
        if kind_of(kind) in self._handles or (kind[:2] in ("CU", "cu") and kind.endswith("_t")):
            return ctypes.c_uint64(self._handle(kind_of(kind)))
        if parameter.name.startswith(("num", "count")):  # the elements of a list
            return ctypes.c_uint64(self._random.choice(_NUMBERS))
        return ctypes.c_uint64(self._number() & (1 << 64) - 1)

    def make(self, function: Function) -> list[object]:
        """Return the arguments of one call."""
        return [_by_value(self._value(function, one)) for one in function.parameters]

    def read_results(self, function: Function, arguments: Sequence[object]) -> None:
        """Keep what a successful call has stored where its arguments point."""
        for parameter, value in zip(function.parameters, arguments, strict=True):
            if not parameter.type.endswith("*") or "const" in parameter.type:
                continue
            pointee = kind_of(parameter.type.removesuffix("*").rstrip())
            if pointee == "void *":
                pointee = "CUdeviceptr"
            at = getattr(value, "value", 0)
            if pointee in self._handles and self._start <= at < self._start + ARENA_BYTES - 8:
                offset = at - self._start
                found = int.from_bytes(self._arena[offset : offset + 8], "little")
                if found:
                    self.keep(pointee, found)


def _by_value(value: object) -> object:
    """Return an array of words as a structure, because C passes no arrays."""
    if not isinstance(value, ctypes.Array):
        return value

    class Structure(ctypes.Structure):
        _fields_ = (("words", type(value)),)

    made = Structure()
    made.words = value
    return made
