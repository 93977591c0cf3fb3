"""Counts requests and their durations, and writes them in Prometheus's text format.

With the package prometheus_client, a Counter and a Histogram do the same.
"""

import bisect

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
NAME = "http_request_duration_seconds"


class Requests:
    """The requests that a server has answered."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count a request."""
        self.buckets[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def text(self) -> str:
        """Return the counters as Prometheus reads them."""
        count = sum(self.buckets)
        lines = [f"# TYPE {NAME} histogram"]
        for number, bound in enumerate((*BOUNDS, "+Inf"), 1):
            lines.append(f'{NAME}_bucket{{le="{bound}"}} {sum(self.buckets[:number])}')
        lines += [f"{NAME}_sum {self.seconds}", f"{NAME}_count {count}"]
        lines += ["# TYPE http_requests_total counter", f"http_requests_total {count}"]
        return "\n".join(lines) + "\n"
