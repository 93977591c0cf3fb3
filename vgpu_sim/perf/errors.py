"""What a prediction can be refused for."""


class PerfError(ValueError):
    """A question that the model does not answer; the message names what and why."""


class UnknownBoard(PerfError):
    """There is no such board in the tables."""


class UnknownModel(PerfError):
    """Nothing was fitted for this operation on this board and type."""


class BadShape(PerfError):
    """No kernel accepts the shape or the type."""


class NoData(PerfError):
    """The measurements to judge or fit by are not installed."""
