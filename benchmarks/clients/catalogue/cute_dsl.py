"""CuTe DSL: kernels of its examples, exported ahead of time."""

from dataclasses import replace
from pathlib import PurePosixPath

from benchmarks.clients.catalogue.cutlass import CUTLASS_A100
from benchmarks.clients.client import Client

CUTE_DSL_A100 = Client(
    name="cute-dsl-a100",
    venv="cute-dsl",
    version="4.8.1",
    goal="all",
    packages=("nvidia-cutlass-dsl==4.8.1", "numpy==2.4.6"),
    repository=CUTLASS_A100.repository,
    folder=PurePosixPath("cute_dsl"),
    in_programs=True,
    tests=("test_ampere.py",),
    environment={"CUTE_DSL_EXAMPLES": "{repository}/examples/python/CuTeDSL/cute"},
    board="a100-80gb",
    note=(
        "The DSL compiles each example to PTX, and `cuda.bindings` launches it: the DSL's own"
        " launcher contains NVIDIA's CUDA runtime, which needs NVIDIA's driver. The examples are"
        " those of CUTLASS 4.6.2."
    ),
)
CUTE_DSL_H100 = replace(
    CUTE_DSL_A100, name="cute-dsl-h100", board="h100-80gb", tests=("test_hopper.py",)
)
CUTE_DSL_B200 = replace(
    CUTE_DSL_A100,
    name="cute-dsl-b200",
    board="b200",
    slice="7g.180gb",
    tests=("test_blackwell.py",),
    note=(
        f"{CUTE_DSL_A100.note} Tutorials 3 and 4 take divisors of their tile scheduler as"
        " parameters, which only the DSL's launcher computes, and tutorial 6 mixes types."
    ),
)
