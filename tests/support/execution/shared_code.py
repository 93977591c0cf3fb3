"""A compiler for tests that compile one kernel many times.

It keeps SSA forms and LLVM texts: tests under many plans build a kernel's form once per block shape
instead of once per plan, and a text that a test proves is the one that it then executes. Both are
identified by the module object, not by its contents, because hashing a module visits each of its
instructions. The object code of a text is the one of an earlier run, if there was one.
"""

import functools
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from support.kept import llvm_objects
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.isa import Function, Module

_FORMS, _TEXTS, _LEGAL = 8, 64, 16
_OPTIMISED_SHARE = 3


class SharingCompiler(jit.Compiler):
    """A ``jit.Compiler`` that builds each form, and generates each text, once."""

    def __init__(self) -> None:
        super().__init__()
        self.use_emitter(llvm_objects.object_code)
        self._forms: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._texts: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._legal: OrderedDict[tuple[object, ...], Any] = OrderedDict()

    def compile_for_values(
        self, module: Module, function: Function, block: Block, plan: jit.Plan | None
    ) -> jit.NativeCode:
        """Compile as ``compile`` does, but two thirds of the texts of a given plan at LLVM's level 0.

        LLVM needs a third of the time at this level, and the values are the same: what differs
        between plans is the text. The texts that LLVM optimises are a fixed sample. Code of the
        default plan, which programs execute, is always optimised.
        """
        if plan is None:
            return self.compile(module, function, block)
        self.use_emitter(_emit_sampled)
        try:
            return self.compile(module, function, block, plan)
        finally:
            self.use_emitter(llvm_objects.object_code)

    def legal_plans(self, function: Function, block: Block) -> list[jit.Plan]:
        """Return ``jit.legal_plans`` as a new list; they take an analysis for each geometry."""

        def make() -> tuple[object, list[jit.Plan]]:
            return function, list(jit.legal_plans(function, block))

        return list(_kept(self._legal, _LEGAL, (id(function), block), make))

    def _form(
        self,
        module: Module,
        function: Function,
        block: Block,
        *,
        checked: bool = False,
        best: bool = True,
    ) -> SsaFunction:
        build = super()._form

        def make() -> tuple[object, SsaFunction]:
            return (module, function), build(module, function, block, checked=checked, best=best)

        key = (id(module), id(function), block, checked, best)
        return _kept(self._forms, _FORMS, key, make)

    def _generate(
        self, module: Module, form: SsaFunction, block: Block, plan: jit.Plan | None
    ) -> Any:
        generate = super()._generate

        def make() -> tuple[object, Any]:
            return (module, form), generate(module, form, block, plan)

        return _kept(self._texts, _TEXTS, (id(module), id(form), block, plan), make)


@functools.lru_cache(maxsize=32)  # one kernel in several spellings
def _emit_sampled(text: str, tier: int) -> bytes:
    optimised = hashlib.sha256(text.encode()).digest()[0] % _OPTIMISED_SHARE == 0
    return llvm_objects.object_code(text, tier if optimised else 0)


def _kept(
    found: OrderedDict[tuple[object, ...], Any],
    most: int,
    key: tuple[object, ...],
    make: Callable[[], tuple[object, Any]],
) -> Any:
    """Return the value under ``key``, made if necessary. An entry keeps the objects alive whose
    identity is part of its key.
    """
    if key not in found:
        found[key] = make()
        if len(found) > most:
            found.popitem(last=False)
    found.move_to_end(key)
    return found[key][1]
