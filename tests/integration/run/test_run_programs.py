"""Unmodified CUDA programs through ``tessera run``: results, devices, errors, statuses."""

import importlib.util
import json
import re
import subprocess
import sys
import textwrap

import pytest

from support.kept import native_parts
from support.kernels import ptx_kernels
from support.processes.tessera_run import EXAMPLES, LIBCUDA, environment, run, run_command, tessera
from support.programs.c_programs import linked_with_lcuda
from vgpu_sim import config
from vgpu_sim.hal.compute import limits
from vgpu_sim.native import catalogue

VECTORADD = (sys.executable, str(EXAMPLES / "vectoradd.py"))


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", textwrap.dedent(code)


def test_vectoradd_verifies_every_element(place):
    done = run(place, *VECTORADD, "--n", "4097")
    assert done.returncode == 0, done.stderr
    assert "NVIDIA H100 80GB HBM3 MIG 1g.10gb, compute capability 9.0" in done.stdout
    assert "SMs      16" in done.stdout
    assert "4097 results verified" in done.stdout


def test_a_c_program_that_links_lcuda(place):
    program = str(linked_with_lcuda(place, "linked"))
    done = run(place, program, str(EXAMPLES / "vecadd.ptx"))
    assert done.returncode == 0, done.stderr
    assert "10000 results, wrong 0" in done.stdout


CUDA_H = """
#include "libcuda/api.h"
#define DECLARE(name, ...) CUresult name(__VA_ARGS__)
#define cuMemAlloc cuMemAlloc_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
DECLARE(cuInit, unsigned int);
DECLARE(cuDeviceGet, CUdevice *, int);
DECLARE(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice);
DECLARE(cuCtxSetCurrent, CUcontext);
DECLARE(cuModuleLoad, CUmodule *, const char *);
DECLARE(cuModuleGetFunction, CUfunction *, CUmodule, const char *);
DECLARE(cuMemAlloc_v2, CUdeviceptr *, size_t);
DECLARE(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t);
DECLARE(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t);
DECLARE(cuLaunchKernel, CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
        unsigned int, unsigned int, unsigned int, CUstream, void **, void **);
DECLARE(cuGetErrorName, CUresult, const char **);
"""


def test_the_first_c_program_is_compiled_and_linked_inside_of_a_run(place):
    """As docs/first-kernel.md describes, without -L: the compiler finds libcuda."""
    native_parts.build_once("libcuda.so.1")
    (place / "cuda.h").write_text(CUDA_H)  # the declarations of NVIDIA's header for these functions
    folders = (place, catalogue.CLIENTS / "libcuda", catalogue.GENERATED, catalogue.INCLUDE)
    include = " ".join(f"-I{folder}" for folder in folders)
    gcc = f"gcc -Wall -Werror {EXAMPLES}/first_kernel.c {include} -lcuda -o first_kernel"
    done = run(place, "sh", "-c", f"{gcc} && ./first_kernel {EXAMPLES}/saxpy.ptx")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1000 results verified\n"


def test_the_first_python_program_compiles_its_own_kernel(place):
    if importlib.util.find_spec("nvidia") is None:
        pytest.skip("NOT RUN: NVRTC is not installed (pip install 'cuda-core[cu13]')")
    done = run(place, sys.executable, str(EXAMPLES / "first_kernel.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1000 results verified\n"


WIDENED = """
import sys
from pathlib import Path
import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, launch
device = Device(0)
device.set_current()
stream = device.create_stream()
values = LegacyPinnedMemoryResource().allocate(8 * 64)
view = np.from_dlpack(values).view(np.uint64)
view[:] = np.arange(64)
kernel = ObjectCode.from_ptx(sys.argv[1]).get_kernel("widened")
launch(stream, LaunchConfig(grid=1, block=64), kernel, values)
stream.sync()
half = int(np.float32(0.5).view(np.uint32))
assert view.tolist() == [7 + (n * half if n & 4 == 0 else 0) for n in range(64)], view
print("right")
"""


def test_a_kernel_on_which_llvm_aborts_computes_what_it_should(place):
    """LLVM 22 cannot select the first plan's code on AVX-512, and aborts its process."""
    (place / "widened.ptx").write_text(ptx_kernels.WIDENED)
    done = run(place, *python(WIDENED), str(place / "widened.ptx"), backend="jit")
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_the_program_computes_what_its_ptx_says(place):
    ptx = (EXAMPLES / "vecadd.ptx").read_text()
    assert ptx.count("add.f32") == 1
    (place / "changed.ptx").write_text(ptx.replace("add.f32", "sub.f32"))
    changed = ("--n", "512", "--ptx", str(place / "changed.ptx"))
    assert run(place, *VECTORADD, *changed, "--expect", "sub").returncode == 0
    wrong = run(place, *VECTORADD, *changed, "--expect", "add")
    assert wrong.returncode == 1
    assert "results WRONG" in wrong.stderr


@pytest.mark.parametrize(
    ("board", "profile", "options", "line"),
    [
        ("a30", "2g.12gb", (), "NVIDIA A30 MIG 2g.12gb, compute capability 8.0"),
        ("b200", "1g.23gb", ("--cc", "9.0"), "NVIDIA B200 MIG 1g.23gb, compute capability 9.0"),
    ],
)
def test_other_boards_and_a_lowered_capability(place, board, profile, options, line):
    done = run(
        place,
        *python("""
            from cuda.core import Device
            device = Device(0)
            device.set_current()
            major, minor = device.compute_capability
            print(f"{device.name}, compute capability {major}.{minor}")
        """),
        board=board,
        profile=profile,
        options=options,
    )
    assert done.returncode == 0, done.stderr
    assert line in done.stdout


def test_several_slices_lie_on_as_few_gpus_as_hold_them(place):
    done = run(place, *tessera("smi", "-L"), profile="3g.40gb", options=("--count", "3"))
    starts = [line.split("(UUID")[0].strip() for line in done.stdout.splitlines()]
    gpu = "GPU {}: NVIDIA H100 80GB HBM3"
    mig = "MIG 3g.40gb     Device  {}:"
    assert starts == [gpu.format(0), mig.format(0), mig.format(1), gpu.format(1), mig.format(0)]


def test_out_of_memory_is_2_and_the_slice_goes_on(place):
    done = run(
        place,
        *python("""
            from cuda.bindings import driver
            driver.cuInit(0)
            _, context = driver.cuDevicePrimaryCtxRetain(0)
            driver.cuCtxSetCurrent(context)
            status, _ = driver.cuMemAlloc(1 << 40)
            print(int(status))
            status, address = driver.cuMemAlloc(1 << 20)
            print(int(status), int(driver.cuMemFree(address)[0]))
            status, _ = driver.cuMemAlloc(200 << 20)
            print(int(status))
            status, free, total = driver.cuMemGetInfo()
            print(int(status), free <= 128 << 20, total)
        """),
        options=("--budget", str(128 << 20)),
    )
    assert done.stdout.split("\n")[:4] == ["2", "0 0", "2", f"0 True {9984 << 20}"], done.stderr
    assert "tessera: out of memory: 200 MiB requested" in done.stderr


GREEDY = """
import os, pynvml
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByUUID(os.environ["CUDA_VISIBLE_DEVICES"])
def free_mib():
    managed = pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2)
    assert managed.free == pynvml.nvmlDeviceGetMemoryInfo(device).free
    assert managed.free + managed.used + managed.reserved == managed.total
    return driver.cuMemGetInfo()[1] >> 20, managed.free >> 20
print("free", *free_mib())
allocated = 0
while int(driver.cuMemAlloc(2 << 20)[0]) == 0:
    allocated += 2
print("allocated", allocated, "free", *free_mib(), flush=True)
"""


def test_a_greedy_program_leaves_another_slice_the_part_that_it_sees_as_free(place):
    (place / "greedy.py").write_text(GREEDY + "input()\n")
    (place / "other.py").write_text(GREEDY)
    script = textwrap.dedent(f"""
        set -- $(ls "$TESSERA_SLICES_DIR")
        mkfifo go
        CUDA_VISIBLE_DEVICES=$1 {sys.executable} greedy.py < go > greedy.txt & exec 9> go
        while ! grep -q allocated greedy.txt; do sleep 0.05; done
        CUDA_VISIBLE_DEVICES=$2 {sys.executable} other.py
        echo >&9; wait; cat greedy.txt
    """)
    options = ("--count", "2", "--budget", str(256 << 20))
    done = run(place, "sh", "-c", f"cd {place} && {script}", options=options)
    assert done.stdout.splitlines() == [
        *("free 32 32", "allocated 32 free 0 0"),
        *("free 224 224", "allocated 224 free 0 0"),
    ], done.stderr
    assert (
        "out of memory: 2 MiB requested, 9952 MiB free in the slice, 0 MiB of the run's shared"
        " budget of 192 MiB, 0 MiB of this slice's guaranteed part of 32 MiB (--budget)"
    ) in done.stderr


def test_eight_contexts_on_one_slice_compute_at_the_same_time(place):
    script = textwrap.dedent(f"""
        for i in 1 2 3 4 5 6 7 8; do
            {sys.executable} {EXAMPLES}/vectoradd.py --n 2048 --seed $i > out.$i 2>&1 &
        done
        wait
    """)
    done = run(place, "sh", "-c", script, timeout_s=120)
    assert done.returncode == 0, done.stderr
    outputs = [(place / f"out.{number}").read_text() for number in range(1, 9)]
    assert all("2048 results verified" in output for output in outputs), outputs
    assert len({output.split("first")[1].splitlines()[0] for output in outputs}) == 8


def test_a_faulting_kernel_takes_its_own_context_alone(place):
    code = f"""
        import sys
        import numpy as np
        from cuda.bindings import driver

        def check(result):
            assert result[0] == 0, result
            return result[1:] if len(result) > 2 else result[-1]

        driver.cuInit(0)
        context = check(driver.cuDevicePrimaryCtxRetain(0))
        driver.cuCtxSetCurrent(context)
        module = check(driver.cuModuleLoadData(open({str(EXAMPLES / "vecadd.ptx")!r}, "rb").read() + b"\\0"))
        kernel = check(driver.cuModuleGetFunction(module, b"vecadd"))
        good = check(driver.cuMemAlloc(4096))
        values = [np.array([int(a)], np.uint64) for a in (good, good, int(sys.argv[1], 0))]
        values.append(np.array([256], np.int32))
        pointers = np.array([v.ctypes.data for v in values], np.uint64)
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 256, 1, 1, 0, 0, pointers.ctypes.data, 0))
        print(int(driver.cuCtxSynchronize()[0]))
        print(int(driver.cuCtxSynchronize()[0]))
    """
    (place / "fault.py").write_text(textwrap.dedent(code))
    neighbour = f"{sys.executable} {EXAMPLES}/vectoradd.py --n 2048 --seconds 2 > words"
    faulty = f"{sys.executable} fault.py"
    script = f"{neighbour} & {faulty} 0; {faulty} 0x7fff00000000; wait $!"
    done = run(place, "sh", "-c", script, timeout_s=120)
    assert done.returncode == 0, done.stderr
    assert "2048 results verified" in (place / "words").read_text()
    assert done.stdout.splitlines() == ["700"] * 4
    assert done.stderr.count("kernel vecadd") == 2  # the kernel, reported once by each program


def test_no_slice_is_no_device(place):
    code = python("""
        import ctypes
        libcuda = ctypes.CDLL("libcuda.so.1")
        print(libcuda.cuInit(0))
    """)
    outside = environment(place) | {
        "LD_LIBRARY_PATH": str(LIBCUDA.parent),
        "TESSERA_SLICES_DIR": str(place / "nowhere"),
    }
    done = subprocess.run(code, env=outside, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "100", done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--n", "0"), "--n must be"),
        (("--n", "2147483648"), "--n must be"),
        (("--hold", "-1"), "cannot be negative"),
        (("--ptx", "nowhere.ptx"), "there is no file nowhere.ptx"),
        ((), "no usable CUDA device"),
    ],
)
def test_the_example_says_in_a_line_why_it_cannot_run(place, arguments, complaint):
    outside = environment(place) | {
        "LD_LIBRARY_PATH": str(LIBCUDA.parent),
        "TESSERA_SLICES_DIR": str(place / "nowhere"),
    }
    command = (*VECTORADD, *arguments)
    done = subprocess.run(command, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert complaint in done.stderr.splitlines()[-1]


def test_smi_inside_a_run_shows_the_slice_and_its_programs(place):
    listing = run(place, *tessera("smi", "-L"))
    lines = listing.stdout.splitlines()
    assert lines[0].startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")
    assert lines[1].startswith("  MIG 1g.10gb     Device  0: (UUID: MIG-")
    script = f"""
        {sys.executable} {EXAMPLES}/vectoradd.py --n 512 --hold 600 > words &
        until grep -qs verified words; do sleep 0.1; done
        {" ".join(map(repr, tessera("smi", "--json")))}
        kill $!
    """
    document = json.loads(run(place, "sh", "-c", script).stdout)
    (device,) = document["gpus"][0]["devices"]
    (process,) = device["processes"]
    assert process["pid"] > 0
    assert process["name"] == sys.executable
    assert process["memory_bytes"] == device["memory_used_bytes"] > 0
    assert document["isolation_enforced"] is False
    assert "standalone" in document["isolation_reason"]


ENDLESS = f"""
import ctypes, json, subprocess
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxCreate(None, 0, 0)
flag = d.cuMemHostAlloc(4, 0)[1]; ctypes.memset(flag, 0, 4)
function = d.cuModuleGetFunction(
    d.cuModuleLoadData({ptx_kernels.ENDLESS.encode() + bytes(1)!r})[1], b"endless")[1]
d.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((flag,), (ctypes.c_void_p,)), 0)
"""


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_smi_says_which_kernel_runs(place, backend):
    look = f"""
def smi(option):
    command = [*{tessera("smi")!r}, option]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
def process():
    return json.loads(smi("--json"))["gpus"][0]["devices"][0]["processes"][0]
while not process()["running_kernel"]: pass
seen = process()
print(seen["running_kernel"], seen["launches"], seen["busy_ns"] > 0, seen["running_seconds"] > 0)
line = next(one for one in smi("-q").splitlines() if "Running Kernel" in one)
print(line.split(":")[1].split(",")[0].strip(), line.endswith(" s"))
ctypes.memset(flag, 1, 4)
print(int(d.cuCtxSynchronize()[0]))
while process()["running_kernel"]: pass
seen = process()
print(seen["running_kernel"], seen["running_seconds"], seen["launches"])
"""
    done = run(place, *python(ENDLESS + look), backend=backend)
    assert done.stdout == "endless 0 True True\nendless True\n0\nNone None 1\n", done.stderr


def test_the_largest_number_of_threads_can_be_requested(place):
    most = str(limits.MAX_WORKER_THREADS)
    done = run(place, *VECTORADD, "--n", "4097", backend="jit", options=("--threads", most))
    assert "4097 results verified" in done.stdout, done.stderr


def test_statistics_that_cannot_be_written_leave_the_programs_status(place):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            run_command(*python("raise SystemExit(7)"), options=("--stats",)),
            env=environment(place),
            stderr=full,
            timeout=60,
            check=False,
        )
    assert done.returncode == 7


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_a_kernel_that_never_ends_is_ended(place, backend):
    end = "print(int(d.cuCtxSynchronize()[0]))"
    options = ("--kernel-timeout", "0.5")
    done = run(place, *python(ENDLESS + end), backend=backend, options=options)
    assert done.stdout == "702\n", done.stderr
    # No line and no block: the place in the kernel is unknown.
    assert "CUDA error 702: kernel endless: the kernel ran for" in done.stderr
    assert "ran for more than the 0.5 s that --kernel-timeout allows" in done.stderr


def test_stats_show_a_kernel_that_ran_out_of_time(place):
    end = "print(int(d.cuCtxSynchronize()[0]))"
    options = ("--stats", "--kernel-timeout", "0.5")
    done = run(place, *python(ENDLESS + end), options=options)
    assert done.stdout == "702\n", done.stderr
    rows = [line for line in done.stderr.splitlines() if line.startswith("tessera run: ")]
    assert rows[0] == "tessera run: contexts: 1"
    assert rows[2] == (
        "tessera run:          1            -            -  endless (did not end: the kernel ran for"
        " more than the 0.5 s that --kernel-timeout allows)"
    )


def test_several_slices_are_for_several_processes(place):
    ask = (
        "from cuda.bindings import driver as d; print(int(d.cuInit(0)[0]), d.cuDeviceGetCount()[1])"
    )
    each = f"""
import os, subprocess, sys
for chosen in ("0", "1", "2"):
    environment = os.environ | {{"CUDA_VISIBLE_DEVICES": chosen}}
    subprocess.run([sys.executable, "-c", {ask!r}], env=environment)
"""
    done = run(place, *python(each), options=("--count", "2"))
    assert done.stdout.splitlines() == ["0 1", "0 1", "100 None"], done.stderr
    assert done.stderr.splitlines() == [
        "tessera run: 2 slices; as in CUDA each process has one of them as its device: the first,"
        " or the one that its CUDA_VISIBLE_DEVICES (0 to 1) names",
        'tessera: CUDA_VISIBLE_DEVICES: "2" does not name one of the devices here (2); as in CUDA,'
        " it and every entry after it are ignored",
    ]


HALF = """
import os, sys
from cuda.bindings import driver as d
d.cuInit(0)
device = d.cuDeviceGet(0)[1]
sms = d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
print(int(d.cuDeviceGetAttribute(sms, device)[1]), d.cuDeviceGetName(64, device)[1].split(b"\\0")[0])
d.cuCtxSetCurrent(d.cuDevicePrimaryCtxRetain(device)[1])
if len(sys.argv) == 1:
    print(int(d.cuMemAlloc(64 << 20)[0]), flush=True)
    sys.stdin.read()
else:
    _, free, total = d.cuMemGetInfo()
    print(total >> 20, total - free >= 64 << 20, int(d.cuMemAlloc(total - (62 << 20))[0]))
"""


def test_two_programs_share_a_gpu_instance_s_memory_and_not_its_sms(place):
    """A30: memory that one program holds is unavailable to the other, although the node has far
    more.
    """
    both = f"""
import os, subprocess, sys
def begin(chosen, *more):
    environment = os.environ | {{"CUDA_VISIBLE_DEVICES": chosen}}
    pipes = {{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}}
    return subprocess.Popen([sys.executable, "-c", {HALF!r}, *more], env=environment, **pipes)
holder = begin("0")
print(holder.stdout.readline() + holder.stdout.readline(), end="")
print(begin("1", "more").communicate()[0], end="")
holder.communicate()
"""
    options = ("--board", "a30", "--count", "2", "--budget", str(1 << 45))
    done = run(place, *python(both), profile="1c.2g.12gb", options=options)
    device = "14 b'NVIDIA A30 MIG 1c.2g.12gb'"
    assert done.stdout.splitlines() == [device, "0", device, "11968 True 2"], done.stderr


def test_stats_say_what_a_run_has_cost(place):
    """Also from a second context; and from the cache the second time."""
    twice = """
import subprocess, sys
for n in ("4096", "512"): subprocess.run([sys.executable, sys.argv[1], "--n", n], check=True)
"""
    program = (*python(twice), VECTORADD[1])
    first = run(place, *program, backend="jit", options=("--stats",))
    assert first.returncode == 0, first.stderr
    lines = [line.removeprefix("tessera run: ") for line in first.stderr.splitlines()]
    assert lines[:2] == ["contexts: 2", "  launches     total ms      mean us  kernel"]
    launches, total_ms, mean_us, name = lines[2].split()
    assert (launches, name) == ("4", "vecadd")
    assert float(total_ms) > 0
    assert float(mean_us) == pytest.approx(float(total_ms) * 1000 / 4, abs=1)
    assert re.fullmatch(
        r"modules loaded: 2 in \d+\.\d{3} s, 1 compiled, 1 from the cache", lines[3]
    ), lines
    assert re.fullmatch(r"kernels compiled for a block shape: 2 in \d+\.\d{3} s", lines[4])
    # The second run finds better code if the first ran long enough.
    narrow = r"  [12] of them first as narrow code, \d improved since; launches improved while they ran: \d"
    assert re.fullmatch(narrow, lines[5])
    assert len(lines) == 6
    assert run(place, *VECTORADD, "--n", "64").stderr == "", "no usage without the option"


def test_stats_of_a_context_that_faults_and_of_no_context(place):
    fault = f"""
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxCreate(None, 0, 0)
poke = d.cuModuleGetFunction(
    d.cuModuleLoadData({ptx_kernels.POKE.encode() + bytes(1)!r})[1], b"poke")[1]
import ctypes
def launch(pointer):
    kinds = (ctypes.c_uint64, ctypes.c_uint32)
    d.cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, 0, ((pointer, 1), kinds), 0)
    print(int(d.cuCtxSynchronize()[0]))
launch(int(d.cuMemAlloc(4)[1])); launch(8)
"""
    done = run(place, *python(fault), options=("--stats",))
    assert done.stdout == "0\n700\n", done.stderr
    assert "tessera run: contexts: 1\n" in done.stderr
    assert re.search(r"^tessera run: +1 .* poke$", done.stderr, re.MULTILINE), done.stderr
    nothing = run(place, "true", options=("--stats",))
    assert nothing.stderr.startswith("tessera run: contexts: 0\n")


def test_without_a_slice_a_program_has_whole_gpus(place):
    ask = (
        "from cuda.bindings import driver as d; d.cuInit(0); n = d.cuDeviceGetCount()[1];"
        " print(n, [d.cuDeviceGetName(99, i)[1].split(b'\\0')[0].decode() for i in range(n)],"
        " [d.cuDeviceTotalMem(i)[1] >> 20 for i in range(n)])"
    )
    done = subprocess.run(
        tessera("run", "--board", "a30", "--count", "2", "--", *python(ask)),
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "2 ['NVIDIA A30', 'NVIDIA A30'] [24576, 24576]\n", done.stderr
    assert done.stderr == ""


def test_device_files_exist_on_request_and_do_nothing(place):
    code = """
        import errno, fcntl, os, stat
        for name in ("/dev/nvidiactl", "/dev/nvidia0"):
            assert stat.S_ISREG(os.stat(name).st_mode)
            with open(name, "rb") as file:
                assert file.read() == b""
                try:
                    fcntl.ioctl(file, 0xC00846D6)
                except OSError as error:
                    print(errno.errorcode[error.errno])
            try:
                open(name, "wb")
            except OSError as error:
                print(errno.errorcode[error.errno] in ("EROFS", "EACCES"))
        assert os.stat("/dev/null").st_rdev and os.path.isdir("/dev/shm")
    """
    done = run(place, *python(code), options=("--device-files",))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ENOTTY", "True", "ENOTTY", "True"]


def test_preloaded_libraries_precede_those_of_an_rpath(place) -> None:
    """The linker loads no second library of a name, such as that of a wheel."""
    code = """
        import ctypes
        for name in ("libcudart.so.13", "libcublas.so.13"):
            ctypes.CDLL(name)
        with open("/proc/self/maps") as maps:
            print(sorted({line.split()[-1] for line in maps if "/libcublas.so" in line}))
        ctypes.CDLL(None).cudaGetDeviceCount, ctypes.CDLL(None).cublasCreate_v2
    """
    done = run(place, *python(code), options=("--preload", "13"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"['{config.LIBRARIES_DIR / 'math' / 'libcublas.so.13'}']"
    assert run(place, *python(code)).returncode != 0, "the last line needs preloaded libraries"
