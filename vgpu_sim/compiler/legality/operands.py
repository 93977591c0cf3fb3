"""Checks operands against their instruction's form: number, kinds, types, spaces, declarations."""

from collections.abc import Iterator

from vgpu_sim.compiler.legality import moves
from vgpu_sim.compiler.legality.scopes import (
    Place,
    Register,
    Scope,
    Special,
    Symbol,
    function_scope,
    module_scope,
)
from vgpu_sim.compiler.legality.signatures import Signature, Wanted, signatures
from vgpu_sim.compiler.legality.types import Type, find_type
from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid, Refusal
from vgpu_sim.compiler.ptx import grammar, tree

_ELSEWHERE = frozenset({"call", "brx"})  # their operands are checked when they are lowered
_BY_NUMBER = frozenset({"ld", "ldu", "st"})  # their addresses may be elements of arrays
_SPACES = frozenset({"global", "const", "local", "param", "shared"})
_WITHOUT_SPACE = frozenset({"global", "shared", "local"})


def check(module: tree.Module, findings: Findings) -> None:
    """Record in ``findings`` every instruction whose operands violate a rule of PTX."""
    outer = module_scope(module)
    for function in module.functions:
        if function.body is not None:
            for scope, instruction in _statements(function.body, function_scope(function, outer)):
                try:
                    check_instruction(scope, instruction)
                except Refusal as refusal:
                    findings.add(refusal, instruction)


def _statements(block: tree.Block, outer: Scope) -> Iterator[tuple[Scope, tree.Instruction]]:
    scope = Scope(parent=outer)
    scope.declare_labels(block)
    for statement in block.statements:
        if isinstance(statement, tree.Instruction):
            yield scope, statement
        elif isinstance(statement, tree.Block):
            yield from _statements(statement, scope)
        else:
            scope.declare_statement(statement)


def check_instruction(scope: Scope, instruction: tree.Instruction) -> None:
    """Check the operands of one instruction.

    Raises:
        Invalid: they violate a rule of PTX.
    """
    if instruction.guard is not None:
        _register(scope, instruction.guard.predicate, find_type("pred"), wider=False)
    if instruction.opcode in _ELSEWHERE:
        return
    words = tuple(modifier[1:] for modifier in instruction.modifiers)
    if instruction.opcode == "mov":
        moves.check(scope, words, instruction.operands)
        return
    lists = signatures(instruction.opcode, words)
    fitting = [signature for signature in lists if _takes(signature, len(instruction.operands))]
    if not lists or (fitting and fitting[0][:1] == (Wanted("rest"),)):
        for name in names.names_in(instruction.operands):
            scope.look_up(name)
        return
    if not fitting:
        counts = " or ".join(sorted({str(len(signature)) for signature in lists}))
        raise Invalid(f"{instruction.opcode} takes {counts} operands here")
    space = _space(words)
    if instruction.opcode == "st" and space == "param":
        space = "param::func"
    for requirement, operand in zip(fitting[0], instruction.operands, strict=True):
        if isinstance(operand, tree.Element) and instruction.opcode in _BY_NUMBER:
            scope.array(operand)
            operand = tree.Memory((operand.base,))
        _check(scope, requirement, operand, space)


def _takes(signature: Signature, count: int) -> bool:
    return len(signature) == count or signature[:1] == (Wanted("rest"),)


def _space(words: tuple[str, ...]) -> str:
    """Return the first state space among an instruction's modifiers; "" if there is none."""
    return next((word for word in words if word.partition("::")[0] in _SPACES), "")


def _check(scope: Scope, requirement: Wanted, operand: tree.Operand, space: str) -> None:
    if requirement.pair:
        if isinstance(operand, tree.Pair) and isinstance(operand.first, tree.Sink):
            _without_pair(scope, requirement, operand)
            return
        operand = _without_pair(scope, requirement, operand)
    match requirement.what:
        case "type":
            _check_typed(scope, requirement, operand)
        case "imm":
            _check_constant(requirement, operand)
        case "_":
            if not isinstance(operand, tree.Sink):
                raise Invalid("the destination must be '_' here")
        case "label":
            if not isinstance(operand, tree.Name):
                raise Invalid("expected a label")
        case "int" | "name":
            _check_address_value(scope, requirement, operand)
        case token if token.startswith("["):
            _check_memory(scope, operand, token[1:-1] or space)
        case _:
            for name in names.names_in((operand,)):
                scope.look_up(name)


def _without_pair(scope: Scope, requirement: Wanted, operand: tree.Operand) -> tree.Operand:
    if isinstance(operand, tree.Pair):
        if not isinstance(operand.second, tree.Sink):
            _predicate(scope, operand.second)
        return operand.first
    if requirement.pair == "P":
        raise Invalid("expected a predicate after '|'")
    return operand


def _predicate(scope: Scope, operand: tree.Operand) -> None:
    if not isinstance(operand, tree.Name):
        raise Invalid("expected a predicate")
    _register(scope, operand, find_type("pred"), wider=False)


def _check_constant(requirement: Wanted, operand: tree.Operand) -> None:
    if not isinstance(operand, tree.Integer):
        raise Invalid("expected an integer constant")
    if not requirement.is_in_limits(operand.value):
        raise Invalid(f"the constant {operand.value} is not allowed here")


def _check_typed(scope: Scope, requirement: Wanted, operand: tree.Operand) -> None:
    type_ = requirement.type
    assert type_ is not None
    if requirement.count:
        _check_vector(scope, requirement, operand, type_)
    elif isinstance(operand, tree.Constant) and not (requirement.written or requirement.register):
        _check_typed_constant(requirement, operand, type_)
    else:
        _check_value(scope, requirement, operand, type_)


def _check_typed_constant(requirement: Wanted, operand: tree.Constant, type_: Type) -> None:
    if not type_.takes_constant(operand):
        kind = "an integer" if isinstance(operand, tree.Integer) else "a floating-point"
        raise Invalid(f"{kind} constant cannot be read as .{type_.name}")
    if isinstance(operand, tree.Integer) and not requirement.is_in_limits(operand.value):
        raise Invalid(f"the constant {operand.value} is not allowed here")


def _check_value(scope: Scope, requirement: Wanted, operand: tree.Operand, type_: Type) -> None:
    if requirement.selected and isinstance(operand, tree.Negated):
        operand = operand.operand
    match operand:
        case tree.Sink() if requirement.sink:
            pass
        case tree.Not(inner) if type_.kind == "pred" and not requirement.written:
            _predicate(scope, inner)
        case tree.Name() if requirement.special and isinstance(
            special := scope.look_up(operand), Special
        ):
            if type_.bits not in (special.bits, *special.once):
                raise Invalid(f"{operand.text!r} cannot be read as .{type_.name}", operand)
        case tree.Name():
            _register(scope, operand, type_, wider=requirement.wider)
        case tree.Offset(base, _) if not requirement.written:
            _register(scope, base, type_, wider=requirement.wider)
        case tree.Vector((element,)) if requirement.wider:
            _check_typed(scope, requirement, element)
        case _ if requirement.written:
            raise Invalid("the destination is not a register")
        case _:
            raise Invalid("expected a predicate" if type_.kind == "pred" else "expected a register")


def _check_vector(scope: Scope, requirement: Wanted, operand: tree.Operand, type_: Type) -> None:
    if isinstance(operand, tree.Sink) and requirement.sink:
        return
    if isinstance(operand, tree.Name):
        declared = scope.register(operand)
        if declared.count != requirement.count or not type_.takes(
            declared.type, wider=requirement.wider
        ):
            raise Invalid(f"expected a vector of {requirement.count} elements")
        return
    if not isinstance(operand, tree.Vector):
        raise Invalid(f"expected a vector of {requirement.count} elements")
    if len(operand.elements) != requirement.count:
        length = len(operand.elements)
        raise Invalid(f"expected {requirement.count} elements, found {length}")
    if requirement.written and all(
        isinstance(component, tree.Sink) for component in operand.elements
    ):
        raise Invalid("at least one element of the vector must not be '_'")
    if type_.kind == "float" and any(
        isinstance(component, tree.Name)
        and isinstance(meaning := scope.look_up(component), Register)
        and meaning.type.kind == "integer"
        and meaning.type.bits == type_.bits
        for component in operand.elements[:1]
    ):
        # assemblers accept all of them as untyped bits
        type_ = Type("integer", type_.bits, f"u{type_.bits}")
    element = Wanted(
        "type",
        type_,
        requirement.written,
        requirement.register,
        wider=requirement.wider,
        sink=requirement.written,
    )
    for component in operand.elements:
        _check_typed(scope, element, component)


def _register(scope: Scope, name: tree.Name, type_: Type | None, *, wider: bool) -> None:
    assert type_ is not None
    declared = scope.register(name)
    if declared.count > 1 and name.component not in tuple("xyzwrgba"):
        raise Invalid(f"{name.text!r} is a vector: name one component of it", name)
    if type_.takes(declared.type, wider=wider):
        return
    own = declared.type
    if own.kind == "pred":
        raise Invalid(f"{name.text!r} is a predicate, not a number", name)
    if type_.kind == "pred":
        raise Invalid(f"{name.text!r} is not a predicate", name)
    if own.bits != type_.bits and (not wider or own.bits < type_.bits):
        qualifier = "at least " if wider else ""
        message = (
            f"{name.text!r} has {own.bits} bits, but .{type_.name} needs {qualifier}{type_.bits}"
        )
        raise Invalid(message, name)
    raise Invalid(
        f"{name.text!r} is of type .{own.name}, which cannot be used as .{type_.name}", name
    )


def _check_address_value(scope: Scope, requirement: Wanted, operand: tree.Operand) -> None:
    """Check an operand whose value is an address, generic or of one state space.

    It may be a register, or where allowed a name.
    """
    base = operand.base if isinstance(operand, tree.Offset) else operand
    if not isinstance(base, tree.Name):
        if isinstance(base, tree.Integer) and not requirement.register:
            return
        raise Invalid("expected an address")
    meaning = scope.look_up(base)
    if isinstance(meaning, Symbol | Place):
        if requirement.what == "name":
            return
        raise Invalid(f"{base.text!r} is not a register", base)
    if isinstance(meaning, Register) and meaning.type.kind not in ("integer", "bits"):
        raise Invalid(f"{base.text!r} cannot hold an address", base)


def _within(variable_space: str, space: str) -> bool:
    """True if a variable's state space is the one that an instruction names."""
    return (
        variable_space == space
        or variable_space.partition("::")[0] == space
        or variable_space == space.partition("::")[0]
    )


def _check_memory(scope: Scope, operand: tree.Operand, space: str) -> None:
    if not isinstance(operand, tree.Memory):
        raise Invalid("expected an address in brackets")
    if space == "*":
        for name in names.names_in((operand,)):
            scope.look_up(name)
        return
    if len(operand.parts) != 1:
        raise Invalid("expected one address in brackets")
    (part,) = operand.parts
    base = part.base if isinstance(part, tree.Offset) else part
    if not isinstance(base, tree.Name):
        if isinstance(base, tree.Integer):
            return
        raise Invalid("expected an address")
    if grammar.is_special(base.text):
        raise Invalid(f"{base.text!r} is not an address", base)
    meaning = scope.look_up(base)
    if isinstance(meaning, Register) and meaning.type.kind not in ("integer", "bits"):
        raise Invalid(f"{base.text!r} cannot hold an address", base)
    if isinstance(meaning, Place):
        if space and not _within(meaning.space, space):
            raise Invalid(
                f"the variable is in .{meaning.space} space, but the instruction names .{space}",
                base,
            )
        if not space and meaning.space not in _WITHOUT_SPACE:
            raise Invalid(
                f"the variable is in .{meaning.space} space, which the instruction must name", base
            )
