"""A device's time, as requests of several streams would take it: a clock that no wall moves.

A request begins when its stream has ended the one before it, what it waits for has ended, the host
has issued it, and there is room: a copy engine for each direction, and for launches the share of
the chip that others leave. Launches take room in the order in which they come.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

Wait = tuple[int, int]  # a stream, and the value that it must have reached
ISSUE_US: Final = {"launch": 2.0, "other": 1.0}  # of the host's time, for each request
_KEPT_ENDS: Final = 1024  # of a stream: what others may still ask for
_KEPT_SPANS: Final = 128
_EPSILON: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Span:
    """When something ran, in microseconds, and the share of the chip that it took."""

    start: float
    end: float
    share: float


@dataclass(slots=True)
class _Stream:
    end: float = 0.0
    values: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT_ENDS))
    ends: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_ENDS))

    def reached(self, value: int) -> float:
        """Return when a value was reached; of one long ago, when the oldest known one was."""
        place = bisect_left(self.values, value)
        return self.ends[place] if place < len(self.ends) else self.end


class Timeline:
    """The requests of one context. Times in microseconds from its first one on."""

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}
        self._engines: dict[str, float] = {}
        self._spans: list[Span] = []
        self._host = 0.0
        self._first = -1.0
        self._last = 0.0
        self._covered = 0.0

    @property
    def span_us(self) -> float:
        """From the first beginning to the last end."""
        return self._last - self._first if self._first >= 0 else 0.0

    @property
    def gaps_us(self) -> float:
        """Of that the time in which nothing ran."""
        return max(0.0, self.span_us - self._covered)

    def launch(
        self, stream: int, value: int, waits: Sequence[Wait], us: float, share: float
    ) -> Span:
        """Add a launch that takes ``us`` and this share (0 to 1) of the chip."""
        ready = self._ready(stream, waits, ISSUE_US["launch"])
        start = self._room(ready, us, share)
        found = Span(start, start + us, share)
        self._spans.append(found)
        if len(self._spans) > _KEPT_SPANS:
            self._spans.remove(min(self._spans, key=lambda one: one.end))
        return self._ended(stream, value, found)

    def copy(
        self,
        stream: int,
        value: int,
        waits: Sequence[Wait],
        us: float,
        engine: str,
        *,
        host_waits: bool = False,
    ) -> Span:
        """Add a copy on an engine of that name; ``host_waits``: the program waited for it."""
        ready = self._ready(stream, waits, ISSUE_US["other"])
        start = max(ready, self._engines.get(engine, 0.0))
        self._engines[engine] = start + us
        if host_waits:
            self._host = max(self._host, start + us)
        return self._ended(stream, value, Span(start, start + us, 0.0))

    def mark(self, stream: int, value: int, waits: Sequence[Wait]) -> float:
        """Add a request that takes no time; return when it is reached."""
        ready = self._ready(stream, waits, ISSUE_US["other"])
        one = self._streams[stream]
        one.end = ready
        one.values.append(value)
        one.ends.append(ready)
        return ready

    def _ready(self, stream: int, waits: Sequence[Wait], issue_us: float) -> float:
        self._host += issue_us
        own = self._streams.setdefault(stream, _Stream())
        others = (self._streams[one].reached(at) for one, at in waits if one in self._streams)
        return max(own.end, self._host, *others)

    def _room(self, ready: float, us: float, share: float) -> float:
        """Return when a launch can begin, for all of its time."""
        later = sorted(one.end for one in self._spans if one.end > ready)
        for start in (ready, *later):
            beside = [one for one in self._spans if one.end > start and one.start < start + us]
            looks = (start, *(one.start for one in beside if one.start > start))
            most = max(
                sum(one.share for one in beside if one.start <= at < one.end) for at in looks
            )
            if most + share <= 1 + _EPSILON:
                return start
        return max(ready, *later) if later else ready

    def _ended(self, stream: int, value: int, found: Span) -> Span:
        one = self._streams[stream]
        one.end = found.end
        one.values.append(value)
        one.ends.append(found.end)
        if self._first < 0:
            self._first = self._last = found.start
        self._covered += max(0.0, found.end - max(self._last, found.start))
        self._last = max(self._last, found.end)
        return found
