"""An HCA engine that executes nothing: it records calls, and fails on demand."""

import errno
from collections.abc import Callable
from itertools import count
from typing import Any

from hca.contract.hca_engine import HcaFlowCounts, HcaPendingSource


class Engine:
    """Records each call; each created object is a new number."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._made = count(100)
        self.refuses = ""
        self.counts: list[HcaFlowCounts] = []
        self.waiting: list[HcaPendingSource] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if name == self.refuses:
                raise OSError(errno.ENOMEM, "refused")
            self.calls.append((name, *arguments))
            if name == "read_flows":
                return self.counts
            if name == "pending_sources":
                return self.waiting
            return next(self._made) if name.startswith("add_") else None

        return call

    def take(self, *names: str) -> list[tuple[Any, ...]]:
        """Return the calls since the last time; with ``names``, only those of these functions."""
        taken, self.calls = self.calls, []
        return [call for call in taken if not names or call[0] in names]
