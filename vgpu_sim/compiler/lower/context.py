"""The state of lowering: names, registers and emitted code of one function."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.stack.call_graph import CallGraph
from vgpu_sim.compiler.lower.stack.program import Program
from vgpu_sim.compiler.lower.symbols.constants import Constants
from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.frames import Frame, LocalVariable, size_and_alignment
from vgpu_sim.compiler.lower.symbols.scopes import (
    HALVES,
    LabelTarget,
    Refused,
    RegisterClass,
    Scope,
)
from vgpu_sim.compiler.lower.symbols.shared_memory import SharedMemory, SharedVariable
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Guard, Parameter, Predicate, Register, Variable
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Symbols:
    """What the code of a function needs to know about its module: the names that the module
    declares, its PTX version, and its target.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()
    handles: dict[str, str] = field(default_factory=dict)  # variables of opaque types: their type
    shared: dict[str, tree.Variable] = field(default_factory=dict)
    local: tuple[tree.Variable, ...] = ()
    version: tuple[int, int] = (0, 0)
    capability: tuple[int, int] = (0, 0)
    graph: CallGraph = field(default_factory=CallGraph)
    findings: Callable[[str], Findings] = field(default=lambda _: Findings("", ""))
    lowered: set[str] = field(default_factory=set)  # functions already lowered once


@dataclass(slots=True)
class Context:
    """The function being lowered, and its current instruction's ``operands``.

    The kernel has ``shared_bytes`` of shared variables in total, placed in ``memory``; ``locals``
    are the module's variables in local memory. ``lower_function`` lowers the statements of a called
    function. ``parameter_image`` is the variable to which a launch copies the parameters, if the
    kernel uses it. ``has_short_addresses`` is true if the kernel moves the address of a parameter
    to a register of 32 bits.

    In a called function ``leave`` is the label of its end, and ``recursive`` is true if the code
    may be called again before it returns. With ``check_only`` the code is discarded.
    """

    builder: Builder
    symbols: Symbols
    parameters: dict[str, Parameter]
    scope: Scope
    frame: Frame
    program: Program
    lower_function: "Callable[[Context, tree.Function], None]"
    memory: SharedMemory
    findings: Findings
    constants: Constants = field(default_factory=Constants)
    locals: dict[str, LocalVariable] = field(default_factory=dict)
    shared_bytes: int = 0
    parameter_image: str = ""
    uses_parameter_image: bool = False
    has_short_addresses: bool = False
    operands: tuple[tree.Operand, ...] = ()
    leave: LabelTarget | None = None
    recursive: bool = False
    check_only: bool = False
    carry: Predicate | None = None

    def find_shared(self, name: str) -> SharedVariable | None:
        """Return the place of the module's shared variable ``name`` in this kernel's shared
        memory.
        """
        declared = self.symbols.shared.get(name)
        if declared is None:
            return None
        return SharedVariable(0) if self.check_only else self.memory.find_variable(declared)

    def register(self, name: tree.Name) -> Register | Predicate | None:
        """Return the register called ``name``, or None if the name denotes something else.

        Raises:
            Unsupported: its declaration was refused.
        """
        binding = self.scope.find(name.text)
        if binding is None:
            return None
        scope, declared = binding
        if isinstance(declared, RegisterClass):
            if declared.is_wide:
                return self._half(scope, declared, name)
            if name.component:
                raise Invalid(f"{name.text!r} has no component {name.component!r}", name)
            return self.builder.register_for(scope, name.text, declared)
        if isinstance(declared, SharedVariable | LocalVariable):
            return None
        raise Unsupported(f"{declared.what}", name)

    def _half(self, scope: Scope, declared: RegisterClass, name: tree.Name) -> Register | Predicate:
        if name.component not in HALVES:
            defect = f"no component {name.component!r}" if name.component else "128 bits"
            raise Invalid(f"{name.text!r} has {defect}", name)
        return self.builder.register_for(scope, f"{name.text}.{name.component}", declared)

    def is_wide(self, operand: tree.Operand) -> bool:
        """True if an operand is a whole register of 128 bits."""
        if not isinstance(operand, tree.Name) or operand.component:
            return False
        binding = self.scope.find(operand.text)
        return binding is not None and isinstance(binding[1], RegisterClass) and binding[1].is_wide

    def for_callee(self, function: tree.Function, frame: Frame) -> "Context":
        """Return the context for a called function, whose variables are in ``frame``.

        The called function sees its own names and the module's names, but not those of its
        caller.
        """
        return replace(
            self,
            parameters={},
            scope=Scope(),
            frame=frame,
            findings=self.symbols.findings(function.name),
            constants=Constants(function),
            operands=(),
            leave=LabelTarget("leave"),
            carry=None,
        )

    def carry_predicate(self) -> Predicate:
        """Return the predicate that holds this function's carry flag (the register CC.CF of
        PTX).
        """
        if self.carry is None:
            self.carry = self.builder.new_predicate()
        return self.carry

    @contextmanager
    def branch_around(self) -> Iterator[None]:
        """Emit a branch around the instructions of the ``with`` block; lanes that the guard
        excludes take the branch.
        """
        builder, guard = self.builder, self.builder.guard
        onward = LabelTarget("onward")
        if guard is not None:
            with builder.use_guard(Guard(guard.predicate, not guard.negated)):
                builder.emit_branch(onward, uniform=False)
        builder.guard = None
        yield
        if guard is not None:
            builder.place(onward)

    def create_local(self, declared: tree.Variable) -> LocalVariable:
        """Create the declared variable in this frame; return it.

        Raises:
            Invalid, Unsupported: the declaration is refused.
        """
        return self.new_local(*size_and_alignment(declared))

    def new_local(self, size: int, align: int) -> LocalVariable:
        """Create a variable of ``size`` bytes in this frame; return it."""
        variable = LocalVariable(self.builder.new_name("variable"), size, align, self.builder.owner)
        self.frame.variables.append(variable)
        return variable

    def bits(self, register: Register) -> int:
        """Return a register's width in bits."""
        return self.builder.register_bits[register.index]

    def label(self, name: tree.Name) -> LabelTarget:
        """Return the label called ``name``.

        Raises:
            Invalid: it is not defined in this or an outer scope.
        """
        label = self.scope.find_label(name.text)
        if label is None:
            raise Invalid(f"label {name.text!r} is not defined", name)
        return label
