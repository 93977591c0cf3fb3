"""The error of the compiler driver."""


class CompileError(Exception):
    """A compilation that cannot start or has failed.

    ``status`` is the exit status of ``tessera cc``. The text is empty if a tool has already
    reported the problem.
    """

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


class KnownFailureError(CompileError):
    """A tool's failure whose cause the caller can explain; the text has the tool's messages."""
