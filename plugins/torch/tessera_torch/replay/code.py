"""Whether the code that Inductor wrote for a kernel only allocates and launches."""

import ast
import functools
import textwrap
import types
from typing import Any, Final

_PURE: Final = frozenset({"max", "min", "abs", "int", "len"})
_GUARDS: Final = frozenset({"torch.cuda._DeviceGuard", "torch.cuda.set_device", "args.clear"})
_RECORDED: Final = frozenset({"empty_strided_cuda", "reinterpret_tensor", "get_raw_stream"})


def function_of(compiled: Any) -> types.FunctionType | None:
    """Return the function that a compiled graph calls, or None if it does more than launch."""
    called = getattr(compiled, "current_callable", None)
    source = getattr(compiled, "source_code", None)
    if not isinstance(called, types.MethodType) or not source or not _only_launches(source):
        return None
    function = called.__func__
    return function if isinstance(function, types.FunctionType) else None


@functools.lru_cache(maxsize=4096)
def _only_launches(source: str) -> bool:
    """Return whether each call in the method ``call`` is of a known kind."""
    start = source.find("    def call(self, args):")
    if start < 0:
        return False
    end = source.find("\nrunner = ", start)
    tree = ast.parse(textwrap.dedent(source[start:end]))
    passed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func).endswith(".run"):
            passed.update(id(argument) for argument in node.args)
    return all(
        _is_known(node, id(node) in passed) for node in ast.walk(tree) if isinstance(node, ast.Call)
    )


def _is_known(call: ast.Call, is_passed: bool) -> bool:
    name = _name(call.func)
    if name in _PURE or name in _GUARDS or name in _RECORDED:
        return True
    if name.endswith(".item"):  # a number reaches a kernel only as it is
        return is_passed
    return name.endswith(".run") and name.count(".") == 1


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
