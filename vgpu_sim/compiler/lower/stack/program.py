"""The code of one kernel with that of the functions that it calls.

A call is inlined, or it is a jump to a body after the kernel's code, which jumps back to the
call site by its number. Only functions that may be called again before they return need more:
their variables are on the stack, and their registers are saved there around such calls.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Final

from vgpu_sim.compiler.lower.builder import NO_OWNER, Builder
from vgpu_sim.compiler.lower.stack.call_graph import CallGraph
from vgpu_sim.compiler.lower.stack.stack import Stack
from vgpu_sim.compiler.lower.symbols.frames import Frame, LocalVariable
from vgpu_sim.compiler.lower.symbols.scopes import LabelTarget
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Register
from vgpu_sim.records import dataclass

MAX_INLINE_STATEMENTS: Final = 20_000
"""The number of PTX statements by which inlined calls may grow a kernel.

Further calls become jumps.
"""

MAX_INLINE_DEPTH: Final = 48

MAX_INLINE_NESTING: Final = 80
"""The number of nested scopes around an inlined call, including those of its callers.

Each scope costs Python stack frames.
"""

Value = Register | LocalVariable
"""The place of an argument or a result: a register (``.reg``) or a variable (``.param``)."""


@dataclass(slots=True, eq=False)
class Body:
    """The code of a called function that is not inlined: calls jump to it.

    ``inputs`` and ``outputs`` hold the arguments and results. ``site`` holds the number of the
    call site, to which the body jumps back. No other code uses these variables between the call and
    the beginning of the body, or between the end of the body and the call site.
    """

    function: tree.Function
    owner: int
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    site: Register
    entry: LabelTarget = field(default_factory=lambda: LabelTarget("entry"))
    exit: LabelTarget = field(default_factory=lambda: LabelTarget("exit"))
    own_site: Register | None = None  # where an activation stores ``site``
    sites: list[LabelTarget] = field(default_factory=list)


class Program:
    """State that the code of a kernel shares with the code of the functions that it calls."""

    def __init__(self, builder: Builder, graph: CallGraph) -> None:
        self.builder = builder
        self.graph = graph
        self.stack = Stack(builder)
        self.frames: list[Frame] = []
        self.bodies: dict[str, Body] = {}
        self.pending: deque[Body] = deque()
        self.emitted: set[str] = set()  # functions of the compiler's own that were emitted once
        self.tensor_memory = False  # whether the code uses tensor memory
        self.tensor_group = ""  # the modifier of its tcgen05 instructions that names their blocks
        self.has_pairs = False  # whether it has instructions of pairs of blocks
        self.multiplies_asynchronously = False  # whether it has `wgmma` other than its fence
        self.parted = False  # whether a register has 128 bits
        self.nesting = 0  # scopes around the statement that is being lowered
        self._statements_left = MAX_INLINE_STATEMENTS
        self._calls = 0

    def new_frame(self, pointer: Register | None = None) -> Frame:
        """Return a new frame of local memory for a function's code."""
        frame = Frame(self.builder.new_name("frame"), pointer)
        self.frames.append(frame)
        return frame

    def next_call(self) -> int:
        """Return a number, not used before, for a call that saves registers."""
        self._calls += 1
        return self._calls

    def try_inline(self, function: tree.Function) -> bool:
        """Return whether to inline a call of ``function``.

        If the call is inlined, the statements of ``function`` count toward the kernel's limit of
        inlined statements.
        """
        graph = self.graph
        size = graph.size(function)
        if graph.is_recursive(function) or graph.depth(function) > MAX_INLINE_DEPTH:
            return False
        if self.nesting > MAX_INLINE_NESTING:
            return False
        if function.name in self.bodies or size > self._statements_left:
            return False
        self._statements_left -= size
        return True

    def body_of(self, function: tree.Function, interface: Callable[[Frame], "Interface"]) -> Body:
        """Return the body of a function that is not inlined; create it at the first request.

        ``interface`` is called to create the function's arguments and results.
        """
        body = self.bodies.get(function.name)
        if body is None:
            builder = self.builder
            with builder.use_owner(NO_OWNER):
                inputs, outputs = interface(self.new_frame())
                site = builder.new_register(32)
            body = Body(function, len(self.bodies) + 1, inputs, outputs, site)
            self.bodies[function.name] = body
            self.pending.append(body)
        return body


Interface = tuple[tuple[Value, ...], tuple[Value, ...]]
