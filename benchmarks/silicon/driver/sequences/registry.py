"""The table of sequences: each is a function of the rig and of one variant."""

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.silicon.driver.context import Rig

Sequence = Callable[..., None]


class Table:
    """The sequences of one subject."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.found: dict[str, tuple[Sequence, tuple[Any, ...]]] = {}

    def each(self, variants: Iterable[Any]) -> Callable[[Sequence], Sequence]:
        """Register a function once for each variant; a tuple is several arguments."""

        def register(function: Sequence) -> Sequence:
            for variant in variants:
                arguments = variant if isinstance(variant, tuple) else (variant,)
                label = " ".join(str(word) for word in arguments)
                self.found[f"{self.subject}/{function.__name__} {label}"] = (function, arguments)
            return function

        return register

    def once(self, function: Sequence) -> Sequence:
        """Register a function without variants."""
        self.found[f"{self.subject}/{function.__name__}"] = (function, ())
        return function

    def run(self, name: str, rig: Rig) -> None:
        """Run one sequence."""
        function, arguments = self.found[name]
        function(rig, *arguments)
