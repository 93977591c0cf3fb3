"""Errors of gpud.

GpudError
├── HelloRefused         a client's context request; ``status`` is the CUresult it gets
├── RetryLater           a context request to be repeated later: gpud closes the connection
├── JournalError         the journal exists and cannot be read
└── WorkerStartError     no worker could be started

The errors of administration requests (no such board, profile, placement, GPU or instance) are in
``system.admin_socket.errors``.
"""


class GpudError(Exception):
    """Base of this package's errors."""


class HelloRefused(GpudError):
    """A client's request for a context is refused."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class RetryLater(GpudError):
    """A client must repeat its request later; gpud closes the connection without an answer.

    Client libraries repeat the request for as long as they wait for a gpud that is being
    restarted.
    """


class JournalError(GpudError):
    """The journal cannot be read and has been moved aside; the message names the file to which it
    was moved.
    """


class WorkerStartError(GpudError):
    """The zygote could not start a worker."""
