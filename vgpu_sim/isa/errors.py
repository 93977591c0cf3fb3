"""Errors in a function, a container or an assembly text.

::

    IsaError
    ├── InvalidFunction     a function that the instruction set does not allow
    ├── ContainerError      bytes that are not a container, or whose content is not allowed
    └── AssemblyError       a text that does not assemble
"""


class IsaError(ValueError):
    """Base of all errors of this package."""


class InvalidFunction(IsaError):
    """Raised for a function that the instruction set does not allow.

    ``word`` is the index of the invalid instruction; None if the error concerns the whole
    function.
    """

    def __init__(self, function: str, word: int | None, reason: str) -> None:
        where = function if word is None else f"{function}, word {word}"
        super().__init__(f"{where}: {reason}")
        self.function = function
        self.word = word
        self.reason = reason


class ContainerError(IsaError):
    """Bytes that are a malformed, damaged or unsupported container."""


class AssemblyError(IsaError):
    """A text that cannot be assembled. ``line`` and ``column`` of the error count from one."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.line = line
        self.column = column
        self.reason = reason
