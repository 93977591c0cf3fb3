"""cuda.core and cuda.bindings: their wheels have no tests; the repository cuda-python has both."""

from pathlib import PurePosixPath

from benchmarks.clients.client import Client, Known, Repository

_RUNTIME = Known(
    r"cudaErrorSymbolNotFound|NVIDIA's own driver",
    "`cuda.bindings.runtime` contains NVIDIA's static cudart, which accepts NVIDIA's driver alone",
)
_HELPERS = ("cuda_bindings/cuda/bindings/_test_helpers", "cuda/bindings/_test_helpers")

CUDA_CORE = Client(
    name="cuda-core",
    version="1.1.0",
    goal="≥ 3,100 of 3,503 pass",
    packages=(
        *("cuda-core[cu13]==1.1.0", "cuda-bindings==13.5.0", "pytest-benchmark", "pytest-repeat"),
        *("pytest-rerunfailures", "cloudpickle", "psutil", "cffi", "ml_dtypes", "setuptools"),
        "pytest==8.4.2",  # version 9 does not take an array as a parameter's values
    ),
    repository=Repository("https://github.com/NVIDIA/cuda-python", "cuda-core-v1.1.0"),
    folder=PurePosixPath("cuda_core/tests"),
    tests=("**/test_*.py",),
    ignored=("cython/*",),
    copied=(_HELPERS,),
    known=(
        _RUNTIME,
        Known(
            r"not covered by the wrapper mapping|accounting for unmapped members|covered by _CASES",
            "cuda-bindings 13.5 has members that this release's lists do not have",
        ),
    ),
)
CUDA_BINDINGS = Client(
    name="cuda-bindings",
    version="13.5.0",
    goal="≥ 90 %",
    packages=(
        *("cuda-bindings[all]==13.5.0", "cuda-toolkit[cudart]==13.*", "numpy", "cffi", "pyglet"),
        *("pytest-benchmark", "pytest-repeat", "setuptools", "pytest==8.4.2"),
    ),
    repository=Repository("https://github.com/NVIDIA/cuda-python", "v13.5.0"),
    folder=PurePosixPath("cuda_bindings/tests"),
    tests=("**/test_*.py",),
    ignored=("cython/*",),
    copied=(_HELPERS,),
    known=(_RUNTIME,),
)
