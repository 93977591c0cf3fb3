"""Times a bundle of points on the first GPU: ``python runner.py bundle.json result.json``.

This file needs the standard library, numpy, ``libcuda.so.1`` and, for clocks,
``libnvidia-ml.so.1``; it runs alone. ``--once`` launches each point once, as ``tessera perf run``
needs it; ``--few`` measures a few launches of the first blocks of each grid, which shows that each
kernel loads and runs.
"""

import contextlib
import ctypes
import json
import statistics
import subprocess
import sys
import time
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

FLUSH_BYTES = 256 << 20
BUDGET_US = 4000.0  # measured work per point, roughly
REPEATS = 7


# Reads a buffer of 16 bytes a lane, so that L2 holds clean lines of that buffer only.
FLUSH = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry flush(.param .u64 p0)
{
  .reg .b64 %l<4>; .reg .b32 %r<8>; .reg .pred %p;
  ld.param.u64 %l0, [p0]; cvta.to.global.u64 %l0, %l0;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 256, %r0;
  mul.wide.u32 %l1, %r0, 16; add.u64 %l0, %l0, %l1;
  ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%l0];
  xor.b32 %r2, %r2, %r3; xor.b32 %r4, %r4, %r5; xor.b32 %r2, %r2, %r4;
  setp.eq.u32 %p, %r2, 0x12345679;
  @%p st.global.u32 [%l0], %r2;
  ret;
}
\0"""


class CudaError(Exception):
    """A call of the driver failed."""


class Gpu:
    """One context on the first device."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))
        device, context = c_int(), c_void_p()
        self.call("cuDeviceGet", byref(device), c_int(0))
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device
        self.stream = c_void_p()
        self.call("cuStreamCreate", byref(self.stream), c_uint(1))
        self.first, self.last = self.event(), self.event()

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status:
            text = c_char_p()
            self.lib.cuGetErrorName(c_int(status), byref(text))
            raise CudaError(f"{name}: {(text.value or b'?').decode()}")

    def event(self):
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(0))
        return event

    def name(self):
        text = ctypes.create_string_buffer(96)
        self.call("cuDeviceGetName", text, c_int(96), self.device)
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        return text.value.decode(), version.value

    def allocate(self, size):
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(max(size, 4)))
        return pointer

    def upload(self, array):
        pointer = self.allocate(array.nbytes)
        self.call("cuMemcpyHtoD_v2", pointer, c_void_p(array.ctypes.data), c_size_t(array.nbytes))
        return pointer

    def free(self, pointer):
        self.call("cuMemFree_v2", pointer)

    def synchronize(self):
        self.call("cuStreamSynchronize", self.stream)

    def record(self, event):
        self.call("cuEventRecord", event, self.stream)

    def elapsed_us(self):
        self.call("cuEventSynchronize", self.last)
        elapsed_ms = c_float()
        self.call("cuEventElapsedTime", byref(elapsed_ms), self.first, self.last)
        return elapsed_ms.value * 1e3


class Flush:
    """Evicts from L2 what earlier kernels left there."""

    def __init__(self, gpu, size):
        self.gpu, self.size = gpu, size
        self.pointer, module, self.function = gpu.allocate(size), c_void_p(), c_void_p()
        gpu.call("cuModuleLoadData", byref(module), c_char_p(FLUSH))
        gpu.call("cuModuleGetFunction", byref(self.function), module, c_char_p(b"flush"))
        self.packed = (c_void_p * 1)(ctypes.addressof(self.pointer))

    def __call__(self):
        self.gpu.call(
            "cuLaunchKernel",
            self.function,
            *(c_uint(n) for n in (self.size // 4096, 1, 1, 256, 1, 1)),
            c_uint(0),
            self.gpu.stream,
            self.packed,
            c_void_p(),
        )


def tensor_map(gpu, pointer, size, rows):
    """Return a map of rows of 64 half words (128 bytes); a box has ``rows`` of them."""
    room = (ctypes.c_uint64 * 24)()
    encoded_map = (ctypes.c_uint64 * 16).from_buffer(room, -ctypes.addressof(room) % 64)
    unit_steps = (c_uint * 2)(1, 1)
    gpu.call(
        "cuTensorMapEncodeTiled",
        byref(encoded_map),
        c_int(6),
        c_uint(2),
        pointer,
        (c_uint64 * 2)(64, size // 128),
        (c_uint64 * 1)(128),
        (c_uint * 2)(64, rows),
        unit_steps,
        c_int(0),
        c_int(3),
        c_int(0),
        c_int(0),
    )
    return encoded_map


class Kernel:
    """A loaded point: its module, its buffers and its packed parameters."""

    def __init__(self, gpu, point):
        self.gpu, self.point = gpu, point
        self.module, self.function, self.pointers = c_void_p(), c_void_p(), []
        from contents import contents  # beside this file in a bundle

        image = point["ptx"].encode() + b"\0"
        self.log = ctypes.create_string_buffer(4096)
        keys = (c_int * 2)(5, 6)
        values = (c_void_p * 2)(ctypes.addressof(self.log), 4096)
        begin = time.perf_counter()
        try:
            gpu.call(
                "cuModuleLoadDataEx", byref(self.module), c_char_p(image), c_uint(2), keys, values
            )
        except CudaError as err:
            raise CudaError(f"{err}: {self.log.value.decode(errors='replace')[:500]}") from err
        self.load_ms = (time.perf_counter() - begin) * 1e3
        gpu.call(
            "cuModuleGetFunction",
            byref(self.function),
            self.module,
            c_char_p(point["entry"].encode()),
        )
        if point["shared"] > 48 << 10:
            gpu.call("cuFuncSetAttribute", self.function, c_int(8), c_int(point["shared"]))
        types = {"u32": c_uint, "s32": c_int, "u64": c_uint64, "f32": c_float}
        self.values = []
        for argument in point["arguments"]:
            if argument[0] == "buffer":
                pointer = gpu.upload(contents(argument[1], argument[2]))
                self.pointers.append(pointer)
                self.values.append(pointer)
            elif argument[0] == "map":
                pointer = gpu.upload(contents("bytes", argument[1]))
                self.pointers.append(pointer)
                self.values.append(tensor_map(gpu, pointer, argument[1], argument[2]))
            else:
                self.values.append(types[argument[0]](argument[1]))
        self.packed = (c_void_p * max(1, len(self.values)))(
            *(ctypes.addressof(value) for value in self.values)
        )

    def launch(self):
        point = self.point
        self.gpu.call(
            "cuLaunchKernel",
            self.function,
            *(c_uint(n) for n in (*point["grid"], *point["block"])),
            c_uint(point["shared"]),
            self.gpu.stream,
            self.packed,
            c_void_p(),
        )

    def cycles(self):
        cycle_count = c_uint64()
        self.gpu.call("cuMemcpyDtoH_v2", byref(cycle_count), self.pointers[0], c_size_t(8))
        return cycle_count.value

    def attributes(self):
        """Return registers per thread, local bytes, static shared bytes and blocks per SM."""
        figures = []
        for key in (4, 3, 1):
            value = c_int()
            self.gpu.call("cuFuncGetAttribute", byref(value), c_int(key), self.function)
            figures.append(value.value)
        blocks, point = c_int(), self.point
        threads = point["block"][0] * point["block"][1] * point["block"][2]
        self.gpu.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            byref(blocks),
            self.function,
            c_int(threads),
            c_size_t(point["shared"]),
        )
        return [*figures, blocks.value]

    def unload(self):
        for pointer in self.pointers:
            self.gpu.free(pointer)
        self.gpu.call("cuModuleUnload", self.module)


def graph_of(gpu, enqueue, count):
    """Return an executable graph with ``count`` calls of ``enqueue`` on the stream."""
    graph, graph_exec = c_void_p(), c_void_p()
    gpu.call("cuStreamBeginCapture_v2", gpu.stream, c_int(2))
    for _ in range(count):
        enqueue()
    gpu.call("cuStreamEndCapture", gpu.stream, byref(graph))
    gpu.call("cuGraphInstantiateWithFlags", byref(graph_exec), graph, c_uint64(0))
    gpu.call("cuGraphDestroy", graph)
    return graph_exec


def measure(gpu, clocks, kernel, flushed, few):
    """Return times in us: per launch in a graph (warm), and of one launch after a flush of L2."""
    gpu.record(gpu.first)
    kernel.launch()
    gpu.record(gpu.last)
    single = [gpu.elapsed_us()]
    for _ in range(0 if few else 3):
        gpu.record(gpu.first)
        kernel.launch()
        gpu.record(gpu.last)
        single.append(gpu.elapsed_us())
    estimate = max(min(single), 1.0)
    count = 2 if few else int(min(64, max(1, BUDGET_US / estimate)))
    graph = graph_of(gpu, kernel.launch, count)
    warm, clock_readings = [], [0, 0, 0]
    for _ in range(1 if few else REPEATS if estimate < 20000 else 3):
        gpu.record(gpu.first)
        gpu.call("cuGraphLaunch", graph, gpu.stream)
        gpu.record(gpu.last)
        if not clock_readings[0]:
            clock_readings = clocks.read()
        warm.append(gpu.elapsed_us() / count)
    gpu.call("cuGraphExecDestroy", graph)
    cold = []
    for _ in range(1 if few else 5 if estimate < 20000 else 2):
        flushed()
        gpu.record(gpu.first)
        kernel.launch()
        gpu.record(gpu.last)
        cold.append(gpu.elapsed_us())
    return {
        "warm_min": min(warm),
        "warm_median": statistics.median(warm),
        "single_min": min(single),
        "cold_min": min(cold),
        "cold_median": statistics.median(cold),
        "launches": count,
        "clocks": clock_readings,
        "clocks_after": clocks.read(),
    }


def run(bundle, path, once, few):
    """Time all points of a bundle; write the results after each group of ten."""
    from clocks import Clocks  # beside this file in a bundle

    gpu = Gpu()
    clocks = Clocks()
    name, version = gpu.name()
    document = {"gpu": name, "driver": version, "points": {}}
    begin = time.monotonic()
    limit = 1e9 if few else float(bundle.get("limit_s", 1e9))
    flushed = Flush(gpu, 4096 if once or few else FLUSH_BYTES)
    if not once and not few:  # raise the clocks before the first point
        warmup = bundle["points"][0]
        kernel = Kernel(gpu, warmup)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            for _ in range(100):
                kernel.launch()
            gpu.synchronize()
        kernel.unload()
    for number, point in enumerate(bundle["points"]):
        if time.monotonic() - begin > limit:
            document["points"][point["name"]] = {"error": "no time left"}
            continue
        try:
            kernel = Kernel(gpu, point)
            if few:
                point["grid"] = [min(8, point["grid"][0]), min(2, point["grid"][1]), 1]
            if once:
                kernel.launch()
                gpu.synchronize()
                record = {}
            else:
                record = measure(gpu, clocks, kernel, flushed, few)
                record["attributes"] = kernel.attributes()
            record["load_ms"] = kernel.load_ms
            if point["cycles"]:
                record["cycles"] = kernel.cycles() / point["cycles"]
            kernel.unload()
        except CudaError as err:
            record = {"error": str(err)}
            if "ILLEGAL" in str(err) or "LAUNCH_FAILED" in str(err) or "MISALIGNED" in str(err):
                document["points"][point["name"]] = record
                document["stopped"] = number + 1
                break
        document["points"][point["name"]] = record
        if number % 10 == 0:
            write(document, path)
    document["seconds"] = time.monotonic() - begin
    write(document, path)
    return document


def write(document, path):
    """Write the results."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def main():
    """Run the bundle that the command line names; continue in a new process after a fault."""
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    with open(arguments[0], encoding="utf-8") as file:
        bundle = json.load(file)
    first = int(arguments[2]) if len(arguments) > 2 else 0
    bundle["points"] = bundle["points"][first:]
    few = "--few" in sys.argv
    path = arguments[1]
    document = run(bundle, path, "--once" in sys.argv, few)
    if "stopped" in document and first + document["stopped"] < first + len(bundle["points"]):
        # The context is lost: the rest needs another process.
        flags = [argument for argument in sys.argv[1:] if argument.startswith("--")]
        next_number = str(first + document["stopped"])
        subprocess.run(
            [sys.executable, __file__, arguments[0], path + ".rest", next_number, *flags],
            check=False,
        )
        with (
            contextlib.suppress(OSError, ValueError),
            open(path + ".rest", encoding="utf-8") as file,
        ):
            document["points"].update(json.load(file)["points"])
            write(document, path)
    errors = {
        name: record["error"] for name, record in document["points"].items() if "error" in record
    }
    print(f"{len(document['points'])} points, {len(errors)} errors", flush=True)
    for name, error in list(errors.items())[:10]:
        print(f"  {name}: {error[:200]}", flush=True)


if __name__ == "__main__":
    main()
