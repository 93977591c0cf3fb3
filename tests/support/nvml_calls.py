"""Calls of NVML as pynvml and as C make them: handles, versioned structures, codes of refusals."""

import ctypes
from collections.abc import Callable
from ctypes import c_void_p, sizeof
from typing import Any

import pynvml
import pytest
from pynvml import NVMLError


def layout(kind: type, number: int, **fields: int) -> Any:
    """Return a structure that says which version of its layout it has."""
    made = kind()
    made.version = sizeof(kind) | number << 24
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def handle(index: int) -> c_void_p:
    """Return the handle of a GPU, for calls by ctypes."""
    return ctypes.cast(pynvml.nvmlDeviceGetHandleByIndex(index), c_void_p)


def of_mig(index: int, inner: int) -> c_void_p:
    """Return the handle of a GPU's MIG device, for calls by ctypes."""
    found = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle(index), inner)
    return ctypes.cast(found, c_void_p)


def code(call: Callable[..., object], *arguments: object) -> int:
    """Return the code with which a call of pynvml is refused."""
    with pytest.raises(NVMLError) as refused:
        call(*arguments)
    return int(refused.value.value)
