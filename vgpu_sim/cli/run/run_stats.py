"""``tessera run --stats`` prints the time of each kernel and counts of compilations, from gpud's
events.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any

import click

from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.cli.clients.standalone import StandaloneNode
from vgpu_sim.records import dataclass

_COUNTS = (
    "modules",
    "modules_ns",
    "compiled",
    "cached",
    "shapes",
    "shapes_ns",
    "provisional",
    "improved",
    "swapped",
    "refused",
)
_LAST_WORDS_SECONDS = 5.0


@dataclass(slots=True)
class Totals:
    """Totals over all contexts of a run. ``kernels`` maps a kernel's name to [launches, ns].

    ``unfinished`` has a pair (kernel, reason) for each launch that failed and so ended its
    context, in order.
    """

    contexts: int = 0
    ended: int = 0
    kernels: dict[str, list[int]] = field(default_factory=dict)
    unfinished: list[tuple[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event that gpud sent."""
        match event["event"]:
            case "context_started":
                self.contexts += 1
            case "context_ended":
                self.ended += 1
            case "fault" if event["kernel"]:
                self.unfinished.append((event["kernel"], event["message"]))
            case "usage":
                for row in event["kernels"]:
                    kernel = self.kernels.setdefault(row["kernel"], [0, 0])
                    kernel[0] += row["launches"]
                    kernel[1] += row["busy_ns"]
                for name in _COUNTS:
                    self.counts[name] += event[name]
            case _:
                pass

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report, the kernel with the longest time first."""
        yield f"contexts: {self.contexts}"
        if self.kernels or self.unfinished:
            yield f"{'launches':>10} {'total ms':>12} {'mean us':>12}  kernel"
        for name, (launches, ns) in sorted(self.kernels.items(), key=lambda one: -one[1][1]):
            yield f"{launches:>10} {ns / 1e6:>12.3f} {ns / launches / 1e3:>12.1f}  {name}"
        for name, why in self.unfinished:
            yield f"{1:>10} {'-':>12} {'-':>12}  {name} (did not end: {why})"
        counts = self.counts
        yield (
            f"modules loaded: {counts['modules']} in {counts['modules_ns'] / 1e9:.3f} s,"
            f" {counts['compiled']} compiled, {counts['cached']} from the cache"
        )
        yield (
            f"kernels compiled for a block shape: {counts['shapes']} in"
            f" {counts['shapes_ns'] / 1e9:.3f} s"
        )
        if counts["provisional"]:
            yield (
                f"  {counts['provisional']} of them first as narrow code, {counts['improved']}"
                f" improved since; launches improved while they ran: {counts['swapped']}"
            )
        if counts["refused"]:
            yield f"unusable objects in the cache: {counts['refused']}"
        if self.ended < self.contexts:
            yield f"contexts that are still alive and not counted: {self.contexts - self.ended}"


@contextmanager
def print_statistics(node: StandaloneNode | None) -> Iterator[None]:
    """Print the usage statistics of the enclosed block on stderr; do nothing if ``node`` is None.

    Raises:
        OSError: gpud cannot be reached.
    """
    if node is None:
        yield
        return
    with AdminClient(node.run_dir, _LAST_WORDS_SECONDS) as admin:
        admin.call("subscribe")
        yield
        report = [f"tessera run: {line}" for line in _take_all(admin).lines()]
    with suppress(OSError):  # a full disk behind stderr must not replace the program's exit status
        click.echo("\n".join(report), err=True)


def _take_all(admin: AdminClient) -> Totals:
    """Add up events until no context is alive, or until those that are alive send no more
    events.
    """
    totals = Totals()
    while True:
        gpus = admin.call("inventory")["gpus"]
        live = any(instance["contexts"] for gpu in gpus for instance in gpu["instances"])
        for event in admin.queued_events():
            totals.add_event(event)
        if not live:
            return totals
        try:
            totals.add_event(admin.next_event())
        except TimeoutError:
            return totals
