"""Calls of generator functions to any depth, without recursion of the Python interpreter.

Generated programs nest loops deeper than Python allows calls to nest. Such a function is a
generator: it yields the call it needs, and is resumed with its result.
"""

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[Generator[Any, Any, Any], Any, T]


def run(steps: Steps[T]) -> T:
    """Run a generator function to its end, and return its result.

    ``steps`` is the generator. Whenever it yields a call (another generator), that call is run
    first.
    """
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
