"""Programs of our own, one subject each, compiled with ``tessera cc`` or with NVIDIA's nvcc.

Each compares what its kernels computed with values that it computes on the CPU. A test passes if
the program ends with status 0 and has compared at least one value.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
CUDA = Path(os.environ["KERNELS_CUDA"])
NVCC = os.environ["KERNELS_COMPILER"] == "nvcc"
TESSERA = json.loads(os.environ["TESSERA_COMMAND"])
LIMIT_S = 240
FOR_ALL = ("-std=c++17", "-w")
OPTIONS = {
    "block_algorithms": ("-I", str(CUDA / "include" / "cccl")),
    "dynamic_parallelism": ("-rdc=true",),
    "separate": ("-rdc=true",),
}
COMPARED = re.compile(r"^([1-9]\d*) values compared, 0 different$", re.MULTILINE)


def _programs():
    """Return the sources of each program by name; those in the folder ``separate`` are one."""
    programs = {path.stem: [path] for path in sorted(ROOT.glob("*/*.cu"))}
    separate = [programs.pop(path.stem)[0] for path in sorted(ROOT.glob("separate/*.cu"))]
    return {**programs, "separate": separate}


def _libraries():
    process = subprocess.run([*TESSERA, "libdir"], capture_output=True, text=True, check=True)
    return process.stdout.strip()


def _compile(name, sources, output):
    target = "90a" if name == "warp_group" else "90"
    if NVCC:
        target = f"arch=compute_{target},code=compute_{target}"
        command = [str(CUDA / "bin" / "nvcc"), "-gencode", target, "--extended-lambda"]
        # `-cudart none` leaves out the link of device code as well. Tessera's runtime is what the
        # option's name finds; it needs libcuda only when the program runs.
        folder = output.parent / "lib"
        folder.mkdir()
        (folder / "libcudart.so").symlink_to(Path(_libraries()) / "libcudart.so.13")
        command += ["-cudart", "shared", "-L", str(folder), "-L", str(CUDA / "lib")]
        command += ["-Xlinker", "--allow-shlib-undefined"]
    else:
        command = [*TESSERA, "cc", f"-arch=sm_{target}"]
    command += [*FOR_ALL, *OPTIONS.get(name, ()), "-o", str(output), *map(str, sources)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        lines = process.stdout + process.stderr
        error = re.search(r"error *: (.+)|(undefined reference to .+)", lines)
        text = error[0] if error else lines[-500:]
        pytest.fail("not compiled: " + text.replace("'", "`"), pytrace=False)


@pytest.mark.parametrize(("name", "sources"), _programs().items(), ids=list(_programs()))
def test_kernel(name, sources, tmp_path):
    program = tmp_path / name
    _compile(name, sources, program)
    try:
        process = subprocess.run(
            [str(program)], capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"exceeds {LIMIT_S} s", pytrace=False)
    print(process.stdout, process.stderr)
    if process.returncode or not COMPARED.search(process.stdout):
        last = (process.stderr.strip() or process.stdout.strip()).splitlines() or [""]
        pytest.fail(f"status {process.returncode}: " + last[-1].replace("'", "`"), pytrace=False)
