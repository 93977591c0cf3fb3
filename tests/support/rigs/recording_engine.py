"""An HCA's engine that carries nothing out: what it was asked for, and refusals on demand."""

import errno
from collections.abc import Callable
from itertools import count
from typing import Any

from hca.contract.hca_engine import HcaAsked, HcaFlowCounts


class Engine:
    """Remembers each call; what is made is a number of its own."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._made = count(100)
        self.refuses = ""
        self.counts: list[HcaFlowCounts] = []
        self.waiting: list[HcaAsked] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if name == self.refuses:
                raise OSError(errno.ENOMEM, "refused")
            self.calls.append((name, *arguments))
            if name == "read_flows":
                return self.counts
            if name == "asked":
                return self.waiting
            return next(self._made) if name.startswith("add_") else None

        return call

    def take(self, *names: str) -> list[tuple[Any, ...]]:
        """Return the calls since the last time, of these names where there are any."""
        taken, self.calls = self.calls, []
        return [call for call in taken if not names or call[0] in names]
