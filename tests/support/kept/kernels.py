"""Kernels that the JIT compiled, in this run of the tests or in an earlier one of the same JIT.

The key is the product's own: the kernel, the block, the plan, the machine and the JIT's sources.
All sources of the layers below the JIT, and the version of LLVM's library, are added to it. A
change of any of them compiles everything again. A test with the fixture ``monkeypatch`` stores and
reads nothing, because it may have changed the JIT (tests/conftest.py).
"""

import functools
import itertools
import json
import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import vgpu_sim
from support.kept import llvm_objects
from support.kept.store import Store, digest_of, key_of
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.control import assemble
from vgpu_sim.exec.jit.objects import compiler
from vgpu_sim.exec.jit.objects.native_code import NativeCode
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.exec.jit.shapes.geometry import Padding
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.isa import Function, Module, container, extract

READ = ("exec", "isa", "hal/compute", "system", "records.py", "config.py", "options.py")
_STORE = Store("kernels")
_NONE = Store("kernels", None)
_allowed = True


def allow(stored: bool) -> None:
    """State whether kernels are stored from now on: not in a test that may change the JIT."""
    global _allowed
    _allowed = stored


def are_stored() -> bool:
    """Return whether kernels are stored."""
    return _allowed


class Kernel:
    """One kernel of a module; each method returns what ``make`` returned for an equal one."""

    def __init__(self, module: Module, function: Function, store: Store | None = None) -> None:
        alone = container.encode(replace(module, functions=(function,)))
        self._content = extract.Kernels(alone).container(function.name)
        self._name = function.name.encode()
        self._store = store or (_STORE if _allowed else _NONE)

    def native(
        self, block: Block, plan: jit.Plan | None, how: str, make: Callable[[], NativeCode]
    ) -> NativeCode:
        """Return native code; ``how`` states what else the caller chose.

        Objects for another kind of CPU are not stored, because ``from_bytes`` refuses them.
        """
        if llvm.target().triple.partition("-")[0] != platform.machine():
            return make()
        key = self._key(f"native {how}", block, plan)
        found = self._store.get(key)
        if found is not None:
            return NativeCode.from_bytes(found, assemble.ENTRY, block)
        made = make()
        self._store.put(key, made.to_bytes())
        return made

    def text(self, block: Block, plan: jit.Plan | None, how: str, make: Callable[[], str]) -> str:
        """Return LLVM's text, which names the kernel."""
        key = key_of(self._key(f"text {how}", block, plan).encode(), self._name)
        found = self._store.get(key)
        if found is not None:
            return found.decode()
        made = make()
        self._store.put(key, made.encode())
        return made

    def plans(self, block: Block, how: str, make: Callable[[], list[jit.Plan]]) -> list[jit.Plan]:
        """Return plans for a block."""
        key = self._key(f"plans {how}", block, None)
        found = self._store.get(key)
        if found is not None:
            listed = [jit.Plan(**fields) for fields in json.loads(found)]
            return [replace(one, padding=Padding(one.padding)) for one in listed]
        made = make()
        self._store.put(key, json.dumps([asdict(plan) for plan in made]).encode())
        return made

    def _key(self, kind: str, block: Block, plan: jit.Plan | None) -> str:
        digest = compiler.key_of(self._content, block, plan)
        here = repr(llvm.target()).encode(), llvm_objects.surroundings(), sources()
        return key_of(kind.encode(), digest.encode(), *here)


def root() -> Path:
    """Return the folder of the package whose sources are read."""
    return Path(vgpu_sim.__file__).parent


@functools.cache
def sources(*more: str) -> bytes:
    """Return a digest of the sources that execute kernels, of all below them, and of ``more``."""
    named = (root() / name for name in (*READ, *more))
    parts = (sorted(one.rglob("*.py")) if one.is_dir() else [one] for one in named)
    return digest_of(root(), itertools.chain.from_iterable(parts))
