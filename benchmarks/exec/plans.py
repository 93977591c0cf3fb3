"""Races every legal plan of a kernel against the chosen one.

``PYTHONPATH=.:tests python -m benchmarks.exec.plans CONTEST...`` prints one line per plan.
Kernels run in this process on one core, each on a share of its blocks, without the worker, so that
only the code is compared. Every plan's results are compared with the chosen one's, bit by bit.
"""

import argparse
import ctypes
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from benchmarks.exec.catalogue import CONTESTS
from benchmarks.exec.contest import KERNELS, Contest, Launch, Problem, Shape
from support.execution import native_launch
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import ExecutionError
from vgpu_sim.exec.jit.shapes.geometry import Padding
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Function, Module

_SHARE_S = 0.02  # approximate duration of a run in seconds
_HOPELESS = 4.0  # a plan slower than the best by this factor in its first run has no second run
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Timed:
    """A plan's best time for a share of the blocks, in seconds."""

    plan: jit.Plan
    seconds: float
    chosen: bool


class Bench:
    """A contest's memory in this process, and its kernels under any plan."""

    def __init__(self, contest: Contest) -> None:
        problem: Problem = contest.make(False)
        text = (KERNELS / os.path.expandvars(f"{contest.source}.ptx")).read_text()
        self.module: Module = compile_ptx(text, capability=(9, 0))
        self.launches = problem.launches
        self._aperture = native_launch.Aperture()
        self._first = {n: a.view(np.uint8).reshape(-1) for n, a in problem.buffers.items()}
        self._buffers = {n: self._aperture.allocate(a) for n, a in problem.buffers.items()}
        self._segment = self._aperture.allocate(bytes(self.module.segment_bytes)).address
        contents = self.module.contents(self._segment)
        for variable, data in zip(self.module.variables, contents, strict=True):
            ctypes.memmove(self._segment + variable.offset, data, len(data))
        self._initial = self._first
        self._compiler = jit.Compiler()

    def close(self) -> None:
        """Release the memory."""
        self._aperture.close()

    def prepare(self, launch: Launch) -> None:
        """Run the launches of the contest before this one, which produce its input."""
        self._initial = self._first
        self.restore()
        place = self.launches.index(launch) if launch in self.launches else 0
        for earlier_launch in self.launches[:place]:
            self.run(earlier_launch, self.load(earlier_launch, None)[0], prod(earlier_launch.grid))
        self._initial = {n: b.view.copy() for n, b in self._buffers.items()}

    def restore(self) -> None:
        """Fill the buffers with the launch's input."""
        for name, array in self._initial.items():
            self._buffers[name].view[:] = array

    def read_buffers(self) -> Mapping[str, bytes]:
        """Return the buffers' current contents."""
        return {name: bytes(buffer.view) for name, buffer in self._buffers.items()}

    def load(self, launch: Launch, plan: jit.Plan | None) -> tuple[jit.Loaded, jit.Plan]:
        """Compile a launch's kernel."""
        code = self._compiler.compile(self.module, self._function(launch), launch.block, plan)
        return self._compiler.load(code), code.plan

    def run(self, launch: Launch, loaded: jit.Loaded, blocks: int) -> float:
        """Run the first blocks; return the seconds."""
        function = self._function(launch)
        values = [
            self._buffers[a].address if isinstance(a, str) else a.tobytes()
            for a in launch.arguments
        ]
        parameters = native_launch.pack(function.parameters, function.parameter_bytes, values)
        context = native_launch.context(
            self._aperture, launch.grid, launch.block, self._segment, 0, local_bytes(function)
        )
        begun = time.perf_counter()
        ended = native_launch.run(loaded, context, parameters, [(0, blocks)], function.shared_bytes)
        seconds = time.perf_counter() - begun
        if (ended.status, ended.signal) != (0, 0):
            raise ExecutionError(f"{launch.entry}: {ended}")
        return seconds

    def plans(self, launch: Launch) -> list[jit.Plan]:
        """Return the legal plans of a launch's kernel."""
        return list(jit.legal_plans(self._function(launch), launch.block))

    def _function(self, launch: Launch) -> Function:
        return self.module.function(launch.entry)


def race(bench: Bench, launch: Launch, plans: list[jit.Plan], rounds: int = ROUNDS) -> list[Timed]:
    """Time a launch under its chosen plan and under ``plans``, alternately; the fastest first.

    Raises:
        ExecutionError: a plan's results differ from the chosen one's.
    """
    bench.prepare(launch)
    loaded, chosen = bench.load(launch, None)
    grid_blocks = prod(launch.grid)
    blocks = 1
    bench.run(launch, loaded, blocks)  # the first run compiles its caller
    while blocks < grid_blocks and (took := _twice(bench, launch, loaded, blocks)) < _SHARE_S / 2:
        blocks = min(
            grid_blocks, max(blocks + 1, int(blocks * min(16, _SHARE_S / max(took, 1e-5))))
        )
    bench.restore()
    best = {chosen: bench.run(launch, loaded, blocks)}
    expected = bench.read_buffers()
    codes = {chosen: loaded}
    for plan in plans:
        if plan == chosen:
            continue
        code, _ = bench.load(launch, plan)
        bench.restore()
        best[plan] = bench.run(launch, code, blocks)
        if bench.read_buffers() != expected:
            raise ExecutionError(f"{launch.entry}: {plan} computes something else")
        if _twice(bench, launch, code, blocks) < _HOPELESS * min(best.values()):
            codes[plan] = code
    for _ in range(rounds):
        for plan, code in codes.items():
            best[plan] = min(best[plan], bench.run(launch, code, blocks))
    timings = (Timed(plan, seconds, plan == chosen) for plan, seconds in best.items())
    return sorted(timings, key=lambda timed: timed.seconds)


def _twice(bench: Bench, launch: Launch, loaded: jit.Loaded, blocks: int) -> float:
    return min(bench.run(launch, loaded, blocks) for _ in range(2))


def distinct(launches: tuple[Launch, ...]) -> Iterator[Launch]:
    """Yield the first launch of each kernel and block shape."""
    yielded_kernels: set[tuple[str, Shape]] = set()
    for launch in launches:
        if (launch.entry, launch.block) not in yielded_kernels:
            yielded_kernels.add((launch.entry, launch.block))
            yield launch


def _short(plan: jit.Plan) -> str:
    padding = "" if plan.padding == Padding.NONE else f" {plan.padding.name.lower()}"
    return f"{plan.width}x{plan.vectors}{'' if plan.versioned else ' unversioned'}{padding}"


def main() -> None:
    """Print every plan's time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contest", nargs="+", choices=CONTESTS)
    parser.add_argument("--kernel", help="one kernel alone")
    parser.add_argument("--json", action="store_true", help="kernel, chosen, best, ratio")
    options = parser.parse_args()
    for name in options.contest:
        bench = Bench(CONTESTS[name])
        for launch in distinct(bench.launches):
            if options.kernel not in (None, launch.entry):
                continue
            timings = race(bench, launch, bench.plans(launch))
            chosen = next(timed for timed in timings if timed.chosen)
            if options.json:
                ratio = chosen.seconds / timings[0].seconds
                names = [_short(timed.plan) for timed in (chosen, timings[0])]
                print(json.dumps([launch.entry, *names, ratio]), flush=True)
                continue
            print(f"{name}: {launch.entry} in blocks of {launch.block}")
            for timed in timings:
                ratio = timed.seconds / timings[0].seconds
                mark = "  <- chosen" if timed.chosen else ""
                print(f"  {timed.seconds * 1e3:8.2f} ms {ratio:6.2f} x  {timed.plan}{mark}")
        bench.close()


if __name__ == "__main__":
    main()
