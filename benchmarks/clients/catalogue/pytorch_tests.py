"""PyTorch's own tests of tensors, modules, CUDA and Inductor, with its stock wheel."""

from pathlib import PurePosixPath

from benchmarks.clients.catalogue.stock_wheels import LIBRARIES
from benchmarks.clients.client import Client, Repository

PYTORCH_TESTS = Client(
    name="pytorch-tests",
    version="2.15.0",
    goal="≥ 85 % of each file",
    packages=(
        *("torch==2.15.0", "triton==3.9.0", "numpy==2.4.6", "expecttest", "hypothesis"),
        *("parameterized", "psutil", "scipy"),
    ),
    without=LIBRARIES,
    repository=Repository("https://github.com/pytorch/pytorch", "v2.15.0"),
    folder=PurePosixPath("test"),
    tests=("test_cuda.py", "test_torch.py", "test_nn.py", "inductor/test_torchinductor.py"),
    arguments=("-c", "{programs}/pytest.ini"),
    # Tests of the CPU do not test the device: each template is instantiated for `cuda` alone.
    environment={"PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda"},
    options=("--preload", "13"),
    slice="",  # tests read the total memory and the number of GPUs
    file_limit_s=7200,
    test_limit_s=60,
)
