"""The mutations of a Python file.

Docstrings, annotations, the words of messages, logging calls, ``__all__`` and type-checking
imports are not mutated, since no test needs to check them. Numbers are mutated everywhere: a
number whose change no test detects is untested.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from edits import Edit

_COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_LOGGING = {"debug", "info", "warning", "error", "exception", "log"}


class _File:
    """A file's text, its tree, and offsets from the tree's positions."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self._lines = lines

    def offset(self, line: int, column: int) -> int:
        """Convert a position of the tree (columns in UTF-8 bytes) to an offset."""
        characters = len(self._lines[line - 1].encode()[:column].decode())
        return self._starts[line - 1] + characters

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the offsets of a node's beginning and end."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno, node.end_col_offset),
        )

    def between(
        self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str
    ) -> Iterator[Edit]:
        """Replace an operator's word between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        found = self.text.find(old, start, end)
        if found >= 0:
            yield Edit(self.path, found, found + len(old), new, kind)

    def replace(self, node: ast.expr | ast.stmt, new: str, kind: str) -> Edit:
        """Replace a whole node."""
        return Edit(self.path, *self.span(node), new, kind)


def edits_of(path: Path, text: str) -> Iterator[Edit]:
    """Yield every mutation of one Python file."""
    file = _File(path, text)
    yield from _walk(file, ast.parse(text))


def _walk(file: _File, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    if _says_something(node):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield from _edits_at(file, node)
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(file, child)


def _says_something(node: ast.AST) -> bool:
    """Return whether it is a docstring, a log line, a message or ``__all__``."""
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    if not isinstance(node, ast.Expr):
        return False
    value = node.value
    if isinstance(value, ast.Constant):
        return True
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in _LOGGING


def _edits_at(file: _File, node: ast.expr | ast.stmt) -> Iterator[Edit]:
    match node:
        case ast.Compare():
            operands = [node.left, *node.comparators]
            for left, operator, right in zip(operands, node.ops, node.comparators, strict=False):
                yield from file.between(left, right, *_COMPARISONS[type(operator)], "comparison")
        case ast.BoolOp():
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from file.between(left, right, old, new, "and/or")
        case ast.BinOp() if type(node.op) in _ARITHMETIC and not _is_text(node):
            old, new = _ARITHMETIC[type(node.op)]
            yield from file.between(node.left, node.right, old, new, "operator")
            if isinstance(node.op, ast.Sub | ast.FloorDiv | ast.LShift | ast.RShift):
                first, last = (file.text[slice(*file.span(n))] for n in (node.left, node.right))
                yield file.replace(node, f"(({last}) {old} ({first}))", "swapped operands")
        case ast.UnaryOp(op=ast.Not()):
            operand = file.text[slice(*file.span(node.operand))]
            yield file.replace(node, f"bool({operand})", "negation")
        case ast.Constant(value=bool()):
            yield file.replace(node, str(not node.value), "constant")
        case ast.Constant(value=int(value)):
            yield file.replace(node, str(value + 1), "off by one")
        case ast.If() | ast.While() | ast.IfExp() if not _is_turned_otherwise(node.test):
            test = file.text[slice(*file.span(node.test))]
            yield file.replace(node.test, f"(not ({test}))", "negated condition")
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield file.replace(node, "pass", "dropped statement")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield file.replace(node, "pass", "dropped statement")
        case _:
            return


def _is_turned_otherwise(test: ast.expr) -> bool:
    """Return whether another mutation negates the same condition: by removing ``not``, or by
    reversing its only comparison.
    """
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(
            ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]
        ):
            return True
        case _:
            return False


def _is_text(node: ast.BinOp) -> bool:
    """Return whether it joins text or types rather than numbers."""
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and not isinstance(side.value, int))
        for side in (node.left, node.right)
    )
