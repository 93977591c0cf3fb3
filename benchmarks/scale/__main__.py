"""``python -m benchmarks.scale [--nodes 100,300,1000]``: a table of each size, and the curve."""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Row, Section, machine, table
from benchmarks.scale import curve
from benchmarks.scale.cluster import GPUS_A_NODE
from benchmarks.scale.control_plane import REPOSITORY, MissingProgram
from benchmarks.scale.measure import SLOW_TOO, Figures, Wanted, measure

_CACHE = Path(os.environ.get("TESSERA_CACHE", "~/.cache/tessera-cluster")).expanduser()
PODS_A_NODE = 5
_LEAST_S = 100.0  # minimum time of each size
_BUSY_S = 150.0  # of the phase with pods: ten rounds of 10 s at any size, and a lease
_WITH_SLOW = 100
_PLOT = REPOSITORY / "docs" / "scale.svg"


def rows(fleet_figures: Figures) -> Section:
    """Return the figures of one size with the goals."""
    name = f"{fleet_figures.nodes} nodes"
    result = []
    for phase, figures in fleet_figures.phases.items():
        goal = {"relay idle": 60.0, "divide whole GPUs": 60.0}.get(phase)
        if phase != "quiet":
            result.append(Row(name, phase, figures.seconds, "s", goal))
        if phase.endswith(SLOW_TOO):
            continue  # most programs are idle
        each = {
            who: 1000 * s / (fleet_figures.nodes * GPUS_A_NODE) for who, s in figures.cpu_s.items()
        }
        if phase.startswith(("divide", "relay")):
            result += [
                Row(name, f"{phase}: CPU time of {who} for each GPU", ms, "ms")
                for who, ms in each.items()
            ]
        rate = figures.operator_requests / figures.seconds
        result.append(Row(name, f"{phase}: operator", figures.cores, "cores", 1.0))
        calm = 50.0 if phase == "quiet" else None
        result.append(Row(name, f"{phase}: operator's requests", rate, "/s", calm))
    result.append(Row(name, "operator's memory at most", fleet_figures.memory_mib, "MiB", 300.0))
    result.append(Row(name, "operators that ended by themselves", fleet_figures.restarts, "", 0.0))
    result += [
        Row(name, "nodes away", fleet_figures.away, ""),
        Row(name, "nodes slow", fleet_figures.slow, ""),
    ]
    if fleet_figures.status_bytes:
        result.append(Row(name, "MIGLayout.status", fleet_figures.status_bytes / 1024, "KiB", 16.0))
    if quiet := fleet_figures.phases.get("quiet"):
        lists = quiet.agent_lists * 3600 / quiet.seconds / fleet_figures.nodes
        result.append(Row(name, "lists of an agent in an hour at rest", lists, "", 1.0))
    if fleet_figures.change_ms:
        result.append(Row(name, "one GPU's change: operator", fleet_figures.change_ms, "ms", 5.0))
        result.append(
            Row(name, "one GPU's change: its requests", fleet_figures.change_requests, "")
        )
    for device, seconds in fleet_figures.bound_s.items():
        result.append(
            Row(name, f"{fleet_figures.pods} pods with {device} until all are bound", seconds, "s")
        )
    if fleet_figures.lost_leader_s:
        result.append(
            Row(name, "leader killed until work continues", fleet_figures.lost_leader_s, "s")
        )
    if fleet_figures.stuck:
        result.append(Row(name, "the rest", 0.0, "", missing=fleet_figures.stuck))
    return Section(name, tuple(result))


def _busy_one(sizes: Sequence[int]) -> int:
    """Return the size that is changed under load: the first with absent and slow nodes, or the
    last.
    """
    return next((nodes for nodes in sizes if nodes >= _WITH_SLOW), sizes[-1])


def _within_s(sizes: Sequence[int], busy: int, seconds: float) -> float:
    """Return the time of the next size: proportional to its nodes among the remaining sizes."""
    busy_s = _BUSY_S if busy in sizes else 0.0
    free_s = max(0.0, seconds - busy_s)
    own_s = max(_LEAST_S, free_s * math.sqrt(sizes[0]) / sum(map(math.sqrt, sizes)))
    return min(seconds, own_s + (busy_s if sizes[0] == busy else 0.0))


def main() -> int:
    """Exit status: 0 all goals met, 1 one is missed, 2 the measurement failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--nodes", default="20,100", help="sizes, with commas (default: 20,100)")
    parser.add_argument("--quiet", type=float, default=30.0, metavar="SECONDS", help="at rest")
    parser.add_argument(
        "--within",
        type=float,
        default=720.0,
        metavar="SECONDS",
        help="for all sizes; unfinished work is reported (default: 720)",
    )
    parser.add_argument(
        "--pods", type=int, help="for the scheduler to bind (default: five a node, 0: none)"
    )
    parser.add_argument("--requests", action="store_true", help="requests by user and phase")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--keep", type=Path, help="where logs and databases stay")
    parser.add_argument("--plot", action="store_true", help=f"write {_PLOT.name} into docs/")
    options = parser.parse_args()
    print(f"{machine()}; {GPUS_A_NODE} GPUs a node", flush=True)
    all_figures: list[Figures] = []
    sizes = [int(word) for word in options.nodes.split(",")]
    busy = _busy_one(sizes)
    ends_at = time.monotonic() + options.within
    for position, nodes in enumerate(sizes):
        keep = options.keep / str(nodes) if options.keep else None
        within_s = _within_s(sizes[position:], busy, max(1.0, ends_at - time.monotonic()))
        pods = PODS_A_NODE * nodes if options.pods is None else options.pods
        settings = Wanted(nodes, options.quiet, within_s, busy=nodes == busy, pods=pods, keep=keep)
        try:
            all_figures.append(measure(settings, _CACHE / "node-bin"))
        except (MissingProgram, TimeoutError) as err:
            print(f"error: {nodes} nodes: {err}", file=sys.stderr)
            return 2
        print(table([rows(all_figures[-1])]), flush=True)
    sections = [rows(figures) for figures in all_figures]
    print(curve.text(all_figures))
    if options.requests:
        for figures in all_figures:
            for name, phase in figures.phases.items():
                print(f"{figures.nodes} nodes, {name}: operator: {phase.operator}")
                print(f"{figures.nodes} nodes, {name}: agents: {phase.agents}")
    if options.plot:
        _PLOT.write_text(curve.svg(all_figures))
    if options.json:
        options.json.write_text(json.dumps([f.document() for f in all_figures], indent=1))
    poor = ("MISSED", "NOT MEASURED")
    return int(any(row.verdict in poor for section in sections for row in section.rows))


if __name__ == "__main__":
    sys.exit(main())
