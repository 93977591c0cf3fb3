"""The call graph of a module: which calls may be inlined, and which need a stack."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.records import dataclass

FUNCTION_BYTES: Final = 16
"""The distance between the addresses of two functions.

A function's address is a number in a table, not a location of code.
"""

_MOST: Final = 1 << 30
_STACK_OPCODES: Final = frozenset({"alloca", "stacksave", "stackrestore"})


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls in a function body.

    ``names`` has the callee of each direct call; ``indirect`` is the number of calls through
    registers.
    """

    names: tuple[str, ...]
    indirect: int
    statements: int
    moves_stack: bool


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts about a file of which only a part is compiled: the numbers of all its functions, and
    the functions whose address it takes.
    """

    numbers: Mapping[str, int]
    taken: frozenset[str] = frozenset()


def number(functions: Iterable[str]) -> dict[str, int]:
    """Return the numbers of functions, which determine their addresses."""
    return {name: place for place, name in enumerate(functions, start=1)}


class CallGraph:
    """The calls between the ``.func`` definitions of a module.

    ``addressed`` are the functions whose address is taken anywhere in the module. Only these can be
    the target of a call through a pointer. If the module is a part of a file, ``file`` has the
    facts about the whole file.
    """

    def __init__(
        self,
        functions: Sequence[tree.Function] = (),
        variables: Sequence[tree.Variable] = (),
        aliases: Sequence[tree.Alias] = (),
        file: FileFacts | None = None,
    ) -> None:
        defined = {f.name: f for f in functions if f.body is not None and not f.is_entry}
        self.functions: dict[str, tree.Function] = {
            **defined,
            **{alias.name: defined[alias.aliasee] for alias in aliases if alias.aliasee in defined},
        }
        self._numbers = dict(file.numbers) if file else number(defined)
        self._calls = {name: self._calls_of(f) for name, f in defined.items()}
        address_taken = self._address_taken(functions, variables)
        address_taken |= file.taken if file else set()
        self.addressed = tuple(name for name in defined if name in address_taken)
        self._recursive: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._depths: dict[str, int] = {}
        for component in _components(self._edges()):
            self._measure(component)

    def address(self, function: tree.Function) -> int:
        """Return the number that represents the address of a function; never 0."""
        return self._numbers[function.name] * FUNCTION_BYTES

    def addresses(self) -> dict[str, int]:
        """Return the addresses of functions by name, aliases included."""
        own = {name: number * FUNCTION_BYTES for name, number in self._numbers.items()}
        return own | {name: self.address(function) for name, function in self.functions.items()}

    def is_recursive(self, function: tree.Function) -> bool:
        """True if a call of ``function`` may lead to another call of it before the first one
        returns.
        """
        return function.name in self._recursive

    def size(self, function: tree.Function) -> int:
        """Return the number of statements of a function, including all inlined callees."""
        return self._sizes[function.name]

    def depth(self, function: tree.Function) -> int:
        """Return the number of functions in the longest chain of calls that begins with
        ``function``.
        """
        return self._depths[function.name]

    def reachable_functions(self, body: tree.Block) -> list[tree.Function]:
        """Return the functions that a body may call, directly or indirectly."""
        reached: dict[str, tree.Function] = {}
        pending = [self._calls_in(body)]
        while pending:
            calls = pending.pop()
            for name in (*calls.names, *(self.addressed if calls.indirect else ())):
                function = self.functions[name]
                if name not in reached and function.body is not None:
                    reached[name] = function
                    pending.append(self._calls[function.name])
        return list(reached.values())

    def moves_stack(self, body: tree.Block) -> bool:
        """True if a body itself allocates, saves or restores stack memory."""
        return any(i.opcode in _STACK_OPCODES for i in names.instructions(body))

    def _calls_of(self, function: tree.Function) -> _Calls:
        assert function.body is not None
        return self._calls_in(function.body)

    def _calls_in(self, body: tree.Block) -> _Calls:
        called: list[str] = []
        indirect = statements = 0
        moves_stack = False
        for instruction in names.instructions(body):
            statements += 1
            moves_stack |= instruction.opcode in _STACK_OPCODES
            if instruction.opcode != "call":
                continue
            target = target_of(instruction)
            if target is not None and target.text in self.functions:
                called.append(self.functions[target.text].name)
            else:
                indirect += 1
        return _Calls(tuple(called), indirect, statements, moves_stack)

    def _address_taken(
        self, functions: Sequence[tree.Function], variables: Sequence[tree.Variable]
    ) -> set[str]:
        used_names: set[str] = set()
        for variable in variables:
            if variable.initial is not None:
                used_names |= names.in_value(variable.initial)
        for function in functions:
            if function.body is None:
                continue
            for instruction in names.instructions(function.body):
                if instruction.opcode != "call":
                    used_names |= names.in_operands(instruction.operands)
        return {self.functions[name].name for name in used_names if name in self.functions}

    def _edges(self) -> dict[str, tuple[str, ...]]:
        return {
            name: (*calls.names, *(self.addressed if calls.indirect else ()))
            for name, calls in self._calls.items()
        }

    def _measure(self, component: list[str]) -> None:
        """Measure functions that call each other; their other callees have been measured."""
        edges = self._edges_of(component[0])
        if len(component) > 1 or component[0] in edges:
            self._recursive |= set(component)
        for name in component:
            calls = self._calls[name]
            sizes = [self._sizes.get(callee, 0) for callee in calls.names]
            through = sum(self._sizes.get(callee, 0) for callee in self.addressed)
            total = calls.statements + sum(sizes) + calls.indirect * through
            depths = [self._depths.get(callee, 0) for callee in self._edges_of(name)]
            self._sizes[name] = min(total, _MOST)
            self._depths[name] = 1 + max(depths, default=0)

    def _edges_of(self, name: str) -> tuple[str, ...]:
        calls = self._calls[name]
        return (*calls.names, *(self.addressed if calls.indirect else ()))


def target_of(call: tree.Instruction) -> tree.Name | None:
    """Return the name of a call's target: a function, or a register that holds its address."""
    for operand in call.operands[:2]:
        if isinstance(operand, tree.Name):
            return operand
    return None


def _components(edges: Mapping[str, tuple[str, ...]]) -> Iterator[list[str]]:
    """Yield the strongly connected components, callees first (Tarjan, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in edges:
        if root in number:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(name: str, work: list[tuple[str, Iterator[str]]] = work) -> None:
            number[name] = low[name] = len(number)
            path.append(name)
            on_path.add(name)
            work.append((name, iter(edges[name])))

        enter(root)
        while work:
            name, following = work[-1]
            for callee in following:
                if callee not in number:
                    enter(callee)
                    break
                if callee in on_path:
                    low[name] = min(low[name], number[callee])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    component: list[str] = []
                    while not component or component[-1] != name:
                        component.append(path.pop())
                        on_path.discard(component[-1])
                    yield component
