"""When objects ceased to exist, as the watches reported it: of the latest ones only."""

import datetime
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

SLICE: Final = "Slice"  # slices are no objects of the API: GPU objects list them
MOST: Final = 1024


@dataclass(slots=True)
class Departures:
    """The times at which the console has observed that objects are gone. Used by one event loop."""

    clock: Callable[[], float] = time.time
    _times: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, kind: str, keys: Iterable[str]) -> None:
        """Record that objects of a kind are gone."""
        for key in keys:
            self._times.pop((kind, key), None)
            self._times[kind, key] = self.clock()
        while len(self._times) > MOST:
            del self._times[next(iter(self._times))]

    def forget(self, kind: str, key: str) -> None:
        """Record that an object exists."""
        self._times.pop((kind, key), None)

    def find(self, kind: str, key: str) -> str:
        """Return when an object was observed to be gone, in UTC; empty if that is not known."""
        at = self._times.get((kind, key))
        if at is None:
            return ""
        return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
