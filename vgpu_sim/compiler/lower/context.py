"""What the lowering of one instruction can see and do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.stack.call_graph import CallGraph
from vgpu_sim.compiler.lower.stack.program import Program
from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.frames import Frame, LocalVariable, extent
from vgpu_sim.compiler.lower.symbols.scopes import (
    HALVES,
    LabelTarget,
    Refused,
    RegisterClass,
    Scope,
)
from vgpu_sim.compiler.lower.symbols.shared import SharedMemory, SharedVariable
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Guard, Parameter, Predicate, Register, Variable


@dataclass(frozen=True, slots=True)
class Symbols:
    """Names of the module as a function sees them; its PTX version, and what its target asks."""

    variables: dict[str, Variable] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()
    shared: dict[str, tree.Variable] = field(default_factory=dict)
    local: tuple[tree.Variable, ...] = ()
    version: tuple[int, int] = (0, 0)
    capability: tuple[int, int] = (0, 0)
    graph: CallGraph = field(default_factory=CallGraph)
    findings: Callable[[str], Findings] = field(default=lambda _: Findings("", ""))
    lowered: set[str] = field(default_factory=set)  # functions whose statements have been, once


@dataclass(slots=True)
class Context:
    """The function being lowered. ``operands`` are those of the current instruction. The kernel has
    ``shared_bytes`` of shared variables in all; ``locals`` has the module's variables in local
    memory. ``memory`` is where shared ones lie, and
    ``lower_function`` writes the statements of a function that is called. ``parameter_image`` is
    the variable that a launch copies the parameters to, if that is used.

    Of a function that a kernel calls ``leave`` is where it returns to, and ``recursive`` says that
    the code around it may be called again before it returns. With ``check_only`` nobody wants the
    code.
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
    locals: dict[str, LocalVariable] = field(default_factory=dict)
    shared_bytes: int = 0
    parameter_image: str = ""
    uses_parameter_image: bool = False
    operands: tuple[tree.Operand, ...] = ()
    leave: LabelTarget | None = None
    recursive: bool = False
    check_only: bool = False
    carry: Predicate | None = None

    def shared(self, name: str) -> SharedVariable | None:
        """Return where the module's shared variable ``name`` lies for this kernel."""
        declared = self.symbols.shared.get(name)
        if declared is None:
            return None
        return SharedVariable(0) if self.check_only else self.memory.of(declared)

    def register(self, name: tree.Name) -> Register | Predicate | None:
        """Return the register called ``name``, or None when the name is something else.

        Raises:
            Unsupported: when its declaration was refused.
        """
        found = self.scope.find(name.text)
        if found is None:
            return None
        scope, declared = found
        if isinstance(declared, RegisterClass):
            if declared.is_wide:
                return self._half(scope, declared, name)
            if name.component:
                raise Invalid(f"{name.text!r} has no component {name.component!r}", name)
            return self.builder.assigned(scope, name.text, declared)
        if isinstance(declared, SharedVariable | LocalVariable):
            return None
        raise Unsupported(declared.what, name)

    def _half(self, scope: Scope, declared: RegisterClass, name: tree.Name) -> Register | Predicate:
        if name.component not in HALVES:
            what = f"no component {name.component!r}" if name.component else "128 bits"
            raise Invalid(f"{name.text!r} has {what}", name)
        return self.builder.assigned(scope, f"{name.text}.{name.component}", declared)

    def is_wide(self, operand: tree.Operand) -> bool:
        """Return whether an operand is a whole register of 128 bits."""
        if not isinstance(operand, tree.Name) or operand.component:
            return False
        found = self.scope.find(operand.text)
        return found is not None and isinstance(found[1], RegisterClass) and found[1].is_wide

    def called(self, function: tree.Function, frame: Frame) -> "Context":
        """Return the context of a function that is called here, whose variables lie in ``frame``.

        It sees names of its own, and the module's.
        """
        return replace(
            self,
            parameters={},
            scope=Scope(),
            frame=frame,
            findings=self.symbols.findings(function.name),
            operands=(),
            leave=LabelTarget("leave"),
            carry=None,
        )

    def carry_predicate(self) -> Predicate:
        """Return PTX's condition code register, CC.CF, of the function that this is."""
        if self.carry is None:
            self.carry = self.builder.new_predicate()
        return self.carry

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """Jump around what is written meanwhile, for lanes that the guard keeps out."""
        builder, guard = self.builder, self.builder.guard
        onward = LabelTarget("onward")
        if guard is not None:
            with builder.guarded(Guard(guard.predicate, not guard.negated)):
                builder.emit_branch(onward, uniform=False)
        builder.guard = None
        yield
        if guard is not None:
            builder.place(onward)

    def local(self, declared: tree.Variable) -> LocalVariable:
        """Return a new variable of this frame, as declared.

        Raises:
            Invalid, Unsupported: for a declaration that cannot be.
        """
        return self.new_local(*extent(declared))

    def new_local(self, size: int, align: int) -> LocalVariable:
        """Return a new variable of this frame."""
        variable = LocalVariable(self.builder.new_name("variable"), size, align, self.builder.owner)
        self.frame.variables.append(variable)
        return variable

    def bits(self, register: Register) -> int:
        """Return a register's width."""
        return self.builder.register_bits[register.index]

    def label(self, name: tree.Name) -> LabelTarget:
        """Return the label called ``name``.

        Raises:
            Invalid: when it is not defined in this or an outer scope.
        """
        label = self.scope.find_label(name.text)
        if label is None:
            raise Invalid(f"label {name.text!r} is not defined", name)
        return label
