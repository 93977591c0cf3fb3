"""The stages that a text passes through, and their required outcome: a result, or an error with a
location.

``parse``: a tree or a PtxSyntaxError. ``isa``: a module whose functions all pass the verifier and
whose container survives a round trip, or a PtxError. ``llvm``: object code for every kernel, compiled
as in a worker, or an UnsupportedError. Anything else is a ``Failure``, and so is exceeding the time
or memory limit.
"""

import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from vgpu_sim.compiler import InvalidPtxError, PtxError, PtxSyntaxError, compile_ptx
from vgpu_sim.compiler.ptx import parse, tree
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import CodeGenerationError, UnsupportedError
from vgpu_sim.hal.compute.ports import EmitError
from vgpu_sim.isa import container, verify
from vgpu_sim.worker.compiling.compile_helper import CompileHelper

STAGES = ("parse", "isa", "llvm")
CPU_SECONDS = {"parse": 5.0, "isa": 10.0, "llvm": 60.0}
MAX_GROWTH_KIB = 512 << 10
_CAPABILITY = (10, 0)
_BLOCKS = ((64, 1, 1), (7, 3, 1), (33, 1, 1), (16, 16, 1))
_ROOT = str(Path(__file__).parents[4])


@dataclass(frozen=True)
class Failure:
    """An unexpected result for a text: its kind with the place in the code, and all output."""

    kind: str
    detail: str


class _TooSlow(BaseException):
    """Not an Exception, so that no handler in the product catches it."""


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise _TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Target:
    """One of ``STAGES``. The caller must ``close`` it: ``llvm`` has a process of its own."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._run: Callable[[bytes], str] = {
            "parse": _parse,
            "isa": _to_isa,
            "llvm": self._to_object,
        }[stage]
        self.reached: dict[str, int] = {}  # the number of texts for each result
        if stage == "llvm":
            self._helper, self._pid = _helper()
            self._compiler = jit.Compiler()
            self._compiler.use_emitter(self._emit)

    def close(self) -> None:
        if self._stage == "llvm":
            self._helper.close()
            os.waitpid(self._pid, 0)

    def examine(self, data: bytes) -> Failure | None:
        """Return the failure of ``data``, or None."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            with _limit(CPU_SECONDS[self._stage]):
                came_to = self._run(data)
        except _TooSlow as error:
            return Failure(
                f"too slow at {_place(error)}", "".join(traceback.format_tb(error.__traceback__))
            )
        except (Exception, RecursionError) as error:  # noqa: BLE001 - any is a defect
            said = f"{type(error).__name__} at {_place(error)}"
            return Failure(said, "".join(traceback.format_exception(error))[-4000:])
        self.reached[came_to] = self.reached.get(came_to, 0) + 1
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown > MAX_GROWTH_KIB:
            return Failure("too much memory", f"{grown} KiB more than before")
        return None

    def _emit(self, text: str, tier: int) -> bytes:
        try:
            return self._helper.request_code(bytes([tier]) + text.encode()).result()
        except EmitError as error:
            raise CodeGenerationError(str(error)) from error

    def _to_object(self, data: bytes) -> str:
        try:
            module = compile_ptx(data, capability=_CAPABILITY, partial=True)
        except PtxError:
            return "refused"
        came_to = "no kernel"
        for function in module.functions[:4]:
            block = function.required_block or _BLOCKS[len(data) % len(_BLOCKS)]
            try:
                self._compiler.compile(module, function, block)
                came_to = "object code"
            except UnsupportedError:
                came_to = "not on the JIT"
        return came_to


def _parse(data: bytes) -> str:
    try:
        module = parse(data)
    except PtxSyntaxError as error:
        refusal = error
    else:
        assert isinstance(module, tree.Module)
        return "tree"
    assert min(refusal.line, refusal.column) >= 0
    assert refusal.message
    return "refused"


def _to_isa(data: bytes) -> str:
    try:
        module = compile_ptx(data, capability=_CAPABILITY, partial=True)
    except PtxError as error:
        refusal = error
    else:
        verify.check_module(module)
        assert container.decode(container.encode(module)) == module
        return "code" if module.functions else "no kernel"
    assert refusal.log().startswith("<ptx>:")
    if isinstance(refusal, InvalidPtxError):
        assert all(one.line >= 0 and one.message for one in refusal.diagnostics)
    return "refused"


def _helper() -> tuple[CompileHelper, int]:
    """Fork a helper that generates code, as for workers.

    Like that of a worker, it loads LLVM before it forks a child for each text, because loading
    LLVM takes longer than compiling most texts.
    """

    def emit(request: bytes) -> bytes:
        from vgpu_sim.exec.jit.target import llvm

        try:
            return llvm.object_code(request[1:].decode(), request[0])
        except CodeGenerationError as error:
            raise EmitError(str(error)) from error

    helper = CompileHelper(emit, lambda: iter(()))
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from vgpu_sim.exec.jit.target import llvm

        for tier in (0, 1):
            llvm.assembly("define void @ready() { ret void }", tier)
        helper.serve(lambda: None)
    helper.connect()
    return helper, pid


def _place(error: BaseException) -> str:
    """Return the innermost place in the product, without the line, to identify equal defects."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f.filename.startswith(f"{_ROOT}/vgpu_sim/")] or list(frames)
    last = ours[-1]
    return f"{Path(last.filename).stem}.{last.name}"
