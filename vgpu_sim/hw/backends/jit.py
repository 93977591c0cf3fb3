"""The JIT as a backend: native code per kernel and block shape, called by the C runtime itself."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_sim.exec.jit import Compiler, Loaded, UnsupportedError, refusals
from vgpu_sim.exec.jit.compiler import content_key
from vgpu_sim.exec.jit.errors import JitError
from vgpu_sim.hal.abi import FaultKind
from vgpu_sim.hal.ports import FaultSite, LaunchFault, ProgramHandle
from vgpu_sim.hw.warm_up import KERNEL, warm_up_module
from vgpu_sim.isa import Function, Module, Op, container

Block = tuple[int, int, int]


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

    def __init__(self, cache_dir: Path | None) -> None:
        self._compiler = Compiler(cache_dir)
        self._programs: dict[ProgramHandle, _Program] = {}
        self._numbers = itertools.count(1)
        self._warm_up()

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

    def entry(self, program: ProgramHandle, function: str, block: Block) -> int:
        """See ``hal.ports.NativeBackend.entry``."""
        record = self._programs[program]
        if record.module is None:
            record.module = container.decode(record.container)
        if (function, block) not in record.code:
            record.code[function, block] = self._make(record.module, function, block)
        return record.code[function, block].entry

    def locate(self, pc: int) -> FaultSite | None:
        """See ``hal.ports.NativeBackend.locate``."""
        for record in list(self._programs.values()):
            for (name, _), loaded in list(record.code.items()):
                if loaded.entry <= pc < loaded.end and record.module is not None:
                    return _site(record.module.function(name), loaded.locate(pc))
        return None

    def _make(self, module: Module, name: str, block: Block) -> Loaded:
        function = module.function(name)
        try:
            return self._compiler.load(self._compiler.compile(module, function, block))
        except UnsupportedError as err:
            site = FaultSite(name, _line(function, err.word), str(err))
            raise LaunchFault(FaultKind.COMPILE, site) from err
        except JitError as err:
            message = f"the JIT failed on block {block}: {err}"
            raise LaunchFault(FaultKind.INTERNAL, FaultSite(name, 0, message)) from err

    def _warm_up(self) -> None:
        """Compile and load once, so that all that LLVM and Python open is open."""
        self._make(warm_up_module(), KERNEL, (32, 1, 1))


def prepare() -> None:
    """In a zygote: what workers would compute again, but for anything of LLVM's that is alive."""
    module = warm_up_module()
    content_key(module, module.function(KERNEL), (32, 1, 1), None)


def _line(function: Function, word: int | None) -> int:
    return function.lines[word] if word is not None else 0


def _site(function: Function, words: tuple[int, ...]) -> FaultSite:
    """Choose the likeliest access among the words that an instruction may belong to."""
    accesses = [word for word in words if function.code[word].op in (Op.LD, Op.ST)]
    if not accesses:
        return FaultSite(function.name, 0, f"illegal address in {function.name}")
    line = function.lines[accesses[0]]
    others = sorted({function.lines[word] for word in accesses[1:]} - {line})
    message = f"illegal address at PTX line {line} of {function.name}"
    if others:
        message += f" (or line {', '.join(map(str, others))})"
    return FaultSite(function.name, line, message)
