"""``torch.cuda._sleep``, which programs call to keep a stream busy.

PyTorch's own kernel is machine code that no operator reaches.
"""

from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.launching import launch
from tessera_torch.special.sleeping_kernels import wait

_CYCLES_PER_NS: Final = 2  # about an H100's clock


def replace() -> None:
    """Let ``torch.cuda._sleep`` wait in a kernel of this package."""
    module: Any = torch.cuda
    module._sleep = _sleep


def _sleep(cycles: int) -> None:
    """Keep the current stream busy for as long as a GPU counts so many cycles."""
    counts.CALLS["_sleep"] += 1
    duration = int(cycles) // _CYCLES_PER_NS
    launch(wait, (1,), torch.device("cuda", torch.cuda.current_device()), duration, warps=1)
