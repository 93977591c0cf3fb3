"""Compile a kernel for a block shape, and load the object code."""

import functools
import hashlib
import itertools
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from vgpu_sim import isa
from vgpu_sim.exec import approximations, cfg
from vgpu_sim.exec.errors import CodeGenerationError, ExecutionError, PlanError
from vgpu_sim.exec.jit.control import assemble
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.ir.support import refusals
from vgpu_sim.exec.jit.objects import cache, elf, instruction_table, object_check
from vgpu_sim.exec.jit.objects.instruction_table import InstructionTable
from vgpu_sim.exec.jit.objects.native_code import NativeCode, check_stack
from vgpu_sim.exec.jit.planning import choose, forms, tiers
from vgpu_sim.exec.jit.planning.plan import Block, Plan
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.hal.compute import abi
from vgpu_sim.isa import Function, Module, container, extract, verify
from vgpu_sim.records import dataclass

# The last resort when the code of another plan was rejected.
SIMPLEST = Plan(1, 1, versioned=False, tier=0)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Generated:
    """The LLVM text of a kernel, its SSA form and plan, and the fields of ``NativeCode``."""

    form: ssa.SsaFunction
    plan: Plan
    text: str
    groups: int = 0
    stack_bytes: int = 0
    counts: int = 0
    polls: bool = False


@dataclass(slots=True)
class Loaded:
    """Object code in memory, which remains mapped as long as this object exists.

    The range from ``entry`` to ``end`` (exclusive) contains every instruction of the kernel.
    ``groups``, ``stack_bytes``, ``counts`` and ``polls`` are as in ``NativeCode``.
    """

    entry: int
    end: int
    _code: NativeCode
    _tracker: Any

    @property
    def groups(self) -> int:
        return self._code.groups

    @property
    def stack_bytes(self) -> int:
        return self._code.stack_bytes

    @property
    def counts(self) -> int:
        return self._code.counts

    @property
    def polls(self) -> bool:
        return self._code.polls

    def locate(self, pc: int) -> tuple[int, ...]:
        """Return the indices of the instructions to which the code at ``pc`` may belong, the
        likeliest first.

        The result is empty for code without a line, such as a spill or a load that several
        instructions share. An arithmetic instruction is followed by the loads that LLVM may have
        folded into it.
        """
        if not self.entry <= pc < self.end:
            return ()
        return InstructionTable(self._code.words).instructions_at(pc - self.entry)


class Compiler:
    """Compiles kernels; caches object code in ``cache_dir`` if given.

    Loaded code and the LLVM session belong to this process: do not use them across a fork.
    """

    def __init__(self, cache_dir: Path | None = None, *, forgiving: bool = False) -> None:
        """With ``forgiving``, a defect of code generation is logged and the kernel compiled lane by
        lane.

        The effect is as if LLVM had rejected the code. Users need this; tests of plans need the
        exception instead.
        """
        self._cache_dir = cache_dir
        self._forgiving = forgiving
        self._session: Any = None
        self._emit: Callable[[str, int], bytes] = _emit_here
        self._libraries = itertools.count()
        self.refused_keys: set[str] = set()

    def compile(
        self, module: Module, function: Function, block: Block, plan: Plan | None = None
    ) -> NativeCode:
        """Compile ``function`` for blocks of shape ``block``. The plan defaults to the best known
        one.

        LLVM may reject the code of the default plan, or crash on it in another process
        (``use_emitter``). The kernel is then compiled lane by lane and without passes. Only if that
        fails too does the launch fail.

        Raises:
            UnsupportedError: the JIT cannot compile this code.
            PlanError: the plan or the block shape is not legal.
            InvalidFunction: the instruction set does not define this code.
            CodeGenerationError: a defect of Tessera.
        """
        key = ""
        if self._cache_dir is not None:
            key = content_key(module, function, block, plan)
            cached_code = self.load_cached(key, block)
            if cached_code is not None:
                return cached_code
        code = self.compile_uncached(module, function, block, plan)
        if self._cache_dir is not None:
            self.store(key, code)
        return code

    def compile_uncached(
        self,
        module: Module,
        function: Function,
        block: Block,
        plan: Plan | None = None,
        *,
        checked: bool = False,
    ) -> NativeCode:
        """Compile as ``compile`` does, but without the cache.

        ``checked`` states that ``isa.container`` has read the module, and that ``refusals`` has
        found no reason to reject the function.
        """
        try:
            form = self._form(module, function, block, checked=checked)
            return self._finish(*self._object(module, form, block, plan), block)
        except ExecutionError:
            raise
        except Exception as error:
            if plan is not None or not self._forgiving:
                raise
            _LOG.error("%s; compiling lane by lane instead", _defect(function, block, error))
        form = self._form(module, function, block, checked=checked, best=False)
        return self._finish(*self._object(module, form, block, SIMPLEST), block)

    def compile_first_tier(
        self, module: Module, function: Function, block: Block
    ) -> NativeCode | None:
        """Compile a checked function under a first-tier plan: fast to compile, slow to run.

        Return None in three cases: there is no such plan; compiling under the best plan takes no
        longer (``tiers``); or the first-tier plan yields no code, although another plan may.
        Raises the same exceptions as ``compile``.
        """
        from vgpu_sim.exec.jit.target import llvm

        form = self._form(module, function, block, checked=True, best=False)
        plan, _ = tiers.first_tier_plan(form, block, llvm.vector_bits())
        if plan is None:
            return None
        failure: object
        try:
            return self._finish(*self._object(module, form, block, plan), block)
        except CodeGenerationError as error:
            failure = error
        except ExecutionError:
            raise
        except Exception as error:
            if not self._forgiving:
                raise
            failure = _defect(function, block, error)
        _LOG.error("%s; compiling under the best plan at once", failure)
        return None

    def generate(
        self, module: Module, function: Function, block: Block, tier: int
    ) -> tuple[str, int]:
        """Return the LLVM text of a kernel and the optimisation tier with which to compile it.

        For tier 0 the plan is that of ``compile_first_tier`` or, if there is none, the simplest
        plan. For other tiers it is the best plan. Raises the same exceptions as ``compile``.
        """
        from vgpu_sim.exec.jit.target import llvm

        form, plan = self._form(module, function, block, checked=True, best=tier != 0), None
        if tier == 0:
            plan = tiers.first_tier_plan(form, block, llvm.vector_bits())[0] or SIMPLEST
        generated = self._generate(module, form, block, plan)
        return generated.text, generated.plan.tier

    def _finish(self, text: _Generated, object_code: bytes, block: Block) -> NativeCode:
        section = elf.read(object_code)
        words = InstructionTable.pack(section.rows, instruction_table.loads_read(text.form))
        return NativeCode(
            assemble.ENTRY,
            object_code,
            text.plan,
            block,
            section.size_bytes,
            words,
            text.groups,
            text.stack_bytes,
            text.counts,
            text.polls,
        )

    def emit_llvm(
        self,
        module: Module,
        function: Function,
        block: Block,
        plan: Plan | None = None,
        *,
        optimised: bool = False,
    ) -> str:
        """Return the LLVM IR of a kernel, before or after LLVM's passes.

        Raises the same exceptions as ``compile``.
        """
        generated = self._generate(module, self._form(module, function, block), block, plan)
        if not optimised:
            return generated.text
        from vgpu_sim.exec.jit.target import llvm

        return llvm.optimise(generated.text, generated.plan.tier)

    def emit_assembly(self, module: Module, function: Function, block: Block) -> str:
        """Return a kernel's machine code as text. Raises the same exceptions as ``compile``."""
        from vgpu_sim.exec.jit.target import llvm

        generated = self._generate(module, self._form(module, function, block), block, None)
        return llvm.assembly(generated.text, generated.plan.tier)

    def load(self, code: NativeCode) -> Loaded:
        """Link object code into this process.

        Raises:
            CodeGenerationError: the object is damaged or needs undefined symbols.
        """
        from llvmlite import binding

        from vgpu_sim.exec.jit.target import llvm

        if not object_check.is_of_this_machine(code.object_code):
            raise CodeGenerationError("the object code is for another kind of processor")
        if self._session is None:
            self._session = llvm.session()
        builder = binding.JITLibraryBuilder()
        builder.add_object_img(code.object_code).export_symbol(code.symbol)
        try:
            tracker = builder.link(self._session, f"kernel{next(self._libraries)}")
        except RuntimeError as error:
            raise CodeGenerationError(f"cannot link object code: {error}") from error
        entry = int(tracker[code.symbol])
        return Loaded(entry, entry + code.code_bytes, code, tracker)

    def use_cache(self, directory: Path | None) -> None:
        """Use another cache directory from now on; None disables the cache."""
        self._cache_dir = directory

    def use_emitter(self, emit: Callable[[str, int], bytes]) -> None:
        """Delegate the emission of object code to ``emit``, which may use another process.

        ``emit`` gets LLVM text and a tier. It raises CodeGenerationError if LLVM rejects the text
        or crashes.
        """
        self._emit = emit

    def store(self, key: str, code: NativeCode) -> None:
        """Store native code under ``key``."""
        if self._cache_dir is not None:
            try:
                cache.store(self._cache_dir, key, code.to_bytes())
            except ValueError as error:
                _LOG.warning("object %s is not cached: %s", key, error)

    def load_cached(self, key: str, block: Block) -> NativeCode | None:
        """Return the native code cached under ``key``, or None.

        An invalid entry is logged, and its key added to ``refused_keys``.
        """
        cached_bytes = cache.load(self._cache_dir, key) if self._cache_dir is not None else None
        if cached_bytes is None:
            return None
        try:
            return NativeCode.from_bytes(cached_bytes, assemble.ENTRY, block)
        except ValueError as error:
            self.refuse(key, error)
            return None

    def refuse(self, key: str, error: Exception) -> None:
        """Log that a cached object cannot be used, and remember its key."""
        _LOG.warning("cached object %s is rejected and compiled again: %s", key, error)
        self.refused_keys.add(key)

    def _object(
        self, module: Module, form: ssa.SsaFunction, block: Block, plan: Plan | None
    ) -> tuple[_Generated, bytes]:
        generated = self._generate(module, form, block, plan)
        try:
            return generated, self._emit_generated(generated)
        except CodeGenerationError as error:
            name = form.function.name
            failure = CodeGenerationError(f"{name}, {generated.plan}, block {block}: {error}")
            if plan is not None or generated.plan == SIMPLEST:
                raise failure from error
        _LOG.error("%s; compiling lane by lane instead", failure)
        generated = self._generate(module, form, block, SIMPLEST)
        try:
            return generated, self._emit_generated(generated)
        except CodeGenerationError as error:
            raise CodeGenerationError(
                f"{failure}; compiling it lane by lane failed too: {error}"
            ) from error

    def _emit_generated(self, generated: _Generated) -> bytes:
        try:
            check_stack(generated.stack_bytes)
        except ValueError as error:
            raise CodeGenerationError(str(error)) from error
        return self._emit(generated.text, generated.plan.tier)

    def _form(
        self,
        module: Module,
        function: Function,
        block: Block,
        *,
        checked: bool = False,
        best: bool = True,
    ) -> ssa.SsaFunction:
        if not checked:
            verify.check_function(function, [variable.name for variable in module.variables])
            for refusal in refusals(function):
                raise refusal
        return forms.build(function, block, best=best)

    def _generate(
        self, module: Module, form: ssa.SsaFunction, block: Block, plan: Plan | None
    ) -> _Generated:
        from vgpu_sim.exec.jit.target import llvm

        chosen_plan = plan or choose.choose(form, block, llvm.vector_bits())
        geometry = chosen_plan.geometry(block)
        if plan is not None and not wait_points.is_legal_geometry(form, geometry):
            raise PlanError(
                f"{plan} separates lanes that wait for each other, in blocks of shape {block}"
            )
        wide = llvm.vector_bits() == 512
        assembler = assemble.Assembler(module, form, geometry, chosen_plan, embedded_rounding=wide)
        text = assembler.text()
        if not assembler.stops:
            return _Generated(form, chosen_plan, text)
        return _Generated(
            form,
            chosen_plan,
            text,
            groups=geometry.groups,
            stack_bytes=assembler.stack_bytes,
            counts=assembler.counts,
            polls=assembler.polls,
        )


def _defect(function: Function, block: Block, error: Exception) -> str:
    return (
        f"{function.name}, block {block}: code generation failed: {type(error).__name__}: {error}"
    )


def _emit_here(text: str, tier: int) -> bytes:
    from vgpu_sim.exec.jit.target import llvm

    return llvm.object_code(text, tier)


def content_key(module: Module, function: Function, block: Block, plan: Plan | None) -> str:
    """Return the cache key: a digest of everything on which object code depends."""
    alone = container.encode(replace(module, functions=(function,)))
    return key_of(extract.Kernels(alone).container(function.name), block, plan)


def key_of(kernel: bytes, block: Block, plan: Plan | None) -> str:
    """Return the ``content_key`` of a kernel. ``kernel`` is a container that holds only this kernel
    (see ``isa.extract``).
    """
    from vgpu_sim.exec.jit.target import llvm

    content = (_generator(), llvm.version(), llvm.cpu(), block, plan)
    return hashlib.sha256(repr(content).encode() + kernel).hexdigest()


@functools.cache
def _generator() -> str:
    """Return a digest of the generator's sources and of the definitions that it uses."""
    digest = hashlib.sha256()
    packages = [Path(__file__).parents[1], *map(Path, isa.__path__)]  # all packages of the JIT
    sources = [source for package in packages for source in package.rglob("*.py")]
    shared = [Path(module.__file__ or "") for module in (approximations, cfg, abi)]
    for source in sorted([*sources, *shared]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()
