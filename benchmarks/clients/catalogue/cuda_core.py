"""cuda.core and cuda.bindings: their wheels have no tests; the repository cuda-python has both."""

from pathlib import PurePosixPath

from benchmarks.clients.client import Client, Known, Repository

_RUNTIME = Known(
    r"cudaErrorSymbolNotFound|NVIDIA's own driver",
    "`cuda.bindings.runtime` contains NVIDIA's static cudart, which accepts NVIDIA's driver alone",
)
_LTO = Known(
    r"nvJitLinkError: ERROR_INCORRECT_INPUT_TYPE|code_type='ltoir'|test_object_code_load_ltoir",
    "LTO-IR, whose format is not public, cannot be linked or loaded (ADR 133)",
)
_NVFATBIN = Known(
    r"nvFatbinError|ERROR_ELF_\w+_MISMATCH",
    "NVRTC's cubin is PTX (ADR 141), which nvFatbin does not take for one",
)
_HELPERS = ("cuda_bindings/cuda/bindings/_test_helpers", "cuda/bindings/_test_helpers")
_EXAMPLES = ("cuda_bindings/cuda/bindings/_example_helpers", "cuda/bindings/_example_helpers")

CUDA_CORE = Client(
    name="cuda-core",
    version="1.1.0",
    goal="≥ 3,100 of 3,503 pass",
    packages=(
        "cuda-core[cu13]==1.1.0",
        "cuda-bindings==13.5.0",
        "pytest-benchmark",
        "pytest-repeat",
        "pytest-rerunfailures",
        "cloudpickle",
        "psutil",
        "cffi",
        "ml_dtypes",
        "setuptools",
        "pytest==8.4.2",  # version 9 does not take an array as a parameter's values
    ),
    repository=Repository("https://github.com/NVIDIA/cuda-python", "cuda-core-v1.1.0"),
    folder=PurePosixPath("cuda_core/tests"),
    tests=("**/test_*.py",),
    ignored=("cython/*",),
    copied=(_HELPERS,),
    slice="",  # the suites are for whole GPUs, and some of their tests for two
    gpus=2,
    known=(
        _RUNTIME,
        _LTO,
        _NVFATBIN,
        Known(
            r"memory_ipc/test_peer_access",
            "other GPUs cannot access memory that a process has imported from another one",
        ),
        Known(
            r"memory_ipc/(.|\n)*exitcode == 0",
            "the child process calls `Device.sync`, which calls NVIDIA's static cudart",
        ),
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
        "cuda-bindings[all]==13.5.0",
        "cuda-toolkit[cudart]==13.*",
        "numpy",
        "cffi",
        "pyglet",
        "pytest-benchmark",
        "pytest-repeat",
        "setuptools",
        "pytest==8.4.2",
    ),
    repository=Repository("https://github.com/NVIDIA/cuda-python", "v13.5.0"),
    folder=PurePosixPath("cuda_bindings/tests"),
    tests=("**/test_*.py",),
    ignored=("cython/*", "test_cufile.py"),
    copied=(_HELPERS, _EXAMPLES),
    slice="",
    gpus=2,
    known=(
        _RUNTIME,
        _LTO,
        _NVFATBIN,
        Known(
            r"nvJitLinkError: ERROR_MISSING_FATBIN",
            "nvJitLink links for the device that there is, and not for a later one",
        ),
        Known(
            r"has no attribute 'reserved'|!= 'reserved'",
            "the tests are older than 13.5, whose structures have no member `reserved`",
        ),
        Known(
            r"def test_add_module_to_program_fail\(|\btest_add_module_to_program_fail\b",
            "the tests are older than 13.5, which passes `None` to libnvvm and takes its error",
        ),
        Known(
            r"'ErrorInvalidParam' in 'ERROR_INVALID_PARAM",
            "the tests are older than 13.5, which writes errors of cuDLA in capitals",
        ),
    ),
    note=(
        "test_cufile.py is left out: on a kernel without `/proc/modules`, such as that of the"
        " machine of this run, NVIDIA's libcufile never returns from `cuFileDriverOpen`."
    ),
)
