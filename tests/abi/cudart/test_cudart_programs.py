"""Programs linked with libcudart.so.12 and libcudart.so.13."""

import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_sim.native import catalogue

TIMEOUT_S = 240
MAJORS = (12, 13)
NULLS = Path(__file__).parents[1] / "programs/cudart/runtime_null_arguments.py"
WITHOUT_DEVICE = """
import ctypes, os, sys
runtime = ctypes.CDLL(f"libcudart.so.{sys.argv[1]}")
count, pointer = ctypes.c_int(7), ctypes.c_void_p()
print(runtime.cudaGetDeviceCount(ctypes.byref(count)), count.value)
print(runtime.cudaMalloc(ctypes.byref(pointer), 16), runtime.cudaGetLastError())
"""
AFTER_FORK = """
import ctypes, os, sys
runtime = ctypes.CDLL(f"libcudart.so.{sys.argv[1]}")
pointer = ctypes.c_void_p()
print(runtime.cudaMalloc(ctypes.byref(pointer), 16), flush=True)
if os.fork() == 0:
    print(runtime.cudaMalloc(ctypes.byref(pointer), 16), flush=True)
    os._exit(0)
os.wait()
print(runtime.cudaFree(pointer))
"""
# Which context is current when the device is reset: that of the runtime, the same one but set by the
# program, or one of the program's own.
AFTER_RESET = """
import ctypes, sys
runtime = ctypes.CDLL(f"libcudart.so.{sys.argv[1]}")
driver = ctypes.CDLL("libcuda.so.1")
pointer, device = ctypes.c_void_p(), ctypes.c_int()
def current():
    context = ctypes.c_void_p()
    assert driver.cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value
def allocate():
    return runtime.cudaMalloc(ctypes.byref(pointer), 16)
print(allocate())
ended = current()
print(runtime.cudaDeviceReset(), current() == ended, driver.cuMemAlloc_v2(ctypes.byref(pointer), 16))
print(allocate(), runtime.cudaMemset(pointer, 0, 16), driver.cuMemFree_v2(pointer), runtime.cudaFree(0))
primary = ctypes.c_void_p()
print(runtime.cudaDeviceReset(), driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 0))
print(driver.cuCtxSetCurrent(primary), runtime.cudaGetDevice(ctypes.byref(device)), device.value)
print(runtime.cudaDeviceReset(), current() == primary.value, allocate())
print(runtime.cudaGetDevice(ctypes.byref(device)), device.value)
own = ctypes.c_void_p()
print(driver.cuCtxCreate_v2(ctypes.byref(own), 0, 0), runtime.cudaDeviceReset(), current() == own.value)
print(allocate(), current() == own.value)
"""
UNSUPPORTED = """
import ctypes, sys
runtime = ctypes.CDLL(f"libcudart.so.{sys.argv[1]}")
for _ in range(2): print(runtime.cudaGLSetGLDevice(0))
print(runtime.cudaGetLastError(), runtime.cudaGetLastError())
"""
KERNELS = """
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 bias;
.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %rd<5>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n];
  setp.ge.u32 %p, %r4, %r5;
  @%p bra DONE;
  ld.param.u64 %rd1, [data];
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r4, 4;
  add.u64 %rd4, %rd2, %rd3;
  ld.param.f32 %f1, [factor];
  ld.global.u32 %r1, [bias];
  cvt.rn.f32.u32 %f2, %r1;
  ld.global.f32 %f3, [%rd4];
  fma.rn.f32 %f4, %f1, %f3, %f2;
  st.global.f32 [%rd4], %f4;
DONE:
  ret;
}
.visible .entry fault()
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 8;
  st.global.u64 [%rd1], %rd1;
  ret;
}
"""


@pytest.fixture
def image(tmp_path) -> Path:
    path = tmp_path / "kernels.ptx"
    path.write_text(KERNELS, encoding="ascii")
    return path


def compile_with(compile_c, libraries: Path, major: int, name: str, *flags: str) -> Path:
    """Compile a program and link it with the runtime of a major version, without the driver."""
    return compile_c(
        name,
        f"-DTSR_CUDART={major}",
        f"-I{catalogue.CLIENTS / 'libcudart'}",
        f"-I{catalogue.GENERATED / f'libcudart{major}'}",
        f"-L{libraries}",
        f"-l:libcudart.so.{major}",
        f"-Wl,-rpath-link,{libraries}",
        *flags,
    )


def run(program: Path, environment: dict[str, str], *arguments: Path | str) -> tuple[int, str, str]:
    """Run a program and return its exit status, output and messages."""
    done = subprocess.run(
        [program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    "name", ["runtime_steps", "runtime_breadth", "runtime_variants", "runtime_newer"]
)
def test_a_program_with_registered_kernels(
    compile_c, libraries, environment, image, major, name
) -> None:
    program = compile_with(compile_c, libraries, major, name)
    arguments = (image, image.with_name("log")) if name == "runtime_newer" else (image,)
    status, output, errors = run(program, environment, *arguments)
    assert (status, output) == (0, "failures 0\n"), errors


@pytest.mark.parametrize("major", MAJORS)
def test_a_program_with_arrays_and_textures(compile_c, libraries, environment, major) -> None:
    program = compile_with(compile_c, libraries, major, "runtime_arrays")
    status, output, errors = run(program, environment)
    assert (status, output) == (0, "failures 0\n"), errors


@pytest.mark.parametrize("major", MAJORS)
def test_a_program_with_a_managed_variable(compile_c, libraries, environment, image, major) -> None:
    plain = ".visible .global .align 4 .u32 bias;"
    assert plain in KERNELS
    managed = ".visible .global .attribute(.managed) .align 4 .u32 bias = 40;"
    image.write_text(KERNELS.replace(plain, managed), encoding="ascii")
    program = compile_with(compile_c, libraries, major, "runtime_managed")
    status, output, errors = run(program, environment, image)
    assert (status, output) == (0, "failures 0\n"), errors


def test_threads_and_libraries_of_one_process(compile_c, libraries, environment, image) -> None:
    plugin = compile_with(compile_c, libraries, 13, "runtime_plugin", "-shared", "-fPIC")
    program = compile_with(compile_c, libraries, 13, "runtime_threads", "-lcuda", "-ldl")
    status, output, errors = run(program, environment, image, plugin)
    assert (status, output) == (0, "failures 0\n"), errors


@pytest.mark.parametrize("major", MAJORS)
def test_null_arguments_end_no_process(environment, major) -> None:
    status, output, errors = run(Path(sys.executable), environment, NULLS, str(major))
    last = output.splitlines()[-1]
    assert (status, last) == (0, "calls True"), f"{last}\n{errors}"


def python(text: str, environment: dict[str, str], major: int) -> tuple[int, str, str]:
    return run(Path(sys.executable), environment, "-c", text, str(major))


@pytest.mark.parametrize("major", MAJORS)
def test_without_a_device_the_count_is_0(environment, tmp_path, major) -> None:
    elsewhere = {**environment, "TESSERA_SLICES_DIR": str(tmp_path)}
    status, output, errors = python(WITHOUT_DEVICE, elsewhere, major)
    assert (status, output) == (0, "100 0\n100 100\n"), errors


def test_a_child_process_cannot_use_the_parents_devices(environment) -> None:
    status, output, errors = python(AFTER_FORK, environment, 13)
    assert (status, output) == (0, "0\n3\n0\n"), errors


@pytest.mark.parametrize("major", MAJORS)
def test_a_reset_keeps_the_current_context_of_the_driver(environment, major) -> None:
    """NVIDIA's runtime keeps the handle; the next call of the runtime makes a new context."""
    status, output, errors = python(AFTER_RESET, environment, major)
    lines = ["0", "0 True 709", "0 0 0 0", "0 0", "0 0 0", "0 True 0", "0 0", "0 0 True", "0 True"]
    assert (status, output.splitlines()) == (0, lines), errors


def test_a_missing_function_is_logged_once(environment) -> None:
    status, output, errors = python(UNSUPPORTED, environment, 13)
    assert (status, output) == (0, "801\n801\n801 0\n")
    assert errors == "tessera: cudaGLSetGLDevice is not supported (cudaErrorNotSupported)\n"
