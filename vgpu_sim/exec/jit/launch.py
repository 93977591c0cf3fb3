"""What generated code reads from its caller, and the values that are the same for a whole launch.

The layouts of ``launch_context`` and ``thread_state`` are the binary interface between object code
and the native runtime: changing an offset changes every cached object (``GENERATOR_ABI``).
"""

from collections.abc import Callable

from vgpu_sim.exec.jit.roots import SEGMENT
from vgpu_sim.exec.jit.text import Text

GENERATOR_ABI = 1

CONTEXT_APERTURE_BASE = 0
CONTEXT_APERTURE_LIMIT = 8
CONTEXT_SEGMENT_BASE = 16
CONTEXT_GRID = 24
THREAD_BLOCK = 0
THREAD_STATUS = 8
THREAD_STATE_BYTES = 48
STATUS_LAUNCH_FAILED = 719


class Launch:
    """Loads from context and parameters, written once into a function's prologue."""

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
        """A kernel parameter."""
        return self._once(
            "parameter", (offset, type_), lambda: self._load("%params", offset, type_)
        )

    def context(self, offset: int, type_: str = "i64") -> str:
        """A field of ``launch_context``."""
        return self._once("context", offset, lambda: self._load("%ctx", offset, type_))

    def symbol(self, name: str, addend: int) -> str:
        """The address of a module variable plus ``addend``."""
        base = self.context(CONTEXT_SEGMENT_BASE)
        offset = self._offset_of(name) + addend
        return self._once(
            "symbol", (name, addend), lambda: self._text.let(f"add i64 {base}, {offset}")
        )

    def root(self, parameter: int) -> str:
        """The raw pointer from which addresses start (see ``roots``)."""
        if parameter == SEGMENT:
            return self.context(CONTEXT_SEGMENT_BASE)
        return self.parameter(parameter, "i64")

    def clamped_root(self, parameter: int) -> str:
        """That pointer within the aperture, as a pointer."""
        raw = self.root(parameter)
        return self._once("clamped", parameter, lambda: self.clamp(raw))

    def clamp(self, address: str) -> str:
        """``aperture_base + umin(address - aperture_base, aperture_limit)`` as a pointer."""
        text = self._text
        base = self.context(CONTEXT_APERTURE_BASE)
        limit = self.context(CONTEXT_APERTURE_LIMIT)
        origin = self._once("pointer", 0, lambda: text.let(f"inttoptr i64 {base} to ptr"))
        distance = text.let(f"sub i64 {address}, {base}")
        distance = text.intrinsic("umin", "i64", False, distance, limit)
        return text.let(f"getelementptr i8, ptr {origin}, i64 {distance}")

    def clamp_lanes(self, addresses: str) -> str:
        """``clamp`` of each lane, as a vector of pointers."""
        text = self._text
        base = self.context(CONTEXT_APERTURE_BASE)
        limit = self.context(CONTEXT_APERTURE_LIMIT)
        origin = self._once("pointer", 0, lambda: text.let(f"inttoptr i64 {base} to ptr"))
        type_ = text.type_of("i64", vector=True)
        distance = text.let(f"sub {type_} {addresses}, {text.splat('i64', base)}")
        distance = text.intrinsic("umin", "i64", True, distance, text.splat("i64", limit))
        return text.let(f"getelementptr i8, ptr {origin}, {type_} {distance}")
