"""The JIT as a backend: native code per kernel and block shape, called by the C runtime."""

import functools
import itertools
import logging
import os
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from vgpu_sim.exec.errors import CodeGenerationError, ExecutionError
from vgpu_sim.exec.jit import (
    ENTRY,
    SIMPLEST,
    Compiler,
    Loaded,
    NativeCode,
    UnsupportedError,
    content_key,
    key_of,
    refusals,
)
from vgpu_sim.exec.jit.objects import elf
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.ports import (
    EmitError,
    Emitter,
    FaultSite,
    LaunchFault,
    NativeEntry,
    NativeFault,
    NativeSite,
    ProgramHandle,
)
from vgpu_sim.isa import Function, Module, container
from vgpu_sim.worker import address_randomization
from vgpu_sim.worker.backends import jit_faults
from vgpu_sim.worker.backends.jit_program import Block, Improvable, Program, Variant
from vgpu_sim.worker.faults.source_places import add_source
from vgpu_sim.worker.warm_up import KERNEL, SAMPLE_KERNEL, sample_module, warm_up_module

_WARM_UP_BLOCK: Final[Block] = (32, 1, 1)
_SAMPLE_BLOCK: Final[Block] = (128, 1, 1)
_LOG = logging.getLogger(__name__)
_ROUNDS: Final = 3  # Python specializes code that runs repeatedly
_prepared: NativeCode | None = None


# Requests to ``emit`` begin with one of these: generated text for either of LLVM's two levels, or a
# kernel and its block.
_TEXT: Final = (b"\0", b"\1")
_KERNEL: Final = b"\2"
_BLOCK: Final = struct.Struct("<3I")


class JitBackend:
    """Implements ``hal.compute.ports.NativeBackend``.

    ``entry`` runs on several threads of the runtime at once; ``locate`` runs on the main thread
    while a kernel waits in its fault handler. The runtime never unloads a program during a call
    that concerns it.
    """

    def __init__(self) -> None:
        self._compiler = Compiler(forgiving=True)
        self._emitter: Emitter | None = None
        self._programs: dict[ProgramHandle, Program] = {}
        self._numbers = itertools.count(1)
        self._loading = threading.Lock()
        self._warm_up()

    def use_cache(self, directory: Path | None) -> None:
        """See ``hal.compute.ports.NativeBackend.use_cache``."""
        self._compiler.use_cache(directory)

    def emit(self, request: bytes) -> bytes:
        """See ``hal.compute.ports.NativeBackend.emit``."""
        from vgpu_sim.exec.jit.target import llvm

        kind, content = request[:1], request[1:]
        try:
            if kind == _KERNEL:
                return _compile_kernel(content)
            return llvm.object_code(content.decode(), _TEXT.index(kind))
        except ExecutionError as err:
            raise EmitError(str(err)) from err

    def warm_up_to_emit(self) -> Iterator[None]:
        """See ``hal.compute.ports.NativeBackend.warm_up_to_emit``."""
        from vgpu_sim.exec.jit.target import llvm

        for text, tier in _warm_up_texts():
            llvm.object_code(text, tier)
            yield
        yield from self.warm_up_in_steps()  # better code needs this, too

    def warm_up_in_steps(self) -> Iterator[None]:
        """See ``hal.compute.ports.NativeBackend.warm_up_in_steps``."""
        small, sample = warm_up_module(), sample_module()
        Compiler().generate(small, small.function(KERNEL), _WARM_UP_BLOCK, 1)
        yield
        Compiler().generate(sample, sample.function(SAMPLE_KERNEL), _SAMPLE_BLOCK, 0)
        yield
        if _prepared is not None:
            elf.read(_prepared.object_code)
            yield

    def use_emitter(self, emitter: Emitter) -> None:
        """See ``hal.compute.ports.NativeBackend.use_emitter``."""

        def object_code(text: str, tier: int) -> bytes:
            try:
                return emitter.request_code(_TEXT[tier] + text.encode()).result()
            except EmitError as err:
                raise CodeGenerationError(str(err)) from err

        self._emitter = emitter
        self._compiler.use_emitter(object_code)

    def load(
        self, container_bytes: bytes, segment_base: int, module: Module | None = None
    ) -> ProgramHandle:
        """See ``hal.compute.ports.Backend.load``; each launch gets the address of the program's
        segment.
        """
        del segment_base
        handle = ProgramHandle(next(self._numbers))
        self._programs[handle] = Program(container_bytes, module)
        return handle

    def refusals(self, module: Module) -> tuple[FaultSite, ...]:
        """See ``hal.compute.ports.Backend.refusals``."""
        return tuple(
            FaultSite(function.name, _line(function, err.word), str(err))
            for function in module.functions
            for err in refusals(function)
        )

    def unload(self, program: ProgramHandle) -> None:
        """See ``hal.compute.ports.Backend.unload``."""
        del self._programs[program]

    def entry(
        self,
        program: ProgramHandle,
        function: str,
        block: Block,
        replace_code: Callable[[NativeEntry], None],
    ) -> NativeEntry:
        """See ``hal.compute.ports.NativeBackend.entry``."""
        record, variant = self._programs[program], (function, block)
        with record.making.setdefault(variant, threading.Lock()):
            if variant not in record.entries:
                return record.publish(variant, self._make(record, variant, replace_code))
        return record.entries[variant]

    def improve(self, program: ProgramHandle, function: str, block: Block) -> None:
        """See ``hal.compute.ports.NativeBackend.improve``."""
        record, variant = self._programs[program], (function, block)
        improvable_kernel = record.improvable.pop(variant, None)
        if improvable_kernel is None:
            return
        assert self._emitter is not None  # otherwise no code is provisional
        request = _KERNEL + _BLOCK.pack(*block) + record.container_of(function)
        future = self._emitter.request_code(request, at_leisure=True)
        future.add_done_callback(
            lambda answer: self._take(record, variant, improvable_kernel, answer)
        )

    def locate(self, fault: NativeFault) -> NativeSite | None:
        """See ``hal.compute.ports.NativeBackend.locate``."""
        for record in list(self._programs.values()):
            place = record.find(fault.pc)
            if place is not None:
                name, words = place
                native = jit_faults.describe(*record.decode(name), words, fault)
                return replace(native, site=add_source(native.site, record.source()))
        return None

    def _make(
        self, record: Program, variant: Variant, replace_code: Callable[[NativeEntry], None]
    ) -> NativeEntry:
        name, block = variant
        kernel = record.container_of(name)
        key = key_of(kernel, block, None)
        cached_code = self._load_cached(record, variant, key)
        if cached_code is not None:
            return cached_code[1]
        with _errors_as_launch_faults(record, variant):
            if (
                self._emitter is None
                or (first_tier_code := self._compile_first_tier(record, variant, key)) is None
            ):
                best = self._compiler.compile_uncached(*record.decode(name), block, checked=True)
                entry = record.keep(name, self._load(best))
                self._compiler.store(key, best)
                return replace(entry, refused=self._count_refused(key))
            first, entry = first_tier_code
        record.improvable[variant] = Improvable(key, first, replace_code)
        return replace(entry, provisional=True, refused=self._count_refused(key))

    def _compile_first_tier(
        self, record: Program, variant: Variant, key: str
    ) -> tuple[NativeCode, NativeEntry] | None:
        """Compile a kernel fast, to code of low quality. Cache that code, because the process may
        end before better code exists.
        """
        name, block = variant
        cached_code = self._load_cached(record, variant, _first_tier(key))
        if cached_code is not None:
            return cached_code
        code = self._compiler.compile_first_tier(*record.decode(name), block)
        if code is None:
            return None
        self._compiler.store(_first_tier(key), code)
        return code, record.keep(name, self._load(code))

    def _load_cached(
        self, record: Program, variant: Variant, key: str
    ) -> tuple[NativeCode, NativeEntry] | None:
        """Load cached code for a key. Returns None if the code is absent or unusable, so that the
        caller compiles it.
        """
        name, block = variant
        code = self._compiler.load_cached(key, block)
        if code is None:
            return None
        try:
            return code, record.keep(name, self._load(code))
        except CodeGenerationError as err:  # damaged in a way that its digest does not reveal
            self._compiler.refuse(key, err)
            return None

    def _count_refused(self, key: str) -> int:
        return len(self._compiler.refused_keys & {key, _first_tier(key)})

    def _take(
        self,
        record: Program,
        variant: Variant,
        improvable_kernel: Improvable,
        answer: Future[bytes],
    ) -> None:
        """Switch a kernel to the better code in ``answer``; if that could not be compiled, keep the
        current code.
        """
        name, block = variant
        try:
            code = NativeCode.from_bytes(answer.result(), ENTRY, block)
            entry = record.keep(name, self._load(code))
        except EmitError as err:
            _LOG.error("%s, block %s: no better code: %s", name, block, err)
            if not err.killed:  # another attempt would fail in the same way
                self._compiler.store(improvable_kernel.key, improvable_kernel.first)
            return
        except (ValueError, CodeGenerationError) as err:
            _LOG.error("%s, block %s: better code cannot be used: %s", name, block, err)
            return
        improvable_kernel.replace_code(record.publish(variant, entry))
        self._compiler.store(improvable_kernel.key, code)

    def _load(self, code: NativeCode) -> Loaded:
        with self._loading:
            address_randomization.fill_holes_above_gap(len(code.object_code))
            return self._compiler.load(code)

    def _warm_up(self) -> None:
        """Load code once, so that LLVM and Python open their files before the sandbox closes.

        It does not use a cache, because this process still has more rights than those that may
        have written the cache.
        """
        self._load(_prepared or _compile_warm_up(self._compiler))


def _first_tier(key: str) -> str:
    return f"{key}.first"


@contextmanager
def _errors_as_launch_faults(record: Program, variant: Variant) -> Iterator[None]:
    """Convert errors of compilation to a LaunchFault of the launch that needs the kernel."""
    name, block = variant
    try:
        yield
    except UnsupportedError as err:
        line = _line(record.decode(name)[1], err.word)
        raise LaunchFault(FaultKind.COMPILE, FaultSite(name, line, str(err))) from err
    except ExecutionError as err:
        message = f"the JIT failed on block {block}: {err}"
        raise LaunchFault(FaultKind.INTERNAL, FaultSite(name, 0, message)) from err


def _compile_kernel(request: bytes) -> bytes:
    """Compile a kernel from its container at the highest quality; this runs in a process that may
    die.
    """
    block = _BLOCK.unpack_from(request)
    module = container.decode(request[_BLOCK.size :])
    return Compiler().compile_uncached(module, module.functions[0], block, checked=True).to_bytes()


def prepare() -> None:
    """In a zygote: compute results that every worker would otherwise have to compute. No LLVM
    object stays alive.
    """
    global _prepared
    module = warm_up_module()
    function = module.function(KERNEL)
    content_key(module, function, _WARM_UP_BLOCK, None)
    for _ in range(_ROUNDS):
        Compiler().emit_llvm(module, function, _WARM_UP_BLOCK)
    _warm_up_texts()
    _prepared = _compile_in_child()


@functools.cache
def _warm_up_texts() -> tuple[tuple[str, int], ...]:
    """Return generated text for each of LLVM's levels."""
    module = warm_up_module()
    function = module.function(KERNEL)
    return tuple(Compiler().generate(module, function, _WARM_UP_BLOCK, tier) for tier in (0, 1))


def _compile_warm_up(compiler: Compiler) -> NativeCode:
    """Compile the warm-up kernel at both of LLVM's levels."""
    module = warm_up_module()
    function = module.function(KERNEL)
    compiler.compile_uncached(module, function, _WARM_UP_BLOCK, SIMPLEST)
    return compiler.compile_uncached(module, function, _WARM_UP_BLOCK)


def _compile_in_child() -> NativeCode:
    """Compile the warm-up kernel in a child, because a process that forks must not contain LLVM.

    Raises:
        RuntimeError: the child failed; it has printed the reason on standard error.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with os.fdopen(writer, "wb") as file:
                file.write(_compile_warm_up(Compiler()).to_bytes())
            status = 0
        except BaseException as err:  # noqa: BLE001 - a forked child must end here
            os.write(2, f"the JIT cannot compile: {type(err).__name__}: {err}\n".encode())
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError("the JIT cannot compile its warm-up kernel")
    return NativeCode.from_bytes(data, ENTRY, _WARM_UP_BLOCK)


def _line(function: Function, word: int | None) -> int:
    return function.lines[word] if word is not None else 0
