"""Taichi and tinygrad, which compile for GPUs themselves; tests are in their repositories."""

from pathlib import PurePosixPath

from benchmarks.clients.client import Client, Repository

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
    packages=("tinygrad==0.13.0", "torch==2.15.0", "numpy==2.4.6", "nvidia-cuda-nvrtc"),
    repository=Repository("https://github.com/tinygrad/tinygrad", "v0.13.0"),
    folder=PurePosixPath("test"),
    tests=("**/test_ops.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    environment={"DEV": "CUDA", "LD_LIBRARY_PATH": "{site}/nvidia/cu13/lib"},
    file_limit_s=7200,
)
