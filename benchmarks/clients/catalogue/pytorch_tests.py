"""PyTorch's own tests of tensors, modules, CUDA and Inductor, with its stock wheel.

Each file is a client, because the goal is a share of each.
"""

from dataclasses import replace
from pathlib import PurePosixPath

from benchmarks.clients.catalogue.stock_wheels import LIBRARIES
from benchmarks.clients.client import Client, Known, Repository

PYTORCH_TESTS_CUDA = Client(
    name="pytorch-tests-cuda",
    venv="pytorch-tests",
    version="2.15.0",
    goal="≥ 85 %",
    packages=(
        "torch==2.15.0",
        "triton==3.9.0",
        "numpy==2.4.6",
        "expecttest",
        "hypothesis",
        "parameterized",
        "psutil",
        "scipy",
    ),
    without=LIBRARIES,
    repository=Repository("https://github.com/pytorch/pytorch", "v2.15.0"),
    folder=PurePosixPath("test"),
    tests=("test_cuda.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    # Tests of the CPU do not test the device: each template is instantiated for `cuda` alone.
    environment={"PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda"},
    options=("--preload", "13"),
    slice="",  # tests read the total memory and the number of GPUs
    file_limit_s=7200,
    test_limit_s=90,
    note="The tests are those of PyTorch 2.4, from the fork `MetaX-MACA/mcPytorch` at b3db5eed.",
    known=(
        Known(
            r"Object comparison failed: \(True, True\) != True",
            "PyTorch 2.15 returns a pair where 2.4 returned a bool",
        ),
        Known(
            "fp32 precision flag leak detected",
            "2.15's test class does not allow the flags that 2.4's test leaves",
        ),
        Known(
            "ValueError: Unrecognized key 'foo' in Accelerator allocator config",
            "PyTorch 2.15 raises another type of error than 2.4",
        ),
        Known(
            r"CUDA out of memory\. Tried to allocate 39\.\d+ GiB",
            "half of the GPU's memory is more than the machine's",
        ),
    ),
)
_XPU = "The tests are those of `intel/torch-xpu-ops` at ab84f925 (August 2026), made for `cuda`."
PYTORCH_TESTS_TORCH = replace(
    PYTORCH_TESTS_CUDA, name="pytorch-tests-torch", tests=("test_torch.py",), note=_XPU, known=()
)
PYTORCH_TESTS_NN = replace(
    PYTORCH_TESTS_CUDA, name="pytorch-tests-nn", tests=("test_nn.py",), note=_XPU, known=()
)
PYTORCH_TESTS_INDUCTOR = replace(
    PYTORCH_TESTS_CUDA,
    name="pytorch-tests-inductor",
    tests=("inductor/test_torchinductor.py",),
    note=(
        "The tests are those of `YTLiu-bury/Ascend-NPU-Inductor` at 499f4621 (July 2026), made for"
        " `cuda`, with the names that PyTorch 2.15 imports."
    ),
    known=(),
)
PYTORCH_TESTS = (
    PYTORCH_TESTS_CUDA,
    PYTORCH_TESTS_TORCH,
    PYTORCH_TESTS_NN,
    PYTORCH_TESTS_INDUCTOR,
)
