"""Prepares one framework: Tessera's libraries first, its variables, and one line on stderr."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os

from tessera_start import settings, table


def prepare(module: str) -> None:
    """Prepare a framework that the process is about to import, and report that.

    Raises:
        OSError: a library cannot be loaded, or the table not read.
    """
    frameworks, variables = table.read()
    framework = frameworks[module]
    is_installed, cuda = table.find_cuda(framework)
    if not is_installed:
        return
    if cuda not in table.MAJORS:
        kind = f"built for CUDA {cuda}" if cuda else "not built for CUDA"
        _report(module, f"this {framework.name} is {kind}, so it computes on the CPU")
        return
    texts = [_set(variable) for variable in variables if module in variable.frameworks]
    if settings.preloads():
        _load_libraries(cuda)
        texts.insert(0, f"Tessera's libraries of CUDA {cuda} are loaded first")
    _report(module, f"{framework.name}: {'; '.join(texts)}" if texts else "")


def _set(variable: table.Variable) -> str:
    value = table.new_value(variable, settings.get(variable.name))
    settings.put(variable.name, value)
    return f"{variable.name}={value}"


def _load_libraries(major: str) -> None:
    """Load Tessera's libraries of a version of CUDA.

    The dynamic linker loads no second library of a name that is loaded. Their symbols are global,
    so that they precede those of a library that the framework loads by its path.
    """
    ctypes.CDLL(settings.library(major), ctypes.RTLD_GLOBAL)


def show_device_to_jax() -> None:
    """Add the folder of slices to the files by which JAX detects a GPU.

    JAX computes on the CPU, and prints nothing, if no device node of NVIDIA's driver exists. Then
    a line names the remedy, if JAX has no such list.
    """
    utilities = importlib.import_module("jax._src.hardware_utils")
    detects = getattr(utilities, "has_visible_nvidia_gpu", None)
    files = getattr(utilities, "_NVIDIA_GPU_DEVICES", None)
    if isinstance(files, list):
        files.append(settings.slices_folder())
    if detects is not None and not detects():
        _write(
            "JAX finds no device node and computes on the CPU: use `tessera run --device-files`,"
            " or in a cluster the chart value deviceFiles.enabled"
        )


def _report(module: str, text: str) -> None:
    """Print a line once for a framework in a process and the processes that it starts."""
    if text and settings.mark_as_reported(module):
        _write(text)


def _write(text: str) -> None:
    with contextlib.suppress(OSError):  # stderr may be closed
        os.write(2, f"tessera: {text}\n".encode())
