"""Times of the driver's own operations: launches, events, copies, allocations, graphs.

``python facts.py result.json`` needs what ``runner.py`` needs, and that file beside it.
"""

import ctypes
import sys
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from clocks import Clocks
from runner import CudaError, Gpu, graph_of, write

PTX = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry empty() { ret; }
.visible .entry clocks(.param .u64 p0) {
  .reg .b64 %l<8>; .reg .b32 %r<4>; .reg .pred %p; .reg .f32 %f<2>;
  ld.param.u64 %l0, [p0]; cvta.to.global.u64 %l0, %l0; mov.u32 %r0, 2000000;
  mov.f32 %f0, 0f3F000000; mov.u64 %l1, %clock64; mov.u64 %l2, %globaltimer;
L: fma.rn.f32 %f0, %f0, %f0, %f0; fma.rn.f32 %f0, %f0, %f0, %f0; sub.u32 %r0, %r0, 1;
  setp.ne.u32 %p, %r0, 0; @%p bra L;
  mov.u64 %l3, %clock64; mov.u64 %l4, %globaltimer; sub.u64 %l1, %l3, %l1; sub.u64 %l2, %l4, %l2;
  st.global.u64 [%l0], %l1; st.global.u64 [%l0+8], %l2; st.global.f32 [%l0+16], %f0; ret;
}
\0"""
GAPS = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry empty() { ret; }
.visible .entry many(.param .align 8 .b8 p0[4000]) { ret; }
.visible .entry wait(.param .u32 p0) {
  .reg .b64 %l<8>; .reg .pred %p; .reg .b32 %r<2>;
  ld.param.u32 %r0, [p0]; cvt.u64.u32 %l0, %r0; mov.u64 %l1, %clock64;
L: mov.u64 %l2, %clock64; sub.u64 %l2, %l2, %l1; setp.lt.u64 %p, %l2, %l0;
  @%p bra L;
  ret;
}
\0"""
SIZES = (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
ATTRIBUTES = {
    "multiprocessors": 16,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "bus_bits": 37,
    "l2_bytes": 38,
    "shared_per_multiprocessor": 81,
    "engines": 40,
}


def host_us(work, repeats=20):
    """Return the shortest and the median time of a call on the host's clock."""
    times_us = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times_us.append((time.perf_counter() - begin) * 1e6)
    times_us.sort()
    return [times_us[0], times_us[len(times_us) // 2]]


def device_us(gpu, work, repeats=10, count=1):
    """Return the shortest and the median time between events around ``count`` calls, per call."""
    times_us = []
    for _ in range(repeats):
        gpu.record(gpu.first)
        for _ in range(count):
            work()
        gpu.record(gpu.last)
        times_us.append(gpu.elapsed_us() / count)
    times_us.sort()
    return [times_us[0], times_us[len(times_us) // 2]]


def kernel(gpu, module, name):
    """Return a function that launches a kernel with a grid and packed parameters."""
    function = c_void_p()
    gpu.call("cuModuleGetFunction", byref(function), module, c_char_p(name))

    def launch(blocks=1, threads=32, packed=None):
        gpu.call(
            "cuLaunchKernel",
            function,
            *(c_uint(n) for n in (blocks, 1, 1, threads, 1, 1)),
            c_uint(0),
            gpu.stream,
            packed,
            c_void_p(),
        )

    return launch


def launches(gpu, facts, small):
    """Measure launches, events and graphs."""
    module = c_void_p()
    begin = time.perf_counter()
    gpu.call("cuModuleLoadData", byref(module), c_char_p(PTX))
    facts["module load with JIT, host us"] = (time.perf_counter() - begin) * 1e6
    empty = kernel(gpu, module, b"empty")
    empty()
    gpu.synchronize()
    facts["events without work between"] = device_us(gpu, lambda: None)
    facts["event record, host us"] = host_us(lambda: gpu.record(gpu.first))
    facts["one launch between events"] = device_us(gpu, empty)

    def enqueue():
        for _ in range(100):
            empty()

    facts["100 launches, host us"] = host_us(enqueue, 5)
    gpu.synchronize()
    facts["launches back to back in a stream, each"] = device_us(gpu, empty, 5, 200)

    def round_trip():
        empty()
        gpu.synchronize()

    facts["launch and synchronize, host us"] = host_us(round_trip)
    facts["synchronize an idle stream, host us"] = host_us(gpu.synchronize)
    for count in (1, 20, 200):
        if small and count > 20:
            continue
        graph = graph_of(gpu, empty, count)

        def replay(graph=graph):
            gpu.call("cuGraphLaunch", graph, gpu.stream)

        replay()
        gpu.synchronize()
        facts[f"graph of {count} launches, device"] = device_us(gpu, replay)
        facts[f"graph of {count} launches, host us"] = host_us(replay, 5)
        gpu.synchronize()
        begin = time.perf_counter()
        gpu.call("cuGraphExecDestroy", graph)
        facts[f"graph of {count} launches, destroy, host us"] = (time.perf_counter() - begin) * 1e6
    buffer = gpu.allocate(64)
    packed = (c_void_p * 1)(ctypes.addressof(buffer))
    measure_clock = kernel(gpu, module, b"clocks")
    if not small:
        clocks, samples = Clocks(), []
        for _ in range(3):
            measure_clock(1, 1, packed)
            time.sleep(0.003)
            read = clocks.read()
            gpu.synchronize()
            values = (c_uint64 * 2)()
            gpu.call("cuMemcpyDtoH_v2", values, buffer, c_size_t(16))
            samples.append({"ghz": values[0] / max(values[1], 1), "nvml": read})
        facts["clock during a kernel"] = samples


def gaps(gpu, facts):
    """Measure the gaps between kernels of streams and graphs, and what arguments and blocks add."""
    module = c_void_p()
    gpu.call("cuModuleLoadData", byref(module), c_char_p(GAPS))
    many, wait = kernel(gpu, module, b"many"), kernel(gpu, module, b"wait")
    empty = kernel(gpu, module, b"empty")
    room = ctypes.create_string_buffer(4000)
    packed = (c_void_p * 1)(ctypes.addressof(room))
    cycles = c_uint(0)
    waits = (c_void_p * 1)(ctypes.addressof(cycles))
    second_stream = c_void_p()
    gpu.call("cuStreamCreate", byref(second_stream), c_uint(1))
    joined = gpu.event()

    def fork():
        gpu.record(joined)
        gpu.call("cuStreamWaitEvent", second_stream, joined, c_uint(0))
        empty(1, 32)
        stream, gpu.stream = gpu.stream, second_stream
        empty(1, 32)
        gpu.record(joined)
        gpu.stream = stream
        gpu.call("cuStreamWaitEvent", stream, joined, c_uint(0))

    cases = {
        "empty kernel": lambda: empty(1, 32),
        "kernel with 4000 bytes of parameters": lambda: many(1, 32, packed),
        "two kernels in parallel branches": fork,
    }
    for length in (1000, 2000, 5000, 20000):

        def spin(length=length):
            cycles.value = length
            wait(1, 32, waits)

        cases[f"kernel of {length} cycles, 1 block"] = spin

        def full(length=length):
            cycles.value = length
            wait(132, 1024, waits)

        cases[f"kernel of {length} cycles, 132 blocks"] = full
    for name, work in cases.items():
        graph = graph_of(gpu, work, 50)
        times = device_us(gpu, lambda graph=graph: gpu.call("cuGraphLaunch", graph, gpu.stream))
        facts[f"in a graph, {name}"] = [time_us / 50 for time_us in times]
        gpu.call("cuGraphExecDestroy", graph)
        facts[f"in a stream, {name}"] = device_us(gpu, work, 5, 100)


def copies(gpu, facts, sizes):
    """Measure copies and fills by size."""
    largest = max(sizes)
    first_buffer, second_buffer = gpu.allocate(largest), gpu.allocate(largest)
    pinned = c_void_p()
    gpu.call("cuMemHostAlloc", byref(pinned), c_size_t(largest), c_uint(0))
    ctypes.memset(pinned, 1, largest)
    pageable = ctypes.create_string_buffer(largest)
    stream = gpu.stream
    for size in sizes:
        n = c_size_t(size)

        def htod(source, n=n):
            gpu.call("cuMemcpyHtoDAsync_v2", first_buffer, source, n, stream)

        def dtoh(target, n=n):
            gpu.call("cuMemcpyDtoHAsync_v2", target, first_buffer, n, stream)

        def dtod(n=n):
            gpu.call("cuMemcpyDtoDAsync_v2", second_buffer, first_buffer, n, stream)

        def fill(n=n):
            gpu.call("cuMemsetD8Async", first_buffer, c_ubyte(3), n, stream)

        facts[f"HtoD pinned {size}"] = device_us(gpu, lambda: htod(pinned))
        facts[f"DtoH pinned {size}"] = device_us(gpu, lambda: dtoh(pinned))
        facts[f"DtoD {size}"] = device_us(gpu, dtod)
        facts[f"memset {size}"] = device_us(gpu, fill)

        def pageable_in(n=n):
            gpu.call("cuMemcpyHtoD_v2", first_buffer, pageable, n)

        def pageable_out(n=n):
            gpu.call("cuMemcpyDtoH_v2", pageable, first_buffer, n)

        facts[f"HtoD pageable {size}, host us"] = host_us(pageable_in, 5)
        facts[f"DtoH pageable {size}, host us"] = host_us(pageable_out, 5)
        facts[f"HtoD pageable {size}, between events"] = device_us(gpu, lambda: htod(pageable), 3)
    gpu.call("cuMemFreeHost", pinned)
    gpu.free(first_buffer)
    gpu.free(second_buffer)


def allocations(gpu, facts, sizes):
    """Measure allocations on the host's clock."""
    for size in sizes:
        buffers = []

        def allocate(size=size, buffers=buffers):
            buffers.append(gpu.allocate(size))

        facts[f"cuMemAlloc {size}, host us"] = host_us(allocate, 5)
        facts[f"cuMemFree {size}, host us"] = host_us(
            lambda buffers=buffers: gpu.free(buffers.pop()), 5
        )

    def asynchronous():
        pointer = c_uint64()
        gpu.call("cuMemAllocAsync", byref(pointer), c_size_t(1 << 20), gpu.stream)
        gpu.call("cuMemFreeAsync", pointer, gpu.stream)

    facts["cuMemAllocAsync and cuMemFreeAsync 1 MiB, host us"] = host_us(asynchronous)

    def stream():
        new_stream = c_void_p()
        gpu.call("cuStreamCreate", byref(new_stream), c_uint(1))
        gpu.call("cuStreamDestroy_v2", new_stream)

    facts["cuStreamCreate and destroy, host us"] = host_us(stream)


def main():
    """Measure everything; write what was measured even if a part fails."""
    small = "--few" in sys.argv
    facts = {}
    begin = time.perf_counter()
    gpu = Gpu()
    facts["cuInit and first context, host us"] = (time.perf_counter() - begin) * 1e6
    for name, key in ATTRIBUTES.items():
        value = c_int()
        gpu.call("cuDeviceGetAttribute", byref(value), c_int(key), gpu.device)
        facts[f"attribute {name}"] = value.value
    for part in (
        lambda: launches(gpu, facts, small),
        lambda: gaps(gpu, facts),
        lambda: copies(gpu, facts, SIZES[:4] if small else SIZES),
        lambda: allocations(gpu, facts, SIZES[1:4] if small else (*SIZES[1:], 1 << 30)),
    ):
        try:
            part()
        except CudaError as err:
            facts.setdefault("errors", []).append(str(err))
        write(facts, sys.argv[1])
    print(f"{len(facts)} facts, errors: {facts.get('errors', [])}", flush=True)


if __name__ == "__main__":
    main()
