"""What can go wrong with a request to gpud.

GpudError
├── RequestError         refused on the administration socket; ``code`` is the wire's
│   ├── InvalidRequest   "invalid"    malformed, or no such board, profile, placement
│   ├── NotFound         "not_found"  no such GPU or instance
│   ├── Conflict         "conflict"   contradicts what exists
│   └── InUse            "in_use"     would destroy what is being used
├── HelloRefused         a client's context request; ``status`` is the CUresult it gets
├── RetryLater           a context request that time will cure: the client is hung up
├── JournalError         the journal exists and cannot be read
└── WorkerStartError     no worker could be started
"""


class GpudError(Exception):
    """Base of this package's errors."""


class RequestError(GpudError):
    """A refused administration request."""

    code = "internal"


class InvalidRequest(RequestError):
    """Malformed, or names something that hardware does not have."""

    code = "invalid"


class NotFound(RequestError):
    """Names a GPU or an instance that does not exist."""

    code = "not_found"


class Conflict(RequestError):
    """Contradicts what exists."""

    code = "conflict"


class InUse(RequestError):
    """Would destroy what is in use."""

    code = "in_use"


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
