"""Errors of the JIT.

::

    JitError
    ├── UnsupportedError   valid code that the JIT cannot compile (yet); nothing was executed
    ├── PlanError          a plan that is not legal for this function and block shape
    └── CodeGenerationError  a defect of ours: LLVM refused what we generated, say
"""


class JitError(Exception):
    """Base of all errors of this package."""


class UnsupportedError(JitError):
    """Valid code that the JIT cannot compile; ``word`` is the first such word, or None."""

    def __init__(self, what: str, function: str, word: int | None = None) -> None:
        where = function if word is None else f"{function}, word {word}"
        super().__init__(f"{where}: {what} is not supported by the JIT yet")
        self.what = what
        self.function = function
        self.word = word


class PlanError(JitError, ValueError):
    """A block shape that no kernel has, or a plan that does not fit it."""


class CodeGenerationError(JitError):
    """A defect of ours: LLVM refused the generated text, or an object that came out of it, or code
    came to be lowered that ``support`` refuses."""
