"""A device's modelled timeline for requests of several streams, independent of the wall clock.

A request begins when the previous request in its stream has ended, the requests that it waits
for have ended, the host has issued it, and there is room. For a copy, room is the copy engine of
its direction; for a launch, it is the share of the chip that other launches leave. Launches get
room in the order of arrival.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from vgpu_sim.records import dataclass

Wait = tuple[int, int]  # a stream, and the value that it must have reached
ISSUE_US: Final = {"launch": 2.0, "other": 1.0}  # host time for each request
_KEPT_ENDS: Final = 1024  # values of a stream that other streams may still wait for
_KEPT_SPANS: Final = 128
_EPSILON: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Span:
    """The start and end of a request in microseconds, and the share of the chip that it used."""

    start: float
    end: float
    share: float


@dataclass(slots=True)
class _Stream:
    end: float = 0.0
    values: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT_ENDS))
    ends: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_ENDS))

    def time_of(self, value: int) -> float:
        """Return the time at which the stream reached a timeline value; for a value no longer
        recorded, the time of the oldest recorded value.
        """
        place = bisect_left(self.values, value)
        return self.ends[place] if place < len(self.ends) else self.end


class Timeline:
    """The modelled timeline of one context's requests. Times are microseconds since the first
    request.
    """

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
        """The time in microseconds from the first start to the last end of a request."""
        return self._last - self._first if self._first >= 0 else 0.0

    @property
    def gaps_us(self) -> float:
        """The total time in microseconds of the gaps between requests. In a gap, no request ran."""
        return max(0.0, self.span_us - self._covered)

    def launch(
        self, stream: int, value: int, waits: Sequence[Wait], us: float, share: float
    ) -> Span:
        """Add a launch to a stream; return the span in which the launch runs. The launch takes
        ``us`` microseconds and the given share (0 to 1) of the chip.

        The stream reaches the timeline value ``value`` when the launch ends. The launch begins
        after other streams have reached the values in ``waits``.
        """
        ready = self._ready(stream, waits, ISSUE_US["launch"])
        start = self._room(ready, us, share)
        span = Span(start, start + us, share)
        self._spans.append(span)
        if len(self._spans) > _KEPT_SPANS:
            self._spans.remove(min(self._spans, key=lambda kept_span: kept_span.end))
        return self._record_end(stream, value, span)

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
        """Add a copy to a stream; return the span in which the copy runs. The copy takes ``us``
        microseconds of the named engine.

        ``value`` and ``waits`` are as in ``launch``. ``host_waits`` is set if the program waited
        for the copy.
        """
        ready = self._ready(stream, waits, ISSUE_US["other"])
        start = max(ready, self._engines.get(engine, 0.0))
        self._engines[engine] = start + us
        if host_waits:
            self._host = max(self._host, start + us)
        return self._record_end(stream, value, Span(start, start + us, 0.0))

    def mark(self, stream: int, value: int, waits: Sequence[Wait]) -> float:
        """Add a request without a duration to a stream. Return the time at which the stream reaches
        the request.
        """
        ready = self._ready(stream, waits, ISSUE_US["other"])
        track = self._streams[stream]
        track.end = ready
        track.values.append(value)
        track.ends.append(ready)
        return ready

    def _ready(self, stream: int, waits: Sequence[Wait], issue_us: float) -> float:
        self._host += issue_us
        own = self._streams.setdefault(stream, _Stream())
        awaited_times = (
            self._streams[awaited_stream].time_of(at)
            for awaited_stream, at in waits
            if awaited_stream in self._streams
        )
        return max(own.end, self._host, *awaited_times)

    def _room(self, ready: float, us: float, share: float) -> float:
        """Return the earliest time at which a launch has room for its whole duration."""
        later = sorted(span.end for span in self._spans if span.end > ready)
        for start in (ready, *later):
            beside = [span for span in self._spans if span.end > start and span.start < start + us]
            looks = (start, *(span.start for span in beside if span.start > start))
            peak_share = max(
                sum(span.share for span in beside if span.start <= at < span.end) for at in looks
            )
            if peak_share + share <= 1 + _EPSILON:
                return start
        return max(ready, *later) if later else ready

    def _record_end(self, stream: int, value: int, span: Span) -> Span:
        track = self._streams[stream]
        track.end = span.end
        track.values.append(value)
        track.ends.append(span.end)
        if self._first < 0:
            self._first = self._last = span.start
        self._covered += max(0.0, span.end - max(self._last, span.start))
        self._last = max(self._last, span.end)
        return span
