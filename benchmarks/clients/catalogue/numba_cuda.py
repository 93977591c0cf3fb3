"""numba-cuda: tests are in its wheel; their settings are in its repository's folder ``testing``."""

from dataclasses import replace
from pathlib import PurePosixPath

from benchmarks.clients.client import Client, Known, Repository

NUMBA_CUDA = Client(
    name="numba-cuda",
    version="0.30.4",
    goal="≥ 2,000 of 2,061 run or skipped with reason, 0 wrong numbers",
    packages=(
        "numba-cuda[cu13]==0.30.4",
        "numba==0.68.1",
        "cuda-core==1.2.2",
        "cuda-bindings==13.5.0",
        "cffi",
        "filecheck",
        "ml_dtypes",
        "psutil",
        "pytest-benchmark",
    ),
    folder=PurePosixPath("numba_cuda/numba/cuda/tests"),
    tests=("**/test_*.py",),
    in_site_packages=True,
    ignored=("benchmarks/*",),
    repository=Repository("https://github.com/NVIDIA/numba-cuda", "v0.30.4"),
    arguments=(
        "-c",
        "{repository}/testing/pytest.ini",
        "-o",
        "addopts=--benchmark-disable",
        "-p",
        "conftest",
    ),
    environment={"PYTHONPATH": "{repository}/testing"},
    known=(
        Known(
            r"cuda_and_cpu_caching_test_fodder|check_hits\(f_cpu\.func",
            "numba 0.68 stamps its cache's index with a hash of the source, numba-cuda 0.30.4 with"
            " its time and size, so that neither keeps what the other cached",
        ),
        Known(
            r"'cuda.bindings.driver.CUipcMemHandle' object has no attribute 'reserved'",
            "numba-cuda 0.30.4 reads the member `reserved` of handles, which cuda-bindings 13.5"
            " does not have",
        ),
    ),
)
WITHOUT_NVJITLINK = replace(
    NUMBA_CUDA,
    name="numba-cuda-without-nvjitlink",
    without=("nvidia-nvjitlink",),
    arguments=(
        *NUMBA_CUDA.arguments,
        "-W",
        "ignore:cuda.bindings.nvjitlink is not available:RuntimeWarning",
    ),
)
