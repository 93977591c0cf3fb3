"""Custom operators of PyTorch in CUDA C++ that ``tessera cc`` compiles.

Skipped where clang or PyTorch's wheel is not installed (``support.processes.torch_program``).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.torch_program import run_program
from vgpu_sim.sdk import clang, home
from vgpu_sim.sdk.errors import CompileError

_EXAMPLE = Path(__file__).parents[3] / "examples" / "frameworks" / "pytorch" / "custom_operator"
_MAIN = "from vgpu_sim.cli.main import main; main()"
# Triton reads the source of a kernel from its file.
_FILE = "import runpy, sys; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
_SQUARES = """
template <typename T> __global__ void square(const T *x, T *out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = x[i] * x[i];
}
torch::Tensor squares(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const int count = x.numel();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "squares", [&] {
    square<scalar_t><<<(count + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), count);
  });
  return out;
}
"""
_INLINE = f"""
import os, sys
from pathlib import Path
try:
    import ninja, nvidia
    (cccl,) = Path(nvidia.__path__[0]).glob("cu13/include/cccl")
except (ImportError, ValueError):
    print("not installed")
    sys.exit()
os.environ["CPLUS_INCLUDE_PATH"] = str(cccl)
os.environ["PATH"] = f"{{Path(sys.executable).parent}}:{{os.environ['PATH']}}"  # of ninja
import torch
from torch.utils.cpp_extension import load_inline
source = '#include <torch/extension.h>\\n#include <c10/cuda/CUDAStream.h>' + {_SQUARES!r}
made = load_inline("squares", "torch::Tensor squares(torch::Tensor x);", source, functions=["squares"],
                   build_directory=sys.argv[1])
for dtype in (torch.float32, torch.float64):
    x = torch.randn(1000, dtype=dtype, device="cuda")
    assert torch.equal(made.squares(x), x * x)
print("squares")
"""


@pytest.fixture(autouse=True)
def _find_clang() -> None:
    try:
        clang.find()
    except CompileError as err:
        pytest.skip(str(err))


@pytest.mark.slow
def test_the_example_of_custom_operators_has_right_gradients(tmp_path: Path) -> None:
    library = tmp_path / "libscale_shift.so"
    options = ["-shared", "-Xcompiler", "-fPIC", _EXAMPLE / "scale_shift.cu", "-o", library]
    subprocess.run([sys.executable, "-c", _MAIN, "cc", *options], check=True)
    printed = run_program(_FILE, str(_EXAMPLE / "custom_operator.py"), str(library))
    assert printed.startswith("gradients of both operators agree"), printed


@pytest.mark.slow
def test_pytorch_builds_extensions_with_the_folder_for_cuda_home(tmp_path: Path) -> None:
    printed = run_program(_INLINE, str(tmp_path), CUDA_HOME=str(home.make()))
    if printed == "not installed\n":
        pytest.skip("the Python with PyTorch has no ninja, or no nvidia-cuda-cccl")
    assert printed == "squares\n"
