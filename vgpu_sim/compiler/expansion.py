"""Expands PTX shorthand: vector registers, displaced registers, predicates passed to functions,
elements of arrays, and file variables that a function declares.

A register ``.v2 .u32 v`` becomes ``v.x`` and ``v.y`` (names in PTX have no dots), an operand
``r + 4`` a new register, ``a[r]`` an address, and a parameter ``.reg .pred`` a number that
is compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from vgpu_sim.compiler.legality.scopes import (
    Place,
    Register,
    Scope,
    element_bytes,
    function_scope,
    module_scope,
)
from vgpu_sim.compiler.legality.types import find_type
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.records import dataclass

_COMPONENTS = "xyzw"
_COLOURS = "rgba"  # aliases of the components
_OF_THE_FILE = frozenset({tree.Space.GLOBAL, tree.Space.CONST})
_MOST_VECTORS = 4096  # names of one `v<n>`
_MAX_VECTOR_BITS = 128  # PTX ISA, "Vectors"


def expand_vectors(module: tree.Module) -> tree.Module:
    """Return the module with each vector register replaced by single registers.

    Other shorthand of PTX is expanded too: operands such as ``r + 4``, elements of arrays, and
    predicates passed to functions. Variables that a function declares, but that exist once per
    file, are moved to file scope.
    """
    outer = module_scope(module)
    known = {function.name: function for function in module.functions}
    writers = [
        _Function(function_scope(function, outer), function, known) for function in module.functions
    ]
    functions = tuple(writer.expand() for writer in writers)
    moved = (variable for writer in writers for variable in writer.moved)
    return replace(module, functions=functions, variables=(*module.variables, *moved))


@dataclass(slots=True)
class _Function:
    scope: Scope
    function: tree.Function
    known: Mapping[str, tree.Function]
    temporaries: list[tree.Registers] = field(default_factory=list)
    moved: list[tree.Variable] = field(default_factory=list)

    def expand(self) -> tree.Function:
        function = self.function
        if function.is_entry and function.body is not None:
            return replace(function, body=self._body(function.body))
        changed = replace(
            function,
            parameters=tuple(formal for p in function.parameters for formal in _formals(p)),
            returns=tuple(formal for p in function.returns for formal in _formals(p)),
        )
        return (
            changed if function.body is None else replace(changed, body=self._body(function.body))
        )

    def _body(self, body: tree.Block) -> tree.Block:
        statements = self._block(body, self.scope)
        received = [
            _make(body, "setp", (".ne", ".u32"), p.name, f"{p.name}.number", 0)
            for p in self.function.parameters
            if _is_predicate(p)
        ]
        own = [
            tree.Registers(
                p.line, p.column, ".pred", "", (tree.RegisterName(p.name, None, p.line, p.column),)
            )
            for p in (*self.function.parameters, *self.function.returns)
            if _is_predicate(p)
        ]
        result_statements = self._results(body)
        return replace(
            body, statements=(*self.temporaries, *own, *received, *statements, *result_statements)
        )

    def _results(self, at: tree.Block | tree.Instruction) -> list[tree.Instruction]:
        """Return the instructions that convert the function's predicate results to numbers."""
        return [
            _make(at, "selp", (".u32",), f"{p.name}.number", 1, 0, p.name)
            for p in self.function.returns
            if _is_predicate(p)
        ]

    def _block(self, block: tree.Block, outer: Scope) -> list[tree.Statement]:
        scope = Scope(parent=outer)
        scope.declare_labels(block)
        statements: list[tree.Statement] = []
        for statement in block.statements:
            if isinstance(statement, tree.Block):
                statements.append(
                    replace(statement, statements=tuple(self._block(statement, scope)))
                )
            elif isinstance(statement, tree.Instruction):
                statements += self._instruction(statement, scope)
            elif isinstance(statement, tree.Variable) and statement.space in _OF_THE_FILE:
                name = f"{self.function.name}.{len(self.moved)}.{statement.name}"
                place = Place(statement.space.value[1:], name, element_bytes(statement))
                scope.declare_once(statement.name, place, None)
                self.moved.append(replace(statement, name=name))
            else:
                scope.declare_statement(statement)
                statements.append(_separate(statement))
        return statements

    def _instruction(self, instruction: tree.Instruction, scope: Scope) -> Iterator[tree.Statement]:
        if instruction.opcode == "ret":
            yield from self._results(instruction)
        if instruction.opcode == "call":
            yield from self._call(instruction, scope)
            return
        parts = instruction.opcode == "mov" and len(instruction.modifiers) > 1
        if not parts and not any(_is_short(operand, scope) for operand in instruction.operands):
            yield instruction
            return
        prologue: list[tree.Statement] = []
        operands = tuple(
            self._operand(instruction, operand, scope, prologue) for operand in instruction.operands
        )
        yield from prologue
        if (
            instruction.opcode == "mov"
            and len(operands) == 2
            and all(isinstance(o, tree.Vector) for o in operands)
        ):
            yield from self._moves(instruction, operands)
        else:
            yield replace(instruction, operands=operands)

    def _moves(
        self, instruction: tree.Instruction, operands: Sequence[tree.Operand]
    ) -> Iterator[tree.Statement]:
        """Yield the moves of a vector mov, one per element.

        All elements are read before any is written.
        """
        to, value = operands
        assert isinstance(to, tree.Vector)
        assert isinstance(value, tree.Vector)
        type_ = instruction.modifiers[-1]
        single = replace(instruction, modifiers=(type_,))
        temporaries = [self._temporary(instruction, type_) for _ in value.elements]
        for name, part in zip(temporaries, value.elements, strict=True):
            yield replace(single, operands=(name, part))
        for part, name in zip(to.elements, temporaries, strict=False):
            if not isinstance(part, tree.Sink):
                yield replace(single, operands=(part, name))

    def _call(self, instruction: tree.Instruction, scope: Scope) -> Iterator[tree.Statement]:
        epilogue: list[tree.Statement] = []
        operands: list[tree.Operand] = []
        for number, operand in enumerate(instruction.operands):
            if not isinstance(operand, tree.Arguments):
                operands.append(operand)
                continue
            is_result = number == 0
            called = next((o.text for o in instruction.operands if isinstance(o, tree.Name)), "")
            function = self.known.get(called)
            formals: tuple[tree.Variable, ...] = ()
            if function is not None:
                formals = function.returns if is_result else function.parameters
            elements: list[tree.Operand] = []
            for index, element in enumerate(operand.elements):
                register = _register(element, scope)
                if (
                    register is not None
                    and register.type.kind == "pred"
                    and index < len(formals)
                    and _is_predicate(formals[index])
                ):
                    assert isinstance(element, tree.Name)
                    number_of = self._temporary(instruction, ".u32")
                    elements.append(number_of)
                    if is_result:
                        epilogue.append(
                            _make(instruction, "setp", (".ne", ".u32"), element, number_of, 0)
                        )
                    else:
                        yield _make(instruction, "selp", (".u32",), number_of, 1, 0, element)
                    continue
                written = _part(element, scope)
                elements += written.elements if isinstance(written, tree.Vector) else [written]
            operands.append(tree.Arguments(tuple(elements)))
        yield replace(instruction, operands=tuple(operands))
        yield from epilogue

    def _operand(
        self,
        instruction: tree.Instruction,
        operand: tree.Operand,
        scope: Scope,
        prologue: list[tree.Statement],
    ) -> tree.Operand:
        if isinstance(operand, tree.Offset):
            register = _register(operand.base, scope)
            if register is None:
                return _part(operand, scope)
            type_ = f".u{register.type.bits}"
            name = self._temporary(instruction, type_)
            addend = tree.Integer(operand.addend)
            base = _part(operand.base, scope)
            prologue.append(
                replace(
                    instruction, opcode="add", modifiers=(type_,), operands=(name, base, addend)
                )
            )
            return name
        if isinstance(operand, tree.Element):
            return self._element(instruction, operand, scope, prologue)
        return _part(operand, scope)

    def _element(
        self,
        instruction: tree.Instruction,
        element: tree.Element,
        scope: Scope,
        prologue: list[tree.Statement],
    ) -> tree.Operand:
        """Return the address of an element, in brackets unless it is the operand of a mov.

        An index in a register and its product with the element size are modulo 2^32.
        """
        try:
            size = scope.array(element).element_bytes
        except Invalid:
            return element  # the operand check refuses it
        base = _part(element.base, scope)
        index: tree.Operand = element.index
        addend = 0
        assert isinstance(base, tree.Name)
        if isinstance(index, tree.Integer):
            address: tree.Operand = tree.Offset(base, index.value * size)
            return address if instruction.opcode == "mov" else tree.Memory((address,))
        if isinstance(index, tree.Offset):
            addend, index = index.addend, index.base
        register = _register(index, scope)
        assert register is not None
        wide = instruction.modifiers[-1] if instruction.opcode == "mov" else ".u64"
        address, place = self._temporary(instruction, wide), self._temporary(instruction, wide)
        number = self._temporary(instruction, ".u32")

        def put(opcode: str, modifiers: tuple[str, ...], *operands: tree.Operand) -> None:
            prologue.append(
                replace(instruction, opcode=opcode, modifiers=modifiers, operands=operands)
            )

        put("cvt", (".u32", f".u{register.type.bits}"), number, _part(index, scope))
        put(
            "mad",
            (".lo", ".u32"),
            number,
            number,
            tree.Integer(size),
            tree.Integer(addend * size),
        )
        put("mov", (wide,), address, base)
        put("cvt", (f".u{wide[2:]}", ".u32"), place, number)
        put("add", (f".u{wide[2:]}",), address, address, place)
        return address if instruction.opcode == "mov" else tree.Memory((address,))

    def _temporary(self, at: tree.Instruction, type_: str) -> tree.Name:
        name = f"temporary.{len(self.temporaries)}"
        declared = tree.RegisterName(name, None, at.line, at.column)
        self.temporaries.append(tree.Registers(at.line, at.column, type_, "", (declared,)))
        return tree.Name(name, at.line, at.column)


def _is_predicate(formal: tree.Variable) -> bool:
    return formal.space is tree.Space.REG and formal.type == ".pred"


def _formals(formal: tree.Variable) -> Iterator[tree.Variable]:
    if _is_predicate(formal):
        yield replace(formal, type=".u32", name=f"{formal.name}.number")
    elif formal.space is tree.Space.REG and formal.vector:
        for component in _COMPONENTS[: int(formal.vector[2:])]:
            yield replace(formal, name=f"{formal.name}.{component}", vector="")
    else:
        yield formal


def _separate(statement: tree.Statement) -> tree.Statement:
    """Split a vector register declaration into one per component, unless the vector is too
    large.
    """
    if not isinstance(statement, tree.Registers) or not statement.vector:
        return statement
    type_, count = find_type(statement.type[1:]), int(statement.vector[2:])
    if type_ is None or type_.bits * count > _MAX_VECTOR_BITS:
        return statement
    if any((name.count or 0) > _MOST_VECTORS for name in statement.names):
        return statement
    components = _COMPONENTS[:count]
    names = tuple(
        replace(name, name=f"{whole}.{component}", count=None)
        for name in statement.names
        for whole in _members(name)
        for component in components
    )
    return replace(statement, vector="", names=names)


def _members(name: tree.RegisterName) -> list[str]:
    if name.count is None:
        return [name.name]
    return [f"{name.name}{number}" for number in range(name.count)]


def _register(operand: tree.Operand, scope: Scope) -> Register | None:
    if not isinstance(operand, tree.Name):
        return None
    binding = scope.find(operand.text)
    return binding[1] if binding is not None and isinstance(binding[1], Register) else None


def _is_short(operand: tree.Operand, scope: Scope) -> bool:
    match operand:
        case tree.Name():
            binding = scope.find(operand.text)
            match binding:
                case (_, Register(_, count)):
                    return count > 1
                case (_, Place(_, name)):
                    return bool(name)
                case _:
                    return False
        case tree.Element():
            return True
        case tree.Offset(base, _):
            return _register(base, scope) is not None or _is_short(base, scope)
        case tree.Memory(parts):
            return any(
                _is_short(part.base if isinstance(part, tree.Offset) else part, scope)
                for part in parts
            )
        case tree.Vector(parts):
            return any(_is_short(part, scope) for part in parts)
        case _:
            return False


def _part(operand: tree.Operand, scope: Scope) -> tree.Operand:
    """Replace the components of vectors in an operand by the registers that represent them."""
    match operand:
        case tree.Name():
            binding = scope.find(operand.text)
            if binding is not None and isinstance(binding[1], Place) and binding[1].name:
                return replace(operand, text=binding[1].name)
            register = _register(operand, scope)
            if register is None or register.count == 1:
                return operand
            if operand.component:
                return _component(operand, operand.component)
            components = _COMPONENTS[: register.count]
            return tree.Vector(tuple(_component(operand, component) for component in components))
        case tree.Vector(elements):
            return tree.Vector(tuple(_part(element, scope) for element in elements))
        case tree.Memory(parts):
            return tree.Memory(tuple(_part(part, scope) for part in parts))
        case tree.Offset(base, _):
            written = _part(base, scope)
            return replace(operand, base=written) if isinstance(written, tree.Name) else operand
        case _:
            return operand


def _component(name: tree.Name, component: str) -> tree.Name:
    if component in _COLOURS:
        component = _COMPONENTS[_COLOURS.index(component)]
    return replace(name, text=f"{name.text}.{component}", component="")


def _make(
    at: tree.Block | tree.Instruction,
    opcode: str,
    modifiers: tuple[str, ...],
    *operands: tree.Operand | str | int,
) -> tree.Instruction:
    """Return a generated instruction with the position of the one that it replaces."""
    return tree.Instruction(
        line=at.line,
        column=at.column,
        opcode=opcode,
        modifiers=modifiers,
        operands=tuple(
            tree.Integer(operand)
            if isinstance(operand, int)
            else tree.Name(operand, at.line, at.column)
            if isinstance(operand, str)
            else operand
            for operand in operands
        ),
        guard=None,
        start=0,
        end=0,
    )
