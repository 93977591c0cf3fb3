"""CUDA C++ that ``tessera cc`` compiles from several files runs right, and failures pass through.

The programs in ``tests/abi/programs/sdk`` compare every result with the host's own. The oldest
and the newest clang of the machine compile them on alternate days.
"""

import subprocess
from pathlib import Path

import pytest

from support.kept import clangs, cuda_programs
from support.processes import tessera_run
from support.processes.tessera_run import REPOSITORY
from vgpu_sim.sdk.errors import CompileError

SOURCES = REPOSITORY / "tests" / "abi" / "programs" / "sdk"
CHECKS = {
    "accuracy", "sums", "products", "random numbers", "transforms", "reductions", "sorting",
    "atomics", "groups", "stages", "memory", "calls", "tensor cores", "small formats",
}  # fmt: skip
# Those that share most code with the others; without names the program measures all of them.
MEASURED = ("sin", "pow", "erf", "expm1", "tanh", "lgamma", "tgamma", "normcdf", "rsqrt", "rcbrt")


def missing() -> str | None:
    """Return why nothing can be compiled, or None."""
    try:
        clangs.of_day()
    except CompileError as err:
        return f"NOT RUN: {err}"
    return None


pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def compile_cuda(temporary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clang = str(clangs.of_day().path)
    return tessera_run.to_its_end(temporary, "cc", "-ccbin", clang, *arguments, timeout_s=240)


def build(temporary: Path, source: Path, *options: str, output: str = "program") -> None:
    command = str(source), *options, "-o", output
    made = cuda_programs.compile_kept(
        temporary, command, source, lambda: compile_cuda(temporary, *command)
    )
    assert (made.returncode, made.stderr) == (0, "")


def run_program(temporary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (str(temporary / "program"), *arguments)
    return tessera_run.run(temporary, *command, timeout_s=240, kept=True, backend="jit")


def test_textures_and_surfaces_return_what_the_host_computes(tmp_path: Path) -> None:
    build(tmp_path, SOURCES / "textures.cu")
    done = run_program(tmp_path)
    assert (done.returncode, done.stdout) == (0, "failures 0\n"), done.stderr


@pytest.mark.parametrize(
    ("program", "checks"),
    [
        (
            "idioms",
            [
                "aggregated atomics", "broadcasts", "objects", "split barriers", "spellings",
                "dynamic programming", "mathematics", "templates",
            ],
        ),
        ("halves", ["halves", "bfloat16"]),
        (
            "conversions",
            ["half", "bfloat16", "8 bits", "powers", "wide", "permutations", "integers"],
        ),
        ("implicit_includes", ["implicit includes"]),
    ],
)  # fmt: skip
def test_what_programs_commonly_write_computes_right(
    tmp_path: Path, program: str, checks: list[str]
) -> None:
    build(tmp_path, SOURCES / f"{program}.cu")
    done = run_program(tmp_path)
    assert done.stdout.splitlines() == [f"{check}: right" for check in checks], done.stderr
    assert done.returncode == 0, done.stderr


def test_atomic_additions_of_vectors_are_not_left_out(tmp_path: Path) -> None:
    build(tmp_path, SOURCES / "vector_atomics.cu", "-arch=sm_90")
    done = run_program(tmp_path)
    assert (done.returncode, done.stdout) == (0, "vector atomics: right\n"), done.stderr


@pytest.mark.parametrize(
    ("program", "checks"),
    [
        ("builtins", ["dot products", "pairs", "orders", "atomics", "tiles", "tangents"]),
        ("bulk", ["bulk copies", "latches"]),
    ],
)
def test_what_needs_compute_capability_9_computes_right(
    tmp_path: Path, program: str, checks: list[str]
) -> None:
    build(tmp_path, SOURCES / f"{program}.cu", "-arch=sm_90")
    done = run_program(tmp_path)
    assert done.stdout.splitlines() == [f"{check}: right" for check in checks], done.stderr
    assert done.returncode == 0, done.stderr


def test_blocks_of_a_cluster_share_a_histogram(tmp_path: Path) -> None:
    build(tmp_path, SOURCES / "clusters.cu", "-arch=sm_90")
    done = run_program(tmp_path)
    assert (done.returncode, done.stdout) == (0, "clusters: right\n"), done.stderr


def test_managed_variables_are_the_same_for_host_and_kernels(tmp_path: Path) -> None:
    build(tmp_path, SOURCES / "managed.cu", "-O1")
    done = run_program(tmp_path)
    assert (done.returncode, done.stdout) == (0, "failures 0\n"), done.stdout + done.stderr


def test_managed_variables_of_separate_compilation_are_refused(tmp_path: Path) -> None:
    made = compile_cuda(tmp_path, "-dc", str(SOURCES / "managed.cu"), "-o", "managed.o")
    assert made.returncode != 0
    assert "__managed__ variables need `tessera cc` without -rdc=true" in made.stderr


def test_a_kernel_that_requires_clusters_gets_them(tmp_path: Path) -> None:
    build(tmp_path, SOURCES / "required_clusters.cu", "-arch=sm_90")
    done = run_program(tmp_path)
    assert (done.returncode, done.stdout) == (0, "blocks 2 1 1 4\n"), done.stdout + done.stderr


def test_the_example_of_a_kernel_that_launches_kernels_runs(tmp_path: Path) -> None:
    build(tmp_path, REPOSITORY / "examples" / "device_launch.cu")
    done = run_program(tmp_path)
    expected = "the sum of the squares below 1000 is 332833500\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_kernels_call_the_runtime(tmp_path: Path) -> None:
    build(tmp_path, SOURCES / "device_runtime.cu", "-rdc=true")
    done = run_program(tmp_path)
    assert (done.returncode, done.stdout) == (0, "device runtime: right\n"), done.stderr


def test_programs_of_several_files_run_right(tmp_path: Path) -> None:
    names = ("arithmetic", "cooperation", "language", "accuracy", "formats")
    for name in names:
        build(tmp_path, SOURCES / f"{name}.cu", "-dc", "-O2", "-arch=sm_90", output=f"{name}.o")
    objects = [f"{name}.o" for name in names]
    made = compile_cuda(tmp_path, "-lib", "-o", "libchecks.a", *objects[1:3])
    assert made.returncode == 0, made.stderr
    options = ("-rdc=true", "-arch=sm_90", objects[0], *objects[3:], "-L.", "-lchecks")
    build(tmp_path, SOURCES / "shared.cu", *options)
    done = run_program(tmp_path, *MEASURED)
    lines = done.stdout.splitlines()
    outcomes = dict(line.split(": ") for line in lines if line.endswith((": right", ": WRONG")))
    assert outcomes == dict.fromkeys(CHECKS, "right"), done.stdout + done.stderr
    assert {line for line in lines if line.startswith("kernel")} == {
        "kernel: block 0 n=4 f=2.50 text",
        "kernel: block 1 n=4 f=2.50 text",
    }


def test_the_clangs_errors_and_exit_status_pass_through(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    source.write_text("__global__ void k(int *p) { *p = undeclared; }\n")
    made = compile_cuda(tmp_path, "-c", str(source))
    assert made.returncode == 1
    assert "wrong.cu:1:34: error: use of undeclared identifier 'undeclared'" in made.stderr
    source.write_text("__global__ void k(double *p) { *p = j0(*p); }\n")
    made = compile_cuda(tmp_path, "-ptx", str(source))
    assert made.returncode == 1
    assert "not implemented in the CUDA headers of tessera cc" in made.stderr


def test_shuffles_without_a_mask_are_refused_with_the_function_to_use(tmp_path: Path) -> None:
    names = ("__shfl", "__shfl_up", "__shfl_down", "__shfl_xor")
    source = tmp_path / "shuffles.cu"
    lines = (f"__global__ void k{name}(float *p) {{ *p = {name}(*p, 1); }}\n" for name in names)
    source.write_text("".join(lines))
    made = compile_cuda(tmp_path, "-ptx", str(source))
    assert made.returncode == 1
    for name in names:
        assert f"later have no {name}; use {name}_sync, whose first" in made.stderr
    assert "Cannot select" not in made.stderr


@pytest.mark.parametrize("options", [["-ptx"], ["-rdc=true", "-o", "program"]])
def test_variables_with_addresses_of_each_other_are_named(
    tmp_path: Path, options: list[str]
) -> None:
    source = tmp_path / "circular.cu"
    source.write_text(
        "struct Node { Node *next; };\n"
        "extern __device__ Node second;\n"
        "__device__ Node first = {&second}, second = {&first}, third = {&first};\n"
        "namespace names { static __device__ void *own = &own; }\n"
        "__global__ void k(bool *p) { *p = names::own == third.next; }\n"
        "int main() {}\n"
    )
    made = compile_cuda(tmp_path, *options, str(source))
    assert made.returncode == 1
    assert "which clang cannot write: first, names::own, second; assign" in made.stderr
    assert "Stack dump" not in made.stderr


def test_one_fat_binary_has_ptx_of_every_architecture(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k(int *p) { *p = __CUDA_ARCH__; }\n')
    made = compile_cuda(
        tmp_path, "-fatbin", "-gencode", "arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=[sm_90,compute_90]", str(source), "-o", "k.fatbin",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    image = (tmp_path / "k.fatbin").read_bytes()
    assert image.count(b".target sm_80") == 1
    assert image.count(b".target sm_90") == 1


def test_names_and_languages_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "r.o").write_text("read as a response file\n")
    (tmp_path / "r.c").write_text("int twice(int a) { int new = 2 * a; return new; }\n")
    (tmp_path / "m.cu").write_text(
        'extern "C" int twice(int);\n'
        "__global__ void k(int *p) { *p = 1; }\n"
        "int main() { return twice(21) != 42; }\n"
    )
    (tmp_path / 'k"\\d').mkdir()
    made = compile_cuda(
        tmp_path, "-rdc=true", "-MMD", "-MF", "m.dep", "-Xcompiler", "-fPIC -Wall", "r.c",
        "-c", "-o", "@r.o",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "m.dep").read_text() == "./@r.o: r.c\n"
    made = compile_cuda(
        tmp_path, "-rdc=true", "-MMD", "--keep", "--keep-dir", 'k"\\d', "@r.o", "m.cu", "-o", "m"
    )
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "m.d").read_text() == "m: m.cu\n"


def test_a_dry_run_prints_the_steps_and_writes_nothing(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("int main() {}\n")
    made = compile_cuda(tmp_path, "--dryrun", str(source), "-o", "program")
    assert made.returncode == 0, made.stderr
    assert "--cuda-device-only" in made.stderr
    assert "-l:libcudart.so.12" in made.stderr
    assert not (tmp_path / "program").exists()
