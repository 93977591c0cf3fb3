"""Locals and parameters are named by nouns, and calls are not wrapped by starred literal tuples."""

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Words that say nothing about a value.
VAGUE = frozenset(
    re.findall(
        r"\w+",
        """
        one other found this known made said these wanted held given here there now before after
        what rest more most least same kept left done seen taken shown told asked some all_ both
        them it ones others way
        """,
    )
)
# Nouns that say little. They must not take the place of the others.
GENERAL = frozenset({"item", "value", "result", "entry", "data", "obj", "current"})
# Words for bits of values and for operands.
TECHNICAL = {
    f"vgpu_sim/{room}": frozenset({"known", "left"}) for room in ("isa", "compiler", "exec")
}
LARGEST_SHARE = 0.15
GENERAL_SHARE = 1380 / 12191  # on 2026-12-01


def _room(name: str) -> str:
    """Return the package of a file: a folder of the repository, or one directly below vgpu_sim."""
    top, *below = name.split("/")
    return f"{top}/{below[0]}" if top == "vgpu_sim" and len(below) > 1 else top


@dataclass(frozen=True)
class Function:
    """A function, with the names that it and functions inside it bind."""

    place: str
    room: str
    names: frozenset[str]


@dataclass
class Locals:
    """The locals of a function that are literal tuples, and where all locals are read."""

    tuples: set[str] = field(default_factory=set)
    reads: Counter[str] = field(default_factory=Counter)
    starred: list[tuple[str, int]] = field(default_factory=list)

    def only_starred(self) -> list[int]:
        """Return the lines of ``f(*x)`` where ``x = a, b`` has no other use."""
        return [
            line for name, line in self.starred if name in self.tuples and self.reads[name] == 1
        ]


@dataclass
class Reader:
    """Reads the syntax trees of files, each node once."""

    functions: list[Function] = field(default_factory=list)
    starred_literals: list[str] = field(default_factory=list)

    def read(self, file: str, text: str) -> None:
        self._file = file
        self._visit(ast.parse(text), Locals())

    def _visit(self, node: ast.AST, variables: Locals) -> set[str]:
        """Return the names that a node binds. ``variables`` are those of its function."""
        names: set[str] = set()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                variables = Locals()
                names |= {parameter.arg for parameter in _parameters(node.args)}
            case ast.Name(id=name, ctx=ast.Store()):
                return {name}
            case ast.Name(id=name):
                variables.reads[name] += 1
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple()):
                variables.tuples.add(name)
            case ast.Starred(value=ast.Tuple() | ast.List()):
                self._add_starred(node.lineno)
            case ast.Call(args=arguments):
                for argument in arguments:
                    if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Name):
                        variables.starred.append((argument.value.id, argument.lineno))
        for child in ast.iter_child_nodes(node):
            names |= self._visit(child, variables)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for line in variables.only_starred():
                self._add_starred(line)
            names -= {"self", "cls", "_"}
            if names:
                place = f"{self._file}:{node.lineno} {node.name}"
                self.functions.append(Function(place, _room(self._file), frozenset(names)))
        return names

    def _add_starred(self, line: int) -> None:
        self.starred_literals.append(f"{self._file}:{line}")


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


@pytest.fixture(scope="module")
def product(tracked_files: list[str]) -> Reader:
    """Return what all files of the product contain."""
    reader = Reader()
    for name in tracked_files:
        is_generated = "_pb2" in name
        if name.endswith(".py") and "/" in name and not is_generated and name[:6] != "tests/":
            reader.read(name, (ROOT / name).read_text(encoding="utf-8"))
    return reader


def test_names_of_nested_functions_and_loops_are_bound() -> None:
    reader = Reader()
    reader.read("a.py", "def f(one, *, known): [left for left in known]; g = 1")
    (function,) = reader.functions
    assert function.names == {"one", "known", "left", "g"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(*(a, b), c)", 1),
        ("x = [*('a', 'b'), c]", 1),
        ("def g():\n    x = a, b\n    f(*x)", 1),
        ("f(*x, *(y for y in z))", 0),
        ("def g(x):\n    f(*x)", 0),
        ("def g():\n    x = a, b\n    f(*x)\n    y[x] = 1", 0),
        ("def g():\n    x = a, b\n    f(*x)\n    h(*x)", 0),
    ],
)
def test_starred_literals_are_recognized(text: str, expected: int) -> None:
    reader = Reader()
    reader.read("a.py", text)
    assert len(reader.starred_literals) == expected


def test_few_functions_have_a_name_that_is_no_noun(product: Reader) -> None:
    functions: Counter[str] = Counter()
    vague: Counter[str] = Counter()
    with_two = []
    for function in product.functions:
        words = function.names & VAGUE - TECHNICAL.get(function.room, frozenset())
        functions[function.room] += 1
        vague[function.room] += bool(words)
        if len(words) > 1:
            with_two.append(f"{function.place}: {', '.join(sorted(words))}")
    assert with_two == []
    shares = {room: vague[room] / functions[room] for room in functions}
    assert {room: share for room, share in shares.items() if share > LARGEST_SHARE} == {}


def test_general_nouns_do_not_become_more_frequent(product: Reader) -> None:
    general = [bool(function.names & GENERAL) for function in product.functions]
    assert sum(general) / len(general) <= GENERAL_SHARE


def test_no_call_or_list_has_a_starred_literal(product: Reader) -> None:
    assert product.starred_literals == []
