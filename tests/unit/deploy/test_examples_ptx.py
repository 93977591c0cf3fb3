"""The committed PTX is what clang makes of the source file, or its header states that it is not.
The header of the examples suffices for a kernel with shared memory, constants and a barrier.
"""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.execution import native_launch
from support.execution.both_backends import Bench
from vgpu_sim.compiler import compile_ptx

EXAMPLES = Path(__file__).parents[3] / "examples"
PROGRAMS = {"device_launch"}  # built whole by `tessera cc`, see tests/integration/run
SOURCES = [path for path in sorted(EXAMPLES.glob("*.cu")) if path.stem not in PROGRAMS]
CLANG = "clang-14"
FLAGS = [
    "-S",
    "-O3",
    "-x",
    "cuda",
    "--cuda-device-only",
    "-nocudainc",
    "-nocudalib",
    "--cuda-gpu-arch=sm_80",
]


def test_every_source_has_its_ptx_and_no_ptx_is_without_source() -> None:
    by_hand = {p.stem for p in EXAMPLES.glob("*.ptx") if "Written by hand" in p.read_text()}
    assert {p.stem for p in SOURCES} == {p.stem for p in EXAMPLES.glob("*.ptx")} - by_hand
    assert SOURCES


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_header_comment_names_the_command(source: Path) -> None:
    header = source.read_text().split("*/")[0].replace("\\\n", " ").replace("*", " ")
    command = [CLANG, *FLAGS, source.name, "-o", source.with_suffix(".ptx").name]
    assert " ".join(command) in " ".join(header.split())


@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")
@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_ptx_is_reproduced_by_clang(source: Path, tmp_path: Path) -> None:
    made = tmp_path / "out.ptx"
    subprocess.run([CLANG, *FLAGS, source.name, "-o", made], cwd=EXAMPLES, check=True)
    assert made.read_text() == source.with_suffix(".ptx").read_text()


_REVERSE = """
#include "cuda_builtins.h"
__constant__ int factor = 3;
__device__ int scale(int x) { return factor * x; }
extern "C" __global__ void __launch_bounds__(64) reverse(int *data) {
  __shared__ int tile[64];
  extern __shared__ int copy[];
  tile[threadIdx.x] = data[threadIdx.x];
  copy[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int other = blockDim.x - 1 - threadIdx.x;
  data[threadIdx.x] = scale(tile[other]) + copy[other];
}
"""


def _compile(source: str, tmp_path: Path) -> str:
    """Return the PTX that clang makes of a source which includes the examples' header."""
    (tmp_path / "kernel.cu").write_text(source)
    made = tmp_path / "kernel.ptx"
    command = [CLANG, *FLAGS, "-I", str(EXAMPLES), "kernel.cu", "-o", str(made)]
    subprocess.run(command, cwd=tmp_path, check=True)
    return made.read_text()


@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")
def test_a_kernel_with_shared_memory_and_a_barrier_needs_only_the_header(tmp_path: Path) -> None:
    module = compile_ptx(_compile(_REVERSE, tmp_path), capability=(8, 0))
    data = np.arange(100, 164, dtype=np.int32)
    variables = bytearray(module.segment_bytes)
    for variable, content in zip(module.variables, module.contents(0), strict=True):
        variables[variable.offset : variable.offset + len(content)] = content
    function, grid, block = module.functions[0], (1, 1, 1), (64, 1, 1)
    bench = Bench(data.tobytes(), bytes(variables))
    try:
        address, segment = bench.addresses()
        parameters = native_launch.pack(function.parameters, function.parameter_bytes, [address])
        launch = module, grid, block, parameters
        interpreted, _ = bench.interpret(*launch, segment, dynamic=4 * data.size)
        executed, _ = bench.execute(*launch, None, segment, dynamic=4 * data.size)
    finally:
        bench.close()
    expected = 3 * data[::-1] + np.arange(64, dtype=np.int32)[::-1]
    np.testing.assert_array_equal(np.frombuffer(interpreted, np.int32), expected)
    np.testing.assert_array_equal(np.frombuffer(executed, np.int32), expected)
