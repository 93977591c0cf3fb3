"""Errors that state why a prediction is refused."""


class PerfError(ValueError):
    """Base of the errors for requests that no model can predict; the message names the object and
    the reason.
    """


class UnknownBoard(PerfError):
    """The tables have no such board."""


class UnknownModel(PerfError):
    """No parameters were fitted for this operation on this board and type."""


class BadShape(PerfError):
    """No kernel accepts the shape or the type."""


class NoData(PerfError):
    """The measurements needed for validation or fitting are not installed."""
