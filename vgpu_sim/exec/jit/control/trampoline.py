"""Functions that call each other to any depth without the interpreter's stack.

Loops nest deeper in programs that other programs wrote than Python lets functions nest. Such a
function is a generator: it yields the call it wants made and is resumed with its result.
"""

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[Generator[Any, Any, Any], Any, T]


def run(steps: Steps[T]) -> T:
    """Make a call and all that it asks for; return its result."""
    waiting: list[Generator[Any, Any, Any]] = [steps]
    result: Any = None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as ended:
            waiting.pop()
            result = ended.value
    value: T = result
    return value
