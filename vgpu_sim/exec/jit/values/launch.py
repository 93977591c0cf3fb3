"""The inputs of generated code, and values that are constant during a launch.

The layouts of ``hal.compute.abi.LaunchContext`` and ``ThreadState`` are the binary interface
between object code and the native runtime; the cache key of objects includes them
(``compiler.content_key``).
"""

from collections.abc import Callable
from typing import Final

from vgpu_sim.exec.jit.numbers.known_bits import SEGMENT
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.hal.compute import abi
from vgpu_sim.hal.compute.address_map import (
    GPU_WINDOW_BYTES,
    LOCAL_OFFSET,
    MISALIGNED_OFFSET_BYTES,
    SHARED_MISALIGNED_OFFSET_BYTES,
    SHARED_OFFSET,
)

CONTEXT_APERTURE_BASE: Final = abi.LaunchContext.aperture_base.offset
CONTEXT_APERTURE_LIMIT: Final = abi.LaunchContext.aperture_limit.offset
CONTEXT_SEGMENT_BASE: Final = abi.LaunchContext.segment_base.offset
CONTEXT_LOCAL_BYTES: Final = abi.LaunchContext.local_bytes.offset
CONTEXT_GRID: Final = abi.LaunchContext.grid.offset
CONTEXT_GRID_ID: Final = abi.LaunchContext.grid_id.offset
CONTEXT_MULTIPROCESSORS: Final = abi.LaunchContext.multiprocessors.offset
CONTEXT_DYNAMIC_SHARED: Final = abi.LaunchContext.dynamic_shared_bytes.offset
CONTEXT_TIMER_NS: Final = abi.LaunchContext.timer_ns.offset
CONTEXT_TIMER_SCALE: Final = abi.LaunchContext.timer_scale.offset
CONTEXT_CLUSTER: Final = abi.LaunchContext.cluster.offset
CONTEXT_CLUSTER_EXPLICIT: Final = abi.LaunchContext.cluster_explicit.offset
CONTEXT_CLUSTER_STEP: Final = abi.LaunchContext.cluster_step.offset
THREAD_SHARED_BASE: Final = abi.ThreadState.shared_base.offset
THREAD_LOCAL_BASE: Final = abi.ThreadState.local_base.offset
THREAD_STOP: Final = abi.ThreadState.stop.offset
THREAD_TURNS: Final = abi.ThreadState.turns.offset
THREAD_MEET: Final = abi.ThreadState.meet.offset
THREAD_CLUSTER: Final = abi.ThreadState.cluster.offset
THREAD_CANCEL: Final = abi.ThreadState.cancel.offset
THREAD_COLLECT: Final = abi.ThreadState.collect.offset
THREAD_MULTIPLY: Final = abi.ThreadState.multiply.offset
WRONG_MEMBERS: Final = 1 << 31
"""A flag added to the trap word if member masks are invalid."""
THREAD_BLOCK_INDEX: Final = abi.ThreadState.block_index.offset
THREAD_BLOCK: Final = abi.ThreadState.current_block.offset
THREAD_STATUS: Final = abi.ThreadState.status.offset
THREAD_TRAP_WORD: Final = abi.ThreadState.trap_word.offset


class EntryArguments:
    """Emits loads of a kernel's parameters, and of fields of the launch context and thread state.

    Each load is emitted only once, in a function's prologue.
    """

    def __init__(self, text: Text, offset_of: Callable[[str], int]) -> None:
        self._text = text
        self._offset_of = offset_of
        self._known: dict[tuple[str, object], str] = {}

    def _once(self, kind: str, key: object, write: Callable[[], str]) -> str:
        if (kind, key) not in self._known:
            with self._text.in_prologue():
                self._known[kind, key] = write()
        return self._known[kind, key]

    def _load(self, pointer: str, offset: int, type_: str) -> str:
        text = self._text
        address = text.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return text.let(f"load {type_}, ptr {address}, align 1, !invariant.load !0")

    def parameter(self, offset: int, type_: str) -> str:
        """Return the kernel parameter at byte ``offset``, as a value of ``type_``."""
        return self._once(
            "parameter", (offset, type_), lambda: self._load("%params", offset, type_)
        )

    def context(self, offset: int, type_: str = "i64") -> str:
        """Return the field at byte ``offset`` of the launch context (``abi.LaunchContext``)."""
        return self._once("context", offset, lambda: self._load("%ctx", offset, type_))

    def thread(self, offset: int, type_: str) -> str:
        """Return the field at byte ``offset`` of the thread state (``abi.ThreadState``). The field
        must be constant while the code runs.
        """
        return self._once("thread", offset, lambda: self._load("%thread", offset, type_))

    def emit_once(self, name: str, write: Callable[[], str]) -> str:
        """Return the value that the code emitted by ``write`` computes.

        The value is constant during a launch, so the code is emitted only once for each
        ``name``.
        """
        return self._once("value", name, write)

    def local_window(self) -> str:
        """Return the generic address at which local memory begins. It is in the window of the
        module's GPU.
        """
        segment = self.context(CONTEXT_SEGMENT_BASE)

        def write() -> str:
            gpu = self._text.let(f"and i64 {segment}, {-GPU_WINDOW_BYTES}")
            return self._text.let(f"add i64 {gpu}, {LOCAL_OFFSET}")

        return self.emit_once("local window", write)

    def symbol(self, name: str, addend: int) -> str:
        """Return the address of a module variable plus ``addend``."""
        base = self.context(CONTEXT_SEGMENT_BASE)
        offset = self._offset_of(name) + addend
        return self._once(
            "symbol", (name, addend), lambda: self._text.let(f"add i64 {base}, {offset}")
        )

    def window(self) -> str:
        """Return the generic address at which shared memory begins. It is in the window of the
        module's GPU.
        """
        segment = self.context(CONTEXT_SEGMENT_BASE)

        def write() -> str:
            gpu = self._text.let(f"and i64 {segment}, {-GPU_WINDOW_BYTES}")
            return self._text.let(f"add i64 {gpu}, {SHARED_OFFSET}")

        return self._once("window", "", write)

    def origin(self, parameter: int) -> str:
        """Return the unclamped pointer ``parameter``, from which addresses are derived.

        ``parameter`` is a kernel parameter's byte offset, or ``SEGMENT`` (see ``known_values``).
        """
        if parameter == SEGMENT:
            return self.context(CONTEXT_SEGMENT_BASE)
        return self.parameter(parameter, "i64")

    def clamped_origin(self, parameter: int, size: int) -> str:
        """Return the pointer ``parameter``, clamped to the aperture for accesses of ``size`` bytes.

        If the pointer is not a multiple of ``size``, return a pointer into the memory image to
        which misaligned accesses are redirected.
        """
        raw = self.origin(parameter)

        def write() -> str:
            pointer = self.clamp(raw)
            return (
                pointer
                if size == 1
                else self.offset_pointer(pointer, self.origin_shift(parameter, size))
            )

        return self._once("clamped", (parameter, size), write)

    def origin_shift(self, parameter: int, size: int) -> str:
        """Return the distance by which accesses are redirected if the pointer ``parameter`` is
        misaligned; 0 if it is aligned.
        """
        raw = self.origin(parameter)
        return self._once("shift", (parameter, size), lambda: self.shift(raw, size))

    def shift(
        self,
        address: str,
        size: int,
        *,
        vector: bool = False,
        shared: bool = False,
        scalar: str = "i64",
    ) -> str:
        """Return the distance by which an access of ``size`` bytes is redirected if it is
        misaligned; 0 if it is aligned.
        """
        text = self._text
        type_ = text.type_of(scalar, vector)
        low = text.let(f"and {type_} {address}, {text.const(size - 1, scalar, vector)}")
        bad = text.let(f"icmp ne {type_} {low}, {text.const(0, scalar, vector)}")
        distance = SHARED_MISALIGNED_OFFSET_BYTES if shared else MISALIGNED_OFFSET_BYTES
        far, near = (text.const(n, "i64", vector) for n in (distance, 0))
        return text.select(bad, far, near, "i64", vector)

    def offset_pointer(self, pointer: str, distance: str) -> str:
        """Return a pointer plus ``distance`` bytes."""
        return self._text.let(f"getelementptr i8, ptr {pointer}, i64 {distance}")

    def clamp(self, address: str, shift: str = "0") -> str:
        """Return ``aperture_base + umin(address - aperture_base, aperture_limit)`` as a pointer.

        ``shift`` is a number of bytes that is added to the result. It is "0" or a value that the
        prologue computes.
        """
        base, limit = self._bounds()
        distance = self._text.let(f"sub i64 {address}, {base}")
        distance = self._text.intrinsic("umin", "i64", False, distance, limit)
        return self.offset_pointer(self._start(shift), distance)

    def clamp_lanes(self, addresses: str, shift: str = "0") -> str:
        """Clamp each lane's address, and return a vector of pointers. ``shift`` is as in
        ``clamp``.
        """
        text = self._text
        base, limit = self._bounds()
        type_ = text.type_of("i64", vector=True)
        distance = text.let(f"sub {type_} {addresses}, {text.splat('i64', base)}")
        distance = text.intrinsic("umin", "i64", True, distance, text.splat("i64", limit))
        return text.let(f"getelementptr i8, ptr {self._start(shift)}, {type_} {distance}")

    def misaligned_pointer(self, offset: int) -> str:
        """Return the pointer to byte ``offset`` of the memory image to which misaligned accesses
        are redirected. Every access to that image faults.
        """
        return self.offset_pointer(self._start("0"), str(MISALIGNED_OFFSET_BYTES + offset))

    def _bounds(self) -> tuple[str, str]:
        return self.context(CONTEXT_APERTURE_BASE), self.context(CONTEXT_APERTURE_LIMIT)

    def _start(self, shift: str) -> str:
        base, _ = self._bounds()
        origin = self._once("pointer", "0", lambda: self._text.let(f"inttoptr i64 {base} to ptr"))
        if shift == "0":
            return origin
        return self._once("pointer", shift, lambda: self.offset_pointer(origin, shift))
