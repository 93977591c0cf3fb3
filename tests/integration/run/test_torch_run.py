"""PyTorch's stock wheel computes eagerly under ``tessera run``; skipped where it is not installed.

TESSERA_TEST_TORCH_PYTHON names a Python with the wheel, without NVIDIA's libraries.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_VARIABLE = "TESSERA_TEST_TORCH_PYTHON"
_PROGRAM = """
import torch
print((torch.ones(3, device="cuda") + 1).tolist())
x = torch.randn(5, 4, requires_grad=True, device="cuda")
(x.softmax(-1) * torch.arange(4, device="cuda")).sum().backward()
y = x.detach().cpu().requires_grad_()
(y.softmax(-1) * torch.arange(4)).sum().backward()
print(torch.allclose(x.grad.cpu(), y.grad, atol=1e-5))
try:
    torch.linalg.eigh(torch.eye(3, device="cuda"))
except NotImplementedError as error:
    print("refused" if "aten::_linalg_eigh" in str(error) else error)
"""


@pytest.mark.slow
def test_the_wheel_computes_eagerly() -> None:
    python = os.environ.get(_VARIABLE)
    if not python or not Path(python).exists():
        pytest.skip(f"{_VARIABLE} names no Python with PyTorch")
    main = "from vgpu_sim.cli.main import main; main()"
    command = [sys.executable, "-c", main, "run", "--board", "h100-80gb", "--", python, "-c"]
    done = subprocess.run([*command, _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["[2.0, 2.0, 2.0]", "True", "refused"]
