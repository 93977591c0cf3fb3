"""c = a + b on a GPU or a MIG slice, for any CUDA device: cuda.core, numpy and one PTX file.

The first half of the vectors is copied from ordinary (pageable) host memory on one stream, the
second half from page-locked memory on another. Every element of the result is compared with
numpy's. Exit status: 0 verified, 1 wrong result or CUDA error, 2 no usable CUDA device or
invalid command line.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cuda.bindings import driver
from cuda.core import (
    Buffer,
    Device,
    Event,
    EventOptions,
    Kernel,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ObjectCode,
    Stream,
    launch,
)

BLOCK = 256
EXPECTED = {"add": np.add, "sub": np.subtract}


@dataclass(frozen=True, slots=True)
class Half:
    """One half of the vectors: its stream, and its inputs and output in host and device memory."""

    stream: Stream
    host: tuple[Buffer, Buffer, Buffer]
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray]
    device: tuple[Buffer, Buffer, Buffer]
    started: Event
    computed: Event


def pageable(count: int) -> tuple[Buffer, np.ndarray]:
    """Allocate pageable host memory with numpy."""
    array = np.empty(count, np.float32)
    return Buffer.from_handle(array.ctypes.data, array.nbytes, owner=array), array


def allocate_pinned(count: int) -> tuple[Buffer, np.ndarray]:
    """Allocate page-locked host memory with the driver."""
    buffer = LegacyPinnedMemoryResource().allocate(4 * count)
    return buffer, np.from_dlpack(buffer).view(np.float32)


def prepare(device: Device, count: int, host_memory, random: np.random.Generator) -> Half:
    """Allocate one half, and fill its inputs; its output is NaN until the kernel replaces it."""
    stream = device.create_stream()
    host, arrays = zip(*(host_memory(count) for _ in range(3)), strict=True)
    random.random(out=arrays[0], dtype=np.float32)
    random.random(out=arrays[1], dtype=np.float32)
    arrays[2].fill(np.nan)
    buffers = tuple(device.allocate(4 * count, stream=stream) for _ in range(3))
    timing = EventOptions(timing_enabled=True)
    started, computed = device.create_event(timing), device.create_event(timing)
    return Half(stream, host, arrays, buffers, started, computed)


def compute(half: Half, kernel: Kernel, seconds: float) -> int:
    """Copy the inputs and launch the kernel, asynchronously; repeat launches for ``seconds``.

    Returns the number of launches.
    """
    count = half.arrays[0].size
    config = LaunchConfig(grid=-(-count // BLOCK), block=BLOCK)
    for source, target in zip(half.host[:2], half.device[:2], strict=True):
        target.copy_from(source, stream=half.stream)
    half.stream.record(half.started)
    launches, end = 0, time.monotonic() + seconds
    while launches == 0 or time.monotonic() < end:
        if launches:
            half.stream.sync()
        launch(half.stream, config, kernel, *half.device, np.int32(count))
        launches += 1
    half.stream.record(half.computed)
    return launches


def verify(halves: list[Half], operation: str) -> tuple[int, str]:
    """Return the number of wrong elements, and a message about the first of them."""
    wrong, first, offset = 0, "", 0
    for half in halves:
        a, b, c = half.arrays
        expected = EXPECTED[operation](a, b)
        bad = np.flatnonzero(c != expected)
        if bad.size and not first:
            i = bad[0]
            first = f"element {offset + i}: got {c[i]!s}, expected {expected[i]!s} ({operation})"
        wrong += bad.size
        offset += a.size
    return wrong, first


def describe(device: Device) -> None:
    """Print the device's name, UUID, multiprocessors and memory."""
    properties = device.properties
    status, free, total = driver.cuMemGetInfo()
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuMemGetInfo: {status.name}")
    major, minor = device.compute_capability
    print(f"device   {device.name}, compute capability {major}.{minor}")
    print(f"slice    {device.uuid}")
    print(f"SMs      {properties.multiprocessor_count}")
    print(f"memory   {total / 2**20:.0f} MiB, {free / 2**20:.0f} MiB free")


def run(device: Device, options: argparse.Namespace) -> int:
    """Compute on the device and verify the result; return the exit status."""
    describe(device)
    kernel = ObjectCode.from_ptx(str(options.ptx)).get_kernel("vecadd")
    random = np.random.default_rng(options.seed)
    counts = (options.n // 2, options.n - options.n // 2)
    halves = [
        prepare(device, count, memory, random)
        for count, memory in zip(counts, (pageable, allocate_pinned), strict=True)
        if count
    ]
    launches = sum(
        compute(half, kernel, options.seconds if half is halves[-1] else 0) for half in halves
    )

    # The first stream waits for the others on the device, then copies all results back in order.
    back = halves[0].stream
    for half in halves[1:]:
        back.wait(half.computed)
    for half in halves:
        half.host[2].copy_from(half.device[2], stream=back)
    back.sync()

    kernel_ms = sum(half.computed - half.started for half in halves)
    print(f"kernels  {launches} launches on {len(halves)} streams, {kernel_ms:.3f} ms")
    wrong, first = verify(halves, options.expect)
    if wrong:
        print(f"{wrong} of {options.n} results WRONG, {first}", file=sys.stderr)
        return 1
    a, b, c = (array[0] for array in halves[0].arrays)
    print(f"first    {a} {'+' if options.expect == 'add' else '-'} {b} = {c}")
    print(f"{options.n} results verified", flush=True)
    time.sleep(options.hold)
    return 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; an invalid value ends the program with status 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1 << 24, help="elements (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0, help="keep launching for this long")
    parser.add_argument(
        "--hold", type=float, default=0, help="seconds to keep the device at the end"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
    parser.add_argument("--expect", choices=EXPECTED, default="add", help="what the PTX computes")
    parser.add_argument("--ptx", type=Path, default=Path(__file__).with_name("vecadd.ptx"))
    options = parser.parse_args(arguments)
    if not 1 <= options.n < 2**31:
        parser.error("--n must be at least 1 and fit the kernel's 32-bit index")
    if options.seconds < 0 or options.hold < 0:
        parser.error("--seconds and --hold cannot be negative")
    if not options.ptx.is_file():
        parser.error(f"--ptx: there is no file {options.ptx}")
    return options


def main() -> int:
    """Run on the first CUDA device; return the exit status."""
    options = parse()
    try:
        device = Device(0)
        device.set_current()
    except Exception as error:  # noqa: BLE001 - cuda.core's error class is not public
        print(f"no usable CUDA device: {error}", file=sys.stderr)
        return 2
    return run(device, options)


if __name__ == "__main__":
    sys.exit(main())
