"""Separate programs: C with -lcuda, dlopen, sanitizers, and unmodified cuda.core."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.kept import native_parts
from support.kernels import ptx_kernels
from support.processes.gpud_process import wait_until
from vgpu_sim.native import build

EXAMPLES = Path(__file__).parents[3] / "examples"
VECADD = str(EXAMPLES / "vecadd.ptx")
TIMEOUT_S = 240


@pytest.fixture
def spin(tmp_path) -> Path:
    """PTX of a kernel that the threads of contexts.c launch."""
    path = tmp_path / "spin.ptx"
    path.write_text(ptx_kernels.SPIN)
    return path


def run(command, environment, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_a_program_linked_with_lcuda(compile_c, libraries, either_backend):
    program = compile_c("linked", f"-L{libraries}", "-lcuda")
    done = run([program, VECADD], either_backend)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == "13000 1 NVIDIA H100 80GB HBM3 MIG 1g.10gb\n10000 results, wrong 0, graphics 801\n"
    )
    assert done.stderr.count("cuGraphicsUnregisterResource is not supported") == 1


def test_a_changed_kernel_changes_the_result(compile_c, libraries, either_backend, tmp_path):
    program = compile_c("linked", f"-L{libraries}", "-lcuda")
    changed = tmp_path / "changed.ptx"
    changed.write_text(Path(VECADD).read_text().replace("add.f32", "sub.f32"))
    done = run([program, changed], either_backend)
    assert done.returncode == 1
    assert "10000 results, wrong 9999" in done.stdout  # 0 - 0 is 0 + 0


def test_a_program_that_resolves_by_name_and_forks(compile_c, environment):
    done = run([compile_c("dynamic", "-ldl")], environment)
    assert (done.returncode, done.stdout) == (0, "child 0\n"), done.stderr


def test_threads(compile_c, libraries, either_backend):
    program = compile_c("stress", f"-L{libraries}", "-lcuda")
    done = run([program, VECADD, "6"], either_backend)
    assert (done.returncode, done.stdout) == (0, "failures 0\n"), done.stderr


def test_threads_that_share_contexts(compile_c, libraries, either_backend, spin):
    program = compile_c("contexts", f"-L{libraries}", "-lcuda")
    done = run([program, spin, "50"], either_backend)
    assert (done.returncode, done.stdout) == (0, "failures 0\n"), done.stderr


def test_streams_side_by_side(compile_c, libraries, either_backend, tmp_path):
    """Kernels wait for later kernels, fills and copies of other streams."""
    program = compile_c("overlap", f"-L{libraries}", "-lcuda")
    flags = tmp_path / "flags.ptx"
    flags.write_text(ptx_kernels.FLAGS)
    done = run([program, flags], either_backend)
    assert (done.returncode, done.stdout) == (0, "failures 0\n"), done.stderr


def test_a_slow_load_keeps_no_other_thread_waiting(compile_c, libraries, either_backend, tmp_path):
    program = compile_c("loads", f"-L{libraries}", "-lcuda")
    slow = tmp_path / "slow.ptx"
    slow.write_text(ptx_kernels.straight(40_000))
    done = run([program, slow, VECADD], either_backend)
    assert (done.returncode, done.stdout) == (0, "beside, failures 0\n"), done.stderr


def test_a_library_that_is_loaded_late_keeps_only_its_users_waiting(
    compile_c, libraries, either_backend, tmp_path
):
    program = compile_c("libraries", f"-L{libraries}", "-lcuda")
    slow = tmp_path / "slow.ptx"
    # A text that is in no cache of modules, whether this test's or another's.
    slow.write_text(ptx_kernels.straight(20_000) + f"// {either_backend['TESSERA_SLICES_DIR']}\n")
    done = run([program, slow, VECADD], either_backend)
    wanted = (0, "beside, unloaded after, failures 0\n")
    assert (done.returncode, done.stdout) == wanted, done.stderr


@pytest.mark.timeout(900)  # beside other tests, libcuda with a sanitizer takes minutes to compile
@pytest.mark.parametrize(("name", "rounds"), [("stress", 3), ("contexts", 30)])
def test_threads_under_sanitizers(compile_c, environment, spin, name, rounds):
    """ThreadSanitizer leaves no 8 TiB for the aperture; test_native_ring.py uses it instead."""
    libraries = build.SANITIZED / "native-address"
    native_parts.build_kept("libcuda.so.1", libraries, "address")
    program = compile_c(name, "-fsanitize=address", f"-L{libraries}", "-lcuda")
    # Handles are kept in slabs that live as long as the process, which is not a leak.
    done = run(
        [program, VECADD if name == "stress" else spin, rounds],
        environment,
        LD_LIBRARY_PATH=str(libraries),
        ASAN_OPTIONS="detect_leaks=0",
    )
    assert (done.returncode, done.stdout) == (0, "failures 0\n"), done.stderr[:5000]


def test_cuda_core_unmodified(either_backend):
    """The example uses pageable, pinned and asynchronous copies, two streams, and events."""
    done = run([sys.executable, EXAMPLES / "vectoradd.py", "--n", "100000"], either_backend)
    assert done.returncode == 0, done.stderr
    assert "100000 results verified" in done.stdout
    assert "NVIDIA H100 80GB HBM3 MIG 1g.10gb" in done.stdout


CUDA_CORE = """
import numpy as np, sys
from cuda.core import Device, LaunchConfig, ObjectCode, launch
device = Device(); device.set_current()
stream = device.create_stream()
code = ObjectCode.from_ptx(open(sys.argv[1], "rb").read())
kernel = code.get_kernel("vecadd")
print(kernel.num_arguments, [(i.offset, i.size) for i in kernel.arguments_info])
print(kernel.attributes.max_threads_per_block, kernel.attributes.ptx_version)
buffers = [device.allocate(400, stream=stream) for _ in range(3)]
launch(stream, LaunchConfig(grid=1, block=100), kernel, *buffers, np.int32(100))
event = stream.record(); event.sync(); print(event.is_done)
other = device.create_stream(); other.wait(stream); other.sync()
for buffer in buffers: buffer.close(stream)
stream.close()
print(device.uuid, device.properties.multiprocessor_count)
"""


def test_cuda_core_questions(environment):
    done = run([sys.executable, "-c", CUDA_CORE, VECADD], environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "4 [(0, 8), (8, 8), (16, 8), (24, 4)]"
    assert lines[1] == "1024 80"
    assert lines[2] == "True"
    assert lines[3].endswith(" 16")


def test_memory_is_given_back_when_a_program_dies(environment):
    """SIGKILL during its work: the worker ends, and its memory is freed."""
    text = (
        "import os, signal; from cuda.bindings import driver as d; d.cuInit(0)\n"
        "d.cuCtxCreate(None, 0, 0); print(int(d.cuMemAlloc(64 << 20)[0]), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = run([sys.executable, "-c", text], environment)
    assert done.returncode == -9
    assert done.stdout == "0\n"
    text = (
        "from cuda.bindings import driver as d; d.cuInit(0); d.cuCtxCreate(None, 0, 0)\n"
        "print(*d.cuMemGetInfo())"
    )

    def everything_is_free() -> bool:
        free, total = run([sys.executable, "-c", text], environment).stdout.split()[-2:]
        return free == total

    wait_until(everything_is_free)
