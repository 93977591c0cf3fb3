"""Random allocations, copies, fills and frees, compared with a shadow in host memory.

Arguments of the program: ``seed=1 n=100000``. It needs slices: ``make fuzz memory=1``.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

INVALID_VALUE: Final = 1
MIB: Final = 1 << 20
_SIZES: Final = (1, 7, 255, 256, 300, 4096, 5000, 70_000, 600_000, MIB, 2 * MIB, 3 * MIB + 5)
_MOST_LIVE: Final = 24
_UNIT: Final = 2 * MIB
_SECRET: Final = 0xA5


class MismatchError(Exception):
    """The driver's memory differs from the shadow, or a call has a wrong result."""


@dataclass(slots=True)
class Block:
    """A live allocation and its expected content."""

    kind: str
    pointer: int
    shadow: np.ndarray
    handle: int = 0


class Shadow:
    """A sequence of random operations in one context; ``driver`` is ``cuda.bindings.driver``.

    The operations run in several streams. An event orders each after the one before it, so the
    shadow can be changed at once.
    """

    def __init__(self, driver: Any, seed: int) -> None:
        self._driver = driver
        self._random = random.Random(seed)
        self._live: list[Block] = []
        self._context = self._call("cuCtxCreate", None, 0, 0)
        self._streams = [0, *(int(self._call("cuStreamCreate", flag)) for flag in (0, 1, 1))]
        self._event = self._call("cuEventCreate", 2)
        self._last = 0
        self._pools = [self._new_pool(threshold) for threshold in (0, 8 * MIB, (1 << 64) - 1)]
        self._free_before = int(self._call("cuMemGetInfo")[0])
        self.counts: dict[str, int] = {}

    def run(self, steps: int) -> None:
        """Carry out ``steps`` random operations, then free everything and look for leaks.

        Raises:
            MismatchError: a byte or a result is wrong, or memory is missing at the end.
        """
        operations: tuple[tuple[Callable[[], None], int], ...] = (
            (self._allocate, 20),
            (self._free, 14),
            (self._fill, 20),
            (self._fill_rectangle, 8),
            (self._copy, 30),
            (self._copy_rectangle, 10),
            (self._read, 12),
            (self._write, 12),
            (self._misuse, 6),
            (self._synchronize, 3),
        )
        chosen = [operation for operation, weight in operations for _ in range(weight)]
        for step in range(steps):
            operation = self._random.choice(chosen)
            if operation == self._allocate or self._live:
                operation()
                name = operation.__name__.strip("_")
                self.counts[name] = self.counts.get(name, 0) + 1
            if step % 5000 == 4999:
                self._look_as_another_owner()
        self._finish()

    def _finish(self) -> None:
        while self._live:
            block = self._live[-1]
            self._check(block, 0, len(block.shadow))
            self._free()
        self._call("cuCtxSynchronize")
        for pool in self._pools:
            self._call("cuMemPoolTrimTo", pool, 0)
            self._call("cuMemPoolDestroy", pool)
        kept = self._free_before - int(self._call("cuMemGetInfo")[0])
        self._call("cuCtxDestroy", self._context)
        if kept > 6 * _UNIT:  # at most one empty chunk of small blocks for each sort of memory
            raise MismatchError(f"{kept} bytes are missing at the end")

    def _code(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._driver, name)(*arguments)[0])

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *results = getattr(self._driver, name)(*arguments)
        if int(status):
            raise MismatchError(f"{name}{arguments} returned {status!r}")
        return results[0] if len(results) == 1 else tuple(results)

    def _new_pool(self, threshold: int) -> Any:
        props = self._driver.CUmemPoolProps()
        props.allocType = self._driver.CUmemAllocationType(1)
        props.location.type = self._driver.CUmemLocationType(1)
        pool = self._call("cuMemPoolCreate", props)
        which = self._driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._call("cuMemPoolSetAttribute", pool, which, self._driver.cuuint64_t(threshold))
        return pool

    def _stream(self, legacy: bool = False) -> int:
        """Return a stream whose next work follows everything before."""
        stream = 0 if legacy else self._random.choice(self._streams)
        self._call("cuEventRecord", self._event, self._last)
        self._call("cuStreamWaitEvent", stream, self._event, 0)
        self._last = stream
        return stream

    def _any(self) -> Block:
        return self._random.choice(self._live)

    def _part(self, block: Block) -> tuple[int, int]:
        """Return offset and size of a random part, often the whole."""
        size = len(block.shadow)
        if self._random.random() < 0.2:
            return 0, size
        offset = self._random.randrange(size)
        most = min(size - offset, self._random.choice((16, 5000, 200_000, size)))
        return offset, self._random.randint(1, most)

    def _allocate(self) -> None:
        if len(self._live) >= _MOST_LIVE:
            return
        size = self._random.choice(_SIZES)
        kind = self._random.choice(("device", "pinned", "managed", "pool", "pool", "virtual"))
        handle = 0
        if kind == "device":
            pointer = int(self._call("cuMemAlloc", size))
        elif kind == "pinned":
            pointer = int(self._call("cuMemHostAlloc", size, 0))
        elif kind == "managed":
            pointer = int(self._call("cuMemAllocManaged", size, 1))
        elif kind == "pool":
            pool = self._random.choice(self._pools)
            pointer = int(self._call("cuMemAllocFromPoolAsync", size, pool, self._stream()))
        else:
            size = -(-size // _UNIT) * _UNIT
            pointer, handle = self._map(size)
        for other in self._live:
            if pointer < other.pointer + len(other.shadow) and other.pointer < pointer + size:
                raise MismatchError(f"{kind} memory at {pointer:#x} overlaps another allocation")
        value = self._random.randrange(256)
        self._call("cuMemsetD8Async", pointer, value, size, self._stream())
        self._live.append(Block(kind, pointer, np.full(size, value, np.uint8), handle))

    def _map(self, size: int) -> tuple[int, int]:
        driver = self._driver
        prop, access = driver.CUmemAllocationProp(), driver.CUmemAccessDesc()
        prop.type = driver.CUmemAllocationType(1)
        prop.location.type = access.location.type = driver.CUmemLocationType(1)
        access.flags = driver.CUmemAccess_flags(3)
        start = int(self._call("cuMemAddressReserve", size, 0, 0, 0))
        for offset in range(0, size, _UNIT):
            handle = self._call("cuMemCreate", _UNIT, prop, 0)
            self._call("cuMemMap", start + offset, _UNIT, 0, handle, 0)
            self._call("cuMemRelease", handle)
        self._call("cuMemSetAccess", start, size, [access], 1)
        return start, start

    def _free(self) -> None:
        block = self._live.pop(self._random.randrange(len(self._live)))
        if block.kind == "pinned":
            self._call("cuMemFreeHost", block.pointer)
        elif block.kind == "virtual":
            self._call("cuMemUnmap", block.pointer, len(block.shadow))
            self._call("cuMemAddressFree", block.pointer, len(block.shadow))
        elif block.kind == "pool" and self._random.random() < 0.8:
            self._call("cuMemFreeAsync", block.pointer, self._stream())
        else:
            self._call("cuMemFree", block.pointer)
        again = "cuMemFreeHost" if block.kind == "pinned" else "cuMemFree"
        if self._code(again, block.pointer) != INVALID_VALUE:
            raise MismatchError(f"{block.kind} memory was freed twice")

    def _fill(self) -> None:
        block = self._any()
        offset, size = self._part(block)
        width = self._random.choice((1, 2, 4))
        offset, count = offset // width * width, size // width
        value = self._random.getrandbits(8 * width)
        name = f"cuMemsetD{8 * width}Async"
        self._call(name, block.pointer + offset, value, count, self._stream())
        pattern = np.frombuffer(value.to_bytes(width, "little"), np.uint8)
        block.shadow[offset : offset + count * width] = np.tile(pattern, count)

    def _rectangle(self, size: int) -> tuple[int, int, int, int]:
        """Return offset, pitch, width and height of a random rectangle in ``size`` bytes."""
        pitch = self._random.randint(1, max(1, min(size, 5000)))
        height = self._random.randint(1, max(1, min(size // pitch, 40)))
        width = self._random.randint(1, pitch)
        return self._random.randint(0, size - pitch * height), pitch, width, height

    def _rows(self, shadow: np.ndarray, offset: int, pitch: int, height: int) -> np.ndarray:
        return shadow[offset : offset + pitch * height].reshape(height, pitch)

    def _fill_rectangle(self) -> None:
        block = self._any()
        offset, pitch, width, height = self._rectangle(len(block.shadow))
        value = self._random.randrange(256)
        place = block.pointer + offset
        self._call("cuMemsetD2D8Async", place, pitch, value, width, height, self._stream())
        self._rows(block.shadow, offset, pitch, height)[:, :width] = value

    def _copy(self) -> None:
        source, target = self._any(), self._any()
        offset, size = self._part(source)
        size = min(size, len(target.shadow))
        into = self._random.randint(0, len(target.shadow) - size)
        if source is target and abs(into - offset) < size:
            return  # the result of overlapping copies is not defined
        arguments = target.pointer + into, source.pointer + offset, size
        if self._random.random() < 0.3:
            self._stream(legacy=True)
            self._call("cuMemcpy", *arguments)
        else:
            self._call("cuMemcpyAsync", *arguments, self._stream())
        if source.kind in ("pinned", "managed") and target.kind in ("pinned", "managed"):
            self._last = 0  # such a copy is done, and has waited for its stream
        target.shadow[into : into + size] = source.shadow[offset : offset + size]

    def _copy_rectangle(self) -> None:
        source, target = self._any(), self._any()
        if source is target:
            return
        offset, pitch, width, height = self._rectangle(min(len(source.shadow), len(target.shadow)))
        copy = self._driver.CUDA_MEMCPY2D()
        copy.srcMemoryType = copy.dstMemoryType = self._driver.CUmemorytype.CU_MEMORYTYPE_UNIFIED
        copy.srcDevice, copy.dstDevice = source.pointer + offset, target.pointer + offset
        copy.srcPitch = copy.dstPitch = pitch
        copy.WidthInBytes, copy.Height = width, height
        self._call("cuMemcpy2DAsync", copy, self._stream())
        given = self._rows(source.shadow, offset, pitch, height)
        self._rows(target.shadow, offset, pitch, height)[:, :width] = given[:, :width]

    def _check(self, block: Block, offset: int, size: int) -> None:
        found = np.empty(size, np.uint8)
        self._stream(legacy=True)
        self._call("cuMemcpy", found.ctypes.data, block.pointer + offset, size)
        wrong = np.flatnonzero(found != block.shadow[offset : offset + size])
        if wrong.size:
            place = offset + int(wrong[0])
            raise MismatchError(f"byte {place} of {block.kind} memory of {len(block.shadow)} bytes")

    def _read(self) -> None:
        block = self._any()
        self._check(block, *self._part(block))

    def _write(self) -> None:
        block = self._any()
        offset, size = self._part(block)
        data = np.frombuffer(self._random.randbytes(size), np.uint8)
        place = block.pointer + offset
        self._call("cuMemcpyAsync", place, data.ctypes.data, size, self._stream())
        block.shadow[offset : offset + size] = data

    def _misuse(self) -> None:
        """Exceed an allocation's end; this must change nothing."""
        block = self._any()
        size = len(block.shadow)
        data = np.zeros(16, np.uint8)
        codes = (
            self._code("cuMemcpyDtoH", data, block.pointer + size - 1, 2),
            self._code("cuMemsetD8", block.pointer + 1, 0, size),
            self._code("cuMemcpyHtoD", block.pointer + size - 1, data, 2),
        )
        if codes != (INVALID_VALUE,) * 3:
            raise MismatchError(f"accesses past the end of {block.kind} memory returned {codes}")

    def _synchronize(self) -> None:
        self._call("cuStreamSynchronize", self._random.choice(self._streams))

    def _look_as_another_owner(self) -> None:
        """Write a secret in another context, free it, and look for it in a third."""
        sizes = 2 * MIB, 300_000, 5000
        for writes in (True, False):
            other = self._call("cuCtxCreate", None, 0, 0)
            pointers = [int(self._call("cuMemAlloc", size)) for size in sizes]
            for pointer, size in zip(pointers, sizes, strict=True):
                if writes:
                    self._call("cuMemsetD8", pointer, _SECRET, size)
                    continue
                found = np.empty(size, np.uint8)
                self._call("cuMemcpyDtoH", found, pointer, size)
                if found.any():
                    raise MismatchError("a new owner's memory is not zero")
            self._call("cuCtxDestroy", other)


def main() -> None:
    """Run the fuzzer with the arguments of the command line."""
    from cuda.bindings import driver

    given = dict(word.split("=", 1) for word in sys.argv[1:])
    seed, steps = int(given.get("seed") or 1), int(given.get("n") or 100_000)
    if int(driver.cuInit(0)[0]):
        raise SystemExit("there is no device: run this under `tessera run`")
    shadow = Shadow(driver, seed)
    shadow.run(steps)
    print(f"seed {seed}: {steps} operations, no wrong byte:", shadow.counts)


if __name__ == "__main__":
    main()
