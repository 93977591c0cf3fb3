"""Throughput of n sharers of one slice, compared with that of one alone (docs/sharing.md).

The goal is a sum within 10 % of that of one. Requires an otherwise idle machine.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import on_slice
from benchmarks.report import Row, Section
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions
from vgpu_sim.config import program_environment
from vgpu_sim.gpud.model import new_gpu_uuid
from vgpu_sim.native.build import LIBRARIES

NAME = "sharing"
SECONDS = 4.0
_KINDS = ("time-slicing", "mps")
_SHARERS = (2, 4)
_TOLERANCE = 0.1
_ANSWER_S = 120.0


def measure() -> Section:
    """Run one alone, then n of each kind together. Raises ProgramFailed."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="tb-", dir="/tmp") as place:
        options = StandaloneOptions(backend="jit", threads=on_slice.cores())
        with StandaloneNode([Path(place)], options) as node, node.admin() as admin:
            gpu = {"uuid": new_gpu_uuid(), "index": 0, "board": on_slice.BOARD}
            admin.call("configure", gpus=[gpu], budget_bytes=0)
            instance = admin.call(
                "create_instance", gpu_uuid=gpu["uuid"], profile=on_slice.WHOLE, start=0
            )
            environment = {
                **program_environment(node.slices_dir, node.token_hex, LIBRARIES),
                "PYTHONPATH": on_slice.PYTHONPATH,
            }
            for kind in _KINDS:
                for sharers in _SHARERS:
                    admin.call("set_sharing", shares={})
                    (alone,) = together(1, environment)
                    share = {"kind": kind, "replicas": sharers}
                    admin.call("set_sharing", shares={instance["uuid"]: share})
                    rows += _rows(kind, alone, together(sharers, environment))
    return Section(NAME, tuple(rows))


def together(sharers: int, environment: dict[str, str]) -> list[float]:
    """Start all sharers together; return the launches per second of each. Raises ProgramFailed."""
    command = [sys.executable, "-m", "benchmarks.sharing_client", str(SECONDS)]
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    command,
                    env={**os.environ, **environment},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(sharers)
        ]
        for each in running:
            if each.stdout is None or each.stdout.readline().strip() != "ready":
                raise on_slice.ProgramFailed("a sharer could not start")
        for each in running:
            if each.stdin is not None:
                each.stdin.write("go\n")
                each.stdin.flush()
        return [float(each.communicate(timeout=_ANSWER_S)[0]) for each in running]


def _rows(kind: str, alone: float, rates: Sequence[float]) -> list[Row]:
    name, total = f"{kind} x {len(rates)}", sum(rates) / alone
    return [
        Row(NAME, f"{name}: all / one alone, at least", total, "x", 1 - _TOLERANCE, True),
        Row(NAME, f"{name}: all / one alone, at most", total, "x", 1 + _TOLERANCE),
        Row(NAME, f"{name}: least / most", min(rates) / max(rates), "x"),
    ]
