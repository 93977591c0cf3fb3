"""Compilers for GPUs: Taichi, tinygrad, and C++ compiled by `tessera cc` and by NVIDIA's nvcc."""

from dataclasses import replace
from pathlib import PurePosixPath

from benchmarks.clients.client import Client, Known, Repository

TAICHI = Client(
    name="taichi",
    version="1.7.4",
    goal="≥ 95 %",
    packages=("taichi==1.7.4", "numpy<2", "pytest-rerunfailures", "setuptools<81"),
    repository=Repository("https://github.com/taichi-dev/taichi", "v1.7.4"),
    folder=PurePosixPath("tests/python"),
    tests=("test_*.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    environment={"TI_WANTED_ARCHS": "cuda", "PYTHONPATH": "{repository}"},
)
TAICHI_EXAMPLES = Client(
    name="taichi-examples",
    venv="taichi",
    version="1.7.4",
    goal="all that need no window",
    packages=TAICHI.packages,
    folder=PurePosixPath("taichi"),
    in_programs=True,
    tests=("test_examples.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    file_limit_s=7200,
    test_limit_s=900,
    note="Each example in the wheel runs for two frames on the CPU and on the device.",
)
TINYGRAD = Client(
    name="tinygrad",
    version="0.13.0",
    goal="≥ 95 % of test_ops.py",
    packages=(
        "tinygrad==0.13.0",
        "torch==2.15.0",
        "numpy==2.4.6",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-runtime",
        "nvidia-cuda-crt",
        "nvidia-cuda-cccl",
    ),
    repository=Repository("https://github.com/tinygrad/tinygrad", "v0.13.0"),
    folder=PurePosixPath("test"),
    tests=("**/test_ops.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    environment={
        "DEV": "CUDA",
        "CUDA_PATH": "{site}/nvidia/cu13",
        "LD_LIBRARY_PATH": "{site}/nvidia/cu13/lib",
    },
    known=(
        Known(
            r"Calculated output H: 0 W: 5 must be >= 1",
            "torch 2.15 refuses a padding whose result it was to give",
        ),
        Known(
            r"\btest_clip\b",
            "torch 2.15 differs in a gradient at a bound; tinygrad's interpreter fails alike",
        ),
    ),
    file_limit_s=7200,
)
CUDA_SAMPLES = Client(
    name="cuda-samples",
    version="12.9",
    goal="≥ 60 end with status 0",
    packages=(
        "nvidia-cuda-nvrtc-cu12==12.9.86",
        "nvidia-cuda-runtime-cu12==12.9.79",
        "nvidia-cuda-cccl-cu12==12.9.27",
        "nvidia-curand-cu12==10.3.10.19",
        "nvidia-nvtx-cu12==12.9.79",
    ),
    repository=Repository("https://github.com/NVIDIA/cuda-samples", "v12.9"),
    folder=PurePosixPath("cuda_samples"),
    in_programs=True,
    tests=("test_samples.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    environment={
        "CUDA_SAMPLES": "{repository}",
        "CUDA_SAMPLES_PACKAGES": "{site}/nvidia",
        "TESSERA_NVRTC": "{site}/nvidia/cuda_nvrtc/lib",
        "TESSERA_COMMAND": "{tessera}",
    },
    known=(
        Known(
            r"dxtc: status 1",
            "reads what other threads of the warp write, with no barrier: it needs lockstep",
        ),
    ),
    file_limit_s=7200,
)
_KERNELS = (
    "Programs of the kinds of kernel that a study of clients compiled; each compares its results"
    " with values of the CPU. The version is that of CUDA's packages."
)
KERNELS = Client(
    name="kernels-tessera-cc",
    venv="kernels",
    version="13.5.37",
    goal="all verify their numbers",
    packages=(
        "nvidia-cuda-nvcc==13.5.37",
        "nvidia-nvvm==13.5.37",
        "nvidia-cuda-crt==13.5.37",
        "nvidia-cuda-runtime==13.5.37",
        "nvidia-cuda-cccl==13.3.5.0.6",
    ),
    folder=PurePosixPath("kernels"),
    in_programs=True,
    tests=("test_kernels.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    environment={
        "KERNELS_CUDA": "{site}/nvidia/cu13",
        "KERNELS_COMPILER": "tessera cc",
        "TESSERA_COMMAND": "{tessera}",
    },
    file_limit_s=7200,
    test_limit_s=600,
    note=_KERNELS
    + (
        " The compiler was clang 22.1.8; clang 19 refuses `<<<>>>` in device code, which"
        " dynamic_parallelism has."
    ),
)
KERNELS_NVCC = replace(
    KERNELS,
    name="kernels-nvcc",
    environment={**KERNELS.environment, "KERNELS_COMPILER": "nvcc"},
    note=_KERNELS,
)
