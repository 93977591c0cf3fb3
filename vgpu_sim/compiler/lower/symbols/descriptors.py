"""Kernels that kernels launch. The address of such a kernel is that of its descriptor, a variable
that the worker fills when it loads the module (``worker/descriptors.py``).
"""

from collections.abc import Iterable
from typing import Final

from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.ptx import tree

LAUNCHES: Final = "tessera.launches"
"""The variable of modules that launch kernels (``compiler/device_runtime.ptx``)."""

DESCRIPTOR_BYTES: Final = 32
KERNEL_PREFIX: Final = "tessera.kernel."


def descriptor_name(kernel: str) -> str:
    """Return the name of a kernel's descriptor."""
    return KERNEL_PREFIX + kernel


def find_launched(module: tree.Module) -> Iterable[str]:
    """Yield the kernels whose address a module takes, if it launches kernels."""
    if any(variable.name == LAUNCHES for variable in module.variables):
        used = [names.find_used(f.body) for f in module.functions if f.body is not None]
        yield from (
            f.name
            for f in module.functions
            if f.is_entry and any(f.name in used_names for used_names in used)
        )
