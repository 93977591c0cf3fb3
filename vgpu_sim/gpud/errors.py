"""What can go wrong in gpud.

GpudError
├── HelloRefused         a client's context request; ``status`` is the CUresult it gets
├── RetryLater           a context request that time will cure: the client is hung up
├── JournalError         the journal exists and cannot be read
└── WorkerStartError     no worker could be started

What the administration socket refuses is ``system.admin_socket.errors``: no such board, profile,
placement, GPU or instance.
"""


class GpudError(Exception):
    """Base of this package's errors."""


class HelloRefused(GpudError):
    """A client that gets no context."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class RetryLater(GpudError):
    """A context request that time will cure: the client is hung up without an answer.

    Client libraries send it again for as long as they wait for a gpud that is being restarted.
    """


class JournalError(GpudError):
    """The journal cannot be read; the message says where it was put aside."""


class WorkerStartError(GpudError):
    """The zygote could not start a worker."""
