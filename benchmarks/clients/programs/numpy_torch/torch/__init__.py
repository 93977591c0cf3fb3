"""A stand-in for torch whose tensors are in device memory and whose arithmetic is numpy's.

It exists so that programs written for torch give Triton's kernels their arguments, without torch's
own kernels, which are machine code. It has what Triton's tutorials and tests use, and no gradients.
"""

import math
from types import SimpleNamespace

import numpy as np

from torch import autograd, cuda, functional, testing
from torch.creation import *  # noqa: F403
from torch.creation import empty, full, tensor
from torch.driver import AcceleratorError
from torch.operations import FUNCTIONS
from torch.tensor import Size, Tensor
from torch.types import ALIASES, TYPES, device, dtype

__version__ = "0+numpy"
globals().update(TYPES | {short: TYPES[name] for short, name in ALIASES.items()} | FUNCTIONS)
nan, inf, pi = math.nan, math.inf, math.pi
version = SimpleNamespace(hip=None, cuda="13.0", xpu=None)
nn = SimpleNamespace(functional=functional)
jit = SimpleNamespace(script=lambda function: function)
backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)))
__all__ = [
    "AcceleratorError",
    "Size",
    "Tensor",
    "autograd",
    "cuda",
    "device",
    "dtype",
    "empty",
    "full",
    "tensor",
    "testing",
]


def finfo(kind):
    """Return the limits of a floating-point type."""
    return np.finfo(kind.numpy)


def is_tensor(value):
    """Return whether a value is a tensor."""
    return isinstance(value, Tensor)
