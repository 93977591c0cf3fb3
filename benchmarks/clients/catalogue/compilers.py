"""Compilers for GPUs: Taichi, tinygrad, and `tessera cc` with NVIDIA's CUDA samples."""

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
TINYGRAD = Client(
    name="tinygrad",
    version="0.13.0",
    goal="≥ 95 % of test_ops.py",
    packages=(
        *("tinygrad==0.13.0", "torch==2.15.0", "numpy==2.4.6"),
        *("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl"),
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
    packages=("nvidia-cuda-nvrtc-cu12==12.9.86",),
    repository=Repository("https://github.com/NVIDIA/cuda-samples", "v12.9"),
    folder=PurePosixPath("cuda_samples"),
    in_programs=True,
    tests=("test_samples.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    environment={
        "CUDA_SAMPLES": "{repository}",
        "CUDA_SAMPLES_NVRTC": "{site}/nvidia/cuda_nvrtc",
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
