"""The timeline of ``perf run --trace``: JSON in Chrome's trace event format, which Perfetto opens.

Times are modelled. Each context is a process. Its kernels and copies are complete events ("X") on
the tracks "kernels 1, 2, …" and "copies …": two events that overlap have different tracks, because
events of one track must nest.
"""

from collections.abc import Iterator
from typing import Any, Final

from vgpu_sim.cli.perf.run_report import Report, Row

_WAYS: Final = {
    "HtoD": "Memcpy HtoD",
    "DtoH": "Memcpy DtoH",
    "DtoD": "Memcpy DtoD",
    "PtoP": "Memcpy PtoP",
    "memset": "Memset",
}
_EPSILON_US: Final = 1e-3  # the resolution of reported times


def trace_of(report: Report) -> dict[str, Any]:
    """Return the document that ``--trace`` writes."""
    tracks = _Tracks()
    events = [*_kernels(report, tracks), *_copies(report, tracks)]
    left_out = sum(summary.left_out for summary in report.summaries)
    counted = sum(copy.count for summary in report.summaries for copy in summary.copies)
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "modelled": True,
            "board": report.chip.board.name,
            "product": report.chip.board.product,
            "launches_left_out": left_out,
            "copies_left_out": max(counted - len(report.copies), 0),
        },
        "traceEvents": [*tracks.names(report.chip.board.product), *events],
    }


class _Tracks:
    """The tracks of each context and kind, with the time at which each becomes free."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, str], list[float]] = {}

    def place(self, context: int, kind: str, start: float, us: float) -> int:
        """Return the number of a track of this kind that is free at ``start``."""
        ends = self._ends.setdefault((context, kind), [])
        for number, end in enumerate(ends):
            if end <= start + _EPSILON_US:
                ends[number] = start + us
                return self.number(kind, number)
        ends.append(start + us)
        return self.number(kind, len(ends) - 1)

    @staticmethod
    def number(kind: str, place: int) -> int:
        """Return the thread number of a track: kernels have even numbers, copies odd ones."""
        return 2 * place + (kind == "copies") + 1

    def names(self, product: str) -> Iterator[dict[str, Any]]:
        """Yield the events that name contexts and tracks."""
        for context in sorted({context for context, _ in self._ends}):
            name = f"context {context} on {product} (modelled)"
            yield {"ph": "M", "name": "process_name", "pid": context, "args": {"name": name}}
        for (context, kind), ends in sorted(self._ends.items()):
            for place in range(len(ends)):
                thread = {"pid": context, "tid": self.number(kind, place)}
                name = f"{kind} {place + 1}"
                yield {"ph": "M", "name": "thread_name", **thread, "args": {"name": name}}


def _kernels(report: Report, tracks: _Tracks) -> Iterator[dict[str, Any]]:
    for row, start in sorted(report.launches, key=lambda one: one[1]):
        us = row.launch_us
        yield {
            "ph": "X",
            "cat": "kernel",
            "name": row.kernel,
            "pid": row.context,
            "tid": tracks.place(row.context, "kernels", start, us),
            "ts": start,
            "dur": us,
            "args": _arguments(row),
        }


def _arguments(row: Row) -> dict[str, Any]:
    estimate = row.estimate
    return {
        "kernel": row.launches.kernel,
        "mangled": row.launches.mangled,
        "grid": list(row.launches.grid),
        "block": list(row.launches.block),
        "arguments": row.launches.arguments,
        "at_least": row.is_bound,
        "bound_by": estimate.bound_by if estimate is not None else None,
        "causes_us": estimate.stack if estimate is not None else {},
    }


def _copies(report: Report, tracks: _Tracks) -> Iterator[dict[str, Any]]:
    for copy_span in sorted(report.copies, key=lambda copy: copy.start_us):
        yield {
            "ph": "X",
            "cat": "gpu_memset" if copy_span.way == "memset" else "gpu_memcpy",
            "name": _WAYS.get(copy_span.way, copy_span.way),
            "pid": copy_span.context,
            "tid": tracks.place(copy_span.context, "copies", copy_span.start_us, copy_span.us),
            "ts": copy_span.start_us,
            "dur": copy_span.us,
            "args": {"bytes": copy_span.bytes},
        }
