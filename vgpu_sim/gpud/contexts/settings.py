"""Settings of a node's workers, declared as options of gpud."""

import math
import os
from pathlib import Path

import click

from boards.record import ARCHITECTURES
from vgpu_sim.gpud.model import MigInstance
from vgpu_sim.hal.compute import limits
from vgpu_sim.hal.observe.modelled_report import CLOCKS, MODELLED, WALL
from vgpu_sim.options import option
from vgpu_sim.records import dataclass

FIRST_WORKER_UID = 70000


def _usable_cpus() -> int:
    return min(len(os.sched_getaffinity(0)), limits.MAX_WORKER_THREADS)


def _capability(text: str) -> tuple[int, int]:
    """Parse "M.m" as a compute capability. Raises click.BadParameter if it is unknown."""
    capabilities = {f"{major}.{minor}": (major, minor) for major, minor in ARCHITECTURES}
    if text not in capabilities:
        raise click.BadParameter(f"{text!r} is not one of {', '.join(capabilities)}")
    return capabilities[text]


def _finite(
    _context: click.Context, _parameter: click.Parameter, value: float | None
) -> float | None:
    """Reject NaN, which passes every range check, and infinity. Raises click.BadParameter."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number of seconds")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings that all workers of a node have in common.

    ``capability`` None selects the board's own compute capability. With ``own_uids``, the
    workers of each instance have a uid of their own. ``cache_root`` is the parent of the owners'
    object caches. With ``weak_sandbox`` contexts start even where the kernel cannot confine
    workers. A kernel that runs for ``kernel_timeout_s`` ends its context. ``clock`` is one of
    ``hal.observe.modelled_report.CLOCKS``. With ``report_usage`` each worker reports its
    launches and compilations when it ends; gpud emits them as "usage" events.
    """

    backend: str = option(
        type=click.Choice(["jit", "interp"]),
        option_default="jit",
        show_default=True,
        after="--libraries-dir",
    )
    threads: int = option(
        type=click.IntRange(1, limits.MAX_WORKER_THREADS),
        option_default=_usable_cpus,
        help="Native threads of a worker; default: the CPUs gpud may use, up to that many.",
    )
    kernel_timeout_s: float | None = option(
        "--kernel-timeout",
        type=click.FloatRange(min=0, min_open=True),
        callback=_finite,
        default=None,
        help="End the context of a kernel that runs for so many seconds; default: let it run.",
    )
    report_usage: bool = option(default=False, help='Emit a "usage" event with what a context did.')
    clock: str = option(
        type=click.Choice(CLOCKS),
        default=WALL,
        show_default=True,
        help="What events measure: this machine's time, or what the board would take (modelled).",
    )
    capability: tuple[int, int] | None = option(
        "--cc",
        type=str,
        convert=_capability,
        help="Report this compute capability (M.m).",
    )
    strict_cpu: bool = option(
        "--isolation",
        type=click.Choice(["default", "strict"]),
        option_default="default",
        is_flag=False,
        convert=lambda isolation: isolation == "strict",
        help="strict: a slice gets its share of CPU time and no more.",
    )
    weak_sandbox: bool = option(
        "--allow-weak-sandbox",
        help="Start contexts even where the kernel can confine their workers neither by Landlock"
        " nor by namespaces. Always so with --token, where program and worker are one user's.",
    )
    own_uids: bool
    cache_root: Path

    @property
    def modelled(self) -> bool:
        """Whether CUDA events measure the board's modelled time."""
        return self.clock == MODELLED

    @property
    def first_uid(self) -> int | None:
        """The uid of workers in the first slot; None if workers run as gpud's user."""
        return FIRST_WORKER_UID if self.own_uids else None

    def capability_of(self, instance: MigInstance) -> tuple[int, int]:
        """Return the compute capability that an instance reports."""
        return self.capability or instance.gpu.board.compute_capability
