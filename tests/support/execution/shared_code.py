"""A compiler for tests that compile one kernel many times.

What an earlier run of the same JIT compiled is read from ``support.kept``. For everything else it
keeps SSA forms and LLVM texts: tests under many plans build a kernel's form once per block shape
instead of once per plan, and a text that a test proves is the one that it then executes. These are
identified by the module object, not by its contents, because hashing a module visits each of its
instructions.
"""

import functools
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from support.kept import kernels, llvm_objects
from support.kept.kernels import Kernel
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import tiers
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.isa import Function, Module

_FORMS, _TEXTS, _KERNELS = 8, 64, 16
_OPTIMISED_SHARE = 3


class SharingCompiler(jit.Compiler):
    """A ``jit.Compiler`` that builds each form, and generates each text, once."""

    def __init__(self) -> None:
        super().__init__()
        self.use_emitter(llvm_objects.object_code)
        self._forms: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._texts: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._kernels: OrderedDict[tuple[object, ...], Any] = OrderedDict()

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

        def make() -> jit.NativeCode:
            self.use_emitter(_emit_sampled)
            try:
                return self.compile_new(module, function, block, plan)
            finally:
                self.use_emitter(llvm_objects.object_code)

        return self._kernel(module, function).native(
            block, plan, f"sampled {_OPTIMISED_SHARE}", make
        )

    def compile(
        self, module: Module, function: Function, block: Block, plan: jit.Plan | None = None
    ) -> jit.NativeCode:
        return self._kernel(module, function).native(
            block, plan, "optimised", lambda: self.compile_new(module, function, block, plan)
        )

    def compile_new(
        self, module: Module, function: Function, block: Block, plan: jit.Plan | None = None
    ) -> jit.NativeCode:
        """Compile as ``jit.Compiler.compile`` does, whatever earlier runs compiled."""
        return super().compile(module, function, block, plan)

    def emit_llvm(
        self,
        module: Module,
        function: Function,
        block: Block,
        plan: jit.Plan | None = None,
        *,
        optimised: bool = False,
    ) -> str:
        emit = super().emit_llvm

        def make() -> str:
            return emit(module, function, block, plan, optimised=optimised)

        how = "optimised" if optimised else "generated"
        return self._kernel(module, function).text(block, plan, how, make)

    def legal_plans(self, module: Module, block: Block) -> list[jit.Plan]:
        """Return ``jit.legal_plans`` of a module's first function as a new list; they take an
        analysis for each geometry.
        """
        function = module.functions[0]
        return self._kernel(module, function).plans(
            block, "legal", lambda: list(jit.legal_plans(function, block))
        )

    def first_tier(self, module: Module, block: Block) -> list[jit.Plan]:
        """Return the plan with which a first launch begins, if there is one."""
        function = module.functions[0]

        def make() -> list[jit.Plan]:
            plan, _ = tiers.first_tier_plan(ssa.build(function), block, llvm.vector_bits())
            return [] if plan is None else [plan]

        return self._kernel(module, function).plans(block, "first", make)

    def _kernel(self, module: Module, function: Function) -> Kernel:
        def make() -> tuple[object, Kernel]:
            return (module, function), Kernel(module, function)

        return _kept(
            self._kernels, _KERNELS, (id(module), id(function), kernels.are_stored()), make
        )

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
