"""The JIT as a backend: native code per kernel and block shape, called by the C runtime itself."""

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vgpu_sim.exec.errors import CodeGenerationError, ExecutionError
from vgpu_sim.exec.jit import Compiler, Loaded, NativeCode, UnsupportedError, refusals
from vgpu_sim.exec.jit.assemble import ENTRY
from vgpu_sim.exec.jit.compiler import content_key
from vgpu_sim.hal.abi import FaultKind
from vgpu_sim.hal.ports import (
    EmitError,
    FaultSite,
    LaunchFault,
    NativeEntry,
    NativeFault,
    NativeSite,
    ProgramHandle,
)
from vgpu_sim.isa import Function, Module, container
from vgpu_sim.worker.backends import jit_faults
from vgpu_sim.worker.warm_up import KERNEL, warm_up_module

Block = tuple[int, int, int]

_WARM_UP_BLOCK: Final[Block] = (32, 1, 1)
_prepared: NativeCode | None = None


@dataclass(slots=True)
class _Program:
    container: bytes
    module: Module | None = None
    code: dict[tuple[str, Block], Loaded] = field(default_factory=dict)


class JitBackend:
    """Implements ``hal.ports.NativeBackend``.

    ``entry`` runs on the scheduler's thread, ``locate`` on the main thread while a kernel waits in
    its fault handler; the runtime never unloads a program that is being asked for.
    """

    def __init__(self) -> None:
        self._compiler = Compiler()
        self._programs: dict[ProgramHandle, _Program] = {}
        self._numbers = itertools.count(1)
        self._warm_up()

    def use_cache(self, directory: Path | None) -> None:
        """See ``hal.ports.NativeBackend.use_cache``."""
        self._compiler.use_cache(directory)

    def emit(self, request: bytes) -> bytes:
        """See ``hal.ports.NativeBackend.emit``: the tier in a byte, then the text."""
        from vgpu_sim.exec.jit import llvm

        try:
            return llvm.object_code(request[1:].decode(), request[0])
        except CodeGenerationError as err:
            raise EmitError(str(err)) from err

    def emit_by(self, emit: Callable[[bytes], bytes]) -> None:
        """See ``hal.ports.NativeBackend.emit_by``."""

        def object_code(text: str, tier: int) -> bytes:
            try:
                return emit(bytes([tier]) + text.encode())
            except EmitError as err:
                raise CodeGenerationError(str(err)) from err

        self._compiler.emit_by(object_code)

    def load(self, container_bytes: bytes, segment_base: int) -> ProgramHandle:
        """See ``hal.ports.Backend.load``. The segment's address is an argument of each launch."""
        del segment_base
        handle = ProgramHandle(next(self._numbers))
        self._programs[handle] = _Program(container_bytes)
        return handle

    def refusals(self, container_bytes: bytes) -> tuple[FaultSite, ...]:
        """See ``hal.ports.Backend.refusals``."""
        return tuple(
            FaultSite(function.name, _line(function, err.word), str(err))
            for function in container.decode(container_bytes).functions
            for err in refusals(function)
        )

    def unload(self, program: ProgramHandle) -> None:
        """See ``hal.ports.Backend.unload``."""
        del self._programs[program]

    def entry(self, program: ProgramHandle, function: str, block: Block) -> NativeEntry:
        """See ``hal.ports.NativeBackend.entry``."""
        record = self._programs[program]
        if record.module is None:
            record.module = container.decode(record.container)
        if (function, block) not in record.code:
            record.code[function, block] = self._make(record.module, function, block)
        loaded = record.code[function, block]
        return NativeEntry(loaded.entry, loaded.groups, loaded.stack_bytes, loaded.counts)

    def locate(self, fault: NativeFault) -> NativeSite | None:
        """See ``hal.ports.NativeBackend.locate``."""
        for record in list(self._programs.values()):
            for (name, _), loaded in list(record.code.items()):
                if loaded.entry <= fault.pc < loaded.end and record.module is not None:
                    function = record.module.function(name)
                    return jit_faults.describe(function, loaded.locate(fault.pc), fault)
        return None

    def _make(self, module: Module, name: str, block: Block) -> Loaded:
        function = module.function(name)
        try:
            return self._compiler.load(self._compiler.compile(module, function, block))
        except UnsupportedError as err:
            site = FaultSite(name, _line(function, err.word), str(err))
            raise LaunchFault(FaultKind.COMPILE, site) from err
        except ExecutionError as err:
            message = f"the JIT failed on block {block}: {err}"
            raise LaunchFault(FaultKind.INTERNAL, FaultSite(name, 0, message)) from err

    def _warm_up(self) -> None:
        """Load once, so that all that LLVM and Python open is open before the sandbox closes.

        Never from a cache: this runs with more rights than whoever could have written there.
        """
        self._compiler.load(_prepared or _compile_warm_up(self._compiler))


def prepare() -> None:
    """In a zygote: what workers would compute again, but for anything of LLVM's that is alive."""
    global _prepared
    module = warm_up_module()
    content_key(module, module.function(KERNEL), _WARM_UP_BLOCK, None)
    _prepared = _compiled_by_a_child()


def _compile_warm_up(compiler: Compiler) -> NativeCode:
    module = warm_up_module()
    return compiler.compile(module, module.function(KERNEL), _WARM_UP_BLOCK)


def _compiled_by_a_child() -> NativeCode:
    """Compile the warm-up where LLVM may live: a process that forks must not carry it.

    Raises:
        RuntimeError: when the child failed; it said why on standard error.
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
