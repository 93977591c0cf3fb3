"""Calls of a C library, whose statuses and results become rows that can be compared."""

import ctypes
import ctypes.util
import os
from typing import Any

UNTOUCHED = 0x7777_7777_7777_7777
MASK = (1 << 64) - 1


class Out:
    """Eight bytes for a result, which hold a pattern until the library writes them.

    ``shown`` is how a row shows the result: ``u64``, ``u32``, ``i32``, ``f32``, ``handle`` (only
    whether it is written, and null), or ``-`` (not at all).
    """

    def __init__(self, form: str = "handle") -> None:
        self.cell = ctypes.c_uint64(UNTOUCHED)
        self.shown = form

    @property
    def value(self) -> int:
        return self.cell.value

    @property
    def address(self) -> int:
        return ctypes.addressof(self.cell)

    def show(self) -> Any:
        """Return what a row shows."""
        if self.value == UNTOUCHED:
            return "unwritten"
        match self.shown:
            case "u32":
                return self.value & 0xFFFF_FFFF
            case "i32":
                return ctypes.c_int32(self.value & 0xFFFF_FFFF).value
            case "f32":
                return ctypes.cast(self.address, ctypes.POINTER(ctypes.c_float))[0]
            case "u64":
                return self.value
            case "handle":
                return "made" if self.value else "null"
        return None


class Api:
    """A library whose functions take numbers, bytes, ``Out`` and ctypes objects."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.rows: list[list[Any]] = []
        self.kept: list[Any] = []
        self.streams: list[int] = []
        """Streams of the primary context that are not destroyed yet."""
        self.primary = 0

    def __call__(self, name: str, *arguments: Any) -> int:
        """Call a function, append the row of its status and results, and return the status."""
        status, outs = self.call(name, *arguments)
        results = [out.show() for out in outs if out.shown != "-"]
        self.rows.append([name, status, *results])
        return status

    def call(self, name: str, *arguments: Any) -> tuple[int, list[Out]]:
        """Call a function without a row; the status is -1 if the library does not export it."""
        try:
            function = getattr(self.library, name)
        except AttributeError:
            return -1, []
        words, outs = [], []
        for argument in arguments:
            if isinstance(argument, Out):
                outs.append(argument)
                words.append(ctypes.c_uint64(argument.address))
            elif isinstance(argument, bytes):
                text = ctypes.create_string_buffer(argument)
                self.kept.append(text)
                words.append(ctypes.c_uint64(ctypes.addressof(text)))
            elif isinstance(argument, ctypes.Array | ctypes.Structure):
                self.kept.append(argument)
                words.append(ctypes.c_uint64(ctypes.addressof(argument)))
            else:
                words.append(ctypes.c_uint64(int(argument or 0) & MASK))
        status = function(*words)
        if not status and name.startswith(("cuStreamCreate", "cuStreamDestroy")):
            self._follow(name, outs[0].value if outs else words[0].value)
        return status, outs

    def _follow(self, name: str, stream: int) -> None:
        current = ctypes.c_uint64()
        self.library.cuCtxGetCurrent(ctypes.byref(current))
        if name.startswith("cuStreamDestroy"):
            self.streams = [live_stream for live_stream in self.streams if live_stream != stream]
        elif current.value == self.primary:
            self.streams.append(stream)

    def make(self, name: str, *arguments: Any) -> int:
        """Call a function whose first argument is its result, and return the result (or 0)."""
        out = Out()
        status, _ = self.call(name, out, *arguments)
        if status:
            self.rows.append([name, status, "not made"])
            return 0
        return out.value

    def note(self, name: str, *values: Any) -> None:
        """Append a row of any values."""
        self.rows.append([name, *values])

    def take(self) -> list[list[Any]]:
        """Return the rows, and begin anew."""
        rows, self.rows = self.rows, []
        return rows


def driver() -> Api:
    """Return the driver that programs find."""
    return Api(ctypes.CDLL("libcuda.so.1"))


def runtime() -> Api | None:
    """Return a CUDA runtime of version 13 or 12, or None if there is none."""
    places = os.environ.get("SILICON_CUDART", "").split(":")
    for name in (*filter(None, places), "libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            return Api(ctypes.CDLL(name))
        except OSError:
            continue
    return None


def words(*values: int) -> Any:
    """Return an array of 32-bit numbers."""
    return (ctypes.c_uint32 * max(len(values), 1))(*(value & 0xFFFF_FFFF for value in values))


def longs(*values: int) -> Any:
    """Return an array of 64-bit numbers."""
    return (ctypes.c_uint64 * max(len(values), 1))(*(value & MASK for value in values))
