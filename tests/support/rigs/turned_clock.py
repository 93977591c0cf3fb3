"""A clock that only a test advances."""


class Clock:
    """Returns ``now``, which a test sets."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the seconds that the test has set."""
        return self.now
