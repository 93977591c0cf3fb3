"""Programs whose clock is modelled: events measure the board's time, and the same each time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tessera_run import EXAMPLES, environment, run, tessera

# Events around copies and two launches, from page-locked and from ordinary memory.
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)
def size(n): return ctypes.c_size_t(n)
count = 1 << 19
device, context, module, kernel = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), open(sys.argv[1], "rb").read() + b"\\0")
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"vecadd")
buffers = [ctypes.c_uint64() for _ in range(3)]
for one in buffers: call("cuMemAlloc_v2", ctypes.byref(one), size(4 * count))
pinned, plain = ctypes.c_void_p(), ctypes.create_string_buffer(4 * count)
call("cuMemAllocHost_v2", ctypes.byref(pinned), size(4 * count))
events = [ctypes.c_void_p() for _ in range(5)]
for one in events: call("cuEventCreate", ctypes.byref(one), 0)
def launch():
    arguments = [*buffers, ctypes.c_int(count)]
    pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(one) for one in arguments))
    call("cuLaunchKernel", kernel, count // 256, 1, 1, 256, 1, 1, 0, None, pointers, None)
call("cuEventRecord", events[0], None)
call("cuMemcpyHtoDAsync_v2", buffers[0], pinned, size(4 * count), None)
call("cuEventRecord", events[1], None)
call("cuMemcpyHtoD_v2", buffers[1], plain, size(4 * count))
call("cuEventRecord", events[2], None)
launch()
call("cuEventRecord", events[3], None)
launch()
call("cuEventRecord", events[4], None)
call("cuEventSynchronize", events[4])
for first, second in zip(events, events[1:]):
    ms = ctypes.c_float()
    call("cuEventElapsedTime", ctypes.byref(ms), first, second)
    print(round(1e3 * ms.value, 2))
"""


def elapsed(tmp_path: Path, *options: str, **kind: str) -> list[float]:
    done = run(
        tmp_path,
        *(sys.executable, "-c", PROGRAM, str(EXAMPLES / "vecadd.ptx")),
        options=options,
        **kind,
    )
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


def test_events_measure_what_the_slice_would_take_on_either_backend(tmp_path: Path) -> None:
    jit = elapsed(tmp_path, "--clock", "modelled", "--threads", "1", backend="jit")
    pinned, pageable, first, second = jit
    megabytes = 2.097152
    assert megabytes / 64e-3 < pinned < 1.5 * megabytes / 64e-3 + 3
    assert pageable > 1.5 * pinned
    # A memory slice of eight: 3350 GB/s / 8, three buffers.
    least = 3 * megabytes / (3350e-3 / 8)
    assert least < first < 1.5 * least
    assert second <= first < second + 3  # the host has waited for the copy before the first
    assert elapsed(tmp_path, "--clock", "modelled", backend="interp") == jit


def test_perf_run_reports_kernels_copies_and_gaps(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = (sys.executable, "-c", PROGRAM, str(EXAMPLES / "vecadd.ptx"))
    options = ("--board", "h100-80gb", "--details", "--json", str(report))
    done = subprocess.run(
        tessera("perf", "run", *options, "--", *command),
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "modelled" in done.stderr
    assert "[HtoD] 4194304 bytes" in done.stderr
    document = json.loads(report.read_text())
    (kernel,) = document["kernels"]
    assert (kernel["kernel"], kernel["launches"]) == ("vecadd", 2)
    metrics = kernel["metrics"]
    assert metrics["gpu__time_duration.sum"] * 2 == pytest.approx(kernel["us"] * 1e3)
    assert metrics["dram__bytes_read.sum"] == pytest.approx(4194304, rel=0.01)
    assert sum(kernel["stack_us"].values()) * 2 == pytest.approx(kernel["us"])
    (context,) = document["contexts"]
    assert {row["way"]: row["count"] for row in context["copies"]} == {"HtoD": 2}
    assert context["span_us"] > kernel["us"] + sum(row["us"] for row in context["copies"]) - 1


def test_a_program_that_fails_passes_its_status_on(tmp_path: Path) -> None:
    done = subprocess.run(
        tessera("perf", "run", "--board", "a30", "--", sys.executable, "-c", "raise SystemExit(7)"),
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7
    assert "nothing to report" in done.stderr
