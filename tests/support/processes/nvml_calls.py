"""Calls of NVML by pynvml and by C: handles, versioned structures, error codes."""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from ctypes import c_void_p, sizeof
from pathlib import Path
from typing import Any

import pynvml
import pytest
from pynvml import NVMLError

from support.processes import nvml_reports, nvml_views
from support.processes.nvml_reports import Report


def layout(kind: type, number: int, **fields: int) -> Any:
    """Return a structure with the version number of its layout set."""
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
    """Return the error code of a pynvml call, which must fail."""
    with pytest.raises(NVMLError) as refused:
        call(*arguments)
    return int(refused.value.value)


@contextlib.contextmanager
def of_distinct_figures(libraries: Path, folder: Path) -> Iterator[Report]:
    """Load NVML with a report in which no two figures are equal, served from a socket in
    ``folder``.
    """
    made = nvml_reports.distinct()
    path = folder / "management.sock"
    with (
        nvml_reports.serve(path, made),
        nvml_views.load_nvml(libraries, MANAGEMENT_SOCKET=str(path)),
    ):
        yield made
