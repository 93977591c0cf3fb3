"""Loads Triton's tutorials: their kernels and host code unmodified, without their benchmarks."""

import ast
import os
import types
from pathlib import Path

import pytest
import triton
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import KernelInterface

_TUTORIALS = Path(os.environ["TRITON_TUTORIALS"])
_LEFT_OUT = ("benchmark", "bench_", "test_")


def _is_measured_or_printed(statement):
    """Return whether a statement only prints, or calls a benchmark or a test of its own."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    return ast.unparse(statement.value.func).startswith((*_LEFT_OUT, "print"))


class _FirstThatFits(KernelInterface):
    """A kernel with several configurations: the first that the device's memory has room for.

    Triton's own tuner compiles and times all of them; the simulation's times do not rank them.
    """

    def __init__(self, kernels):
        self.fn = kernels[0].fn
        self._kernels = kernels

    def run(self, *arguments, **named):
        for kernel in self._kernels[:-1]:
            try:
                return kernel.run(*arguments, **named)
            except OutOfResources:
                continue
        return self._kernels[-1].run(*arguments, **named)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that loads a tutorial by the number that its file's name begins with.

    Tutorial 07 finds libdevice beside the sources: here, where the wheel has it.
    """
    stock = triton.autotune

    def autotune(configs, **rest):
        return lambda fn: _FirstThatFits([stock([config], **rest)(fn) for config in configs])

    monkeypatch.setattr(triton, "autotune", autotune)
    libraries = tmp_path / "third_party" / "nvidia" / "backend"
    libraries.mkdir(parents=True)
    wheel = Path(triton.__file__).parent / "backends" / "nvidia" / "lib"
    (libraries / "lib").symlink_to(wheel)
    folder = tmp_path / "python" / "tutorials"
    folder.mkdir(parents=True)

    def load_tutorial(number):
        (source,) = (p for p in _TUTORIALS.glob(f"{number}-*.py") if not p.stem.endswith("-ws"))
        copy = folder / source.name
        copy.write_text(source.read_text())
        tree = ast.parse(source.read_text(), str(copy))
        tree.body = [part for part in tree.body if not _is_measured_or_printed(part)]
        module = types.ModuleType(f"tutorial_{number}")
        module.__file__ = str(copy)
        exec(compile(tree, str(copy), "exec"), module.__dict__)
        return module

    return load_tutorial
