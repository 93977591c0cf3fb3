"""Write all cases: spellings of instructions, kernels with rules of their own, captured tests."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.silicon.values import (
    bundle,
    faults,
    fetches,
    fuzzers,
    lanes,
    operands,
    ramps,
    results,
    spellings,
    sums,
    videos,
    warps,
)
from benchmarks.silicon.values.capture import suit_target

_APPROXIMATE = ("approx", "full")
_SAMPLED = {"set": 400, "setp": 200, "vmad": 24, "vset": 24}
_SAMPLED |= dict.fromkeys(("vset2", "vset4", "vadd", "vsub", "vabsdiff", "vmin", "vmax"), 24)
_SAMPLED |= dict.fromkeys(("vshl", "vshr"), 24)


def arithmetic(store: bundle.Store) -> Iterator[dict[str, Any]]:
    """Return the cases of all spellings of instructions on registers."""
    for opcode in spellings.OPCODES:
        bodies = list(spellings.bodies(opcode))
        if opcode in _SAMPLED:
            draw = random.Random(opcode)
            bodies = draw.sample(bodies, min(len(bodies), _SAMPLED[opcode]))
        for name, body, out, widths in bodies:
            dense = any(word in name for word in _APPROXIMATE) or opcode in ("tanh", "sin", "cos")
            arrays = operands.columns(widths, dense=dense)
            yield lanes.case(name, opcode, body, out, arrays, store)


def read_captures(folder: Path, store: bundle.Store) -> Iterator[dict[str, Any]]:
    """Return the cases of a folder that the plugin ``capture`` wrote."""
    for path in sorted(folder.glob("*.json")):
        case = json.loads(path.read_text())
        for name, _ in case["buffers"]:
            store.add((folder / f"{name}.bin").read_bytes())
        yield case


def corpus(folder: Path) -> Iterator[dict[str, Any]]:
    """Return cases that load a file of PTX and launch nothing."""
    for path in sorted(folder.rglob("*.ptx")):
        yield {"id": f"load/{path.name}", "group": "load", "ptx": suit_target(path.read_text())}


def record(
    folder: Path, captures: Path | None, texts: Path | None, known_archives: list[Path], only: str
) -> None:
    """Write the cases; with ``known_archives``, name the outputs that the GPU need not return."""
    store, cases = bundle.Store(), list[dict[str, Any]]()
    sources = [ramps.cases(), sums.cases(store), videos.cases(store)]
    sources += [arithmetic(store), fetches.cases(store), warps.cases(store)]
    sources.append(faults.cases(store))
    if not only or only in ("random", "program", "cluster"):
        sources.append(fuzzers.random_kernels(1500, store))
        sources.append(fuzzers.random_programs(150, store))
        sources.append(fuzzers.cluster_kernels(150))
    if captures:
        sources.append(read_captures(captures, store))
    if texts:
        sources.append(corpus(texts))
    for source in sources:
        cases += [case for case in source if only in case["group"]]
    if known_archives:
        computed = {
            report["id"]: report for path in known_archives for report, _ in results.read(path)
        }
        for case in cases:
            report = computed.get(case["id"], {})
            case["known"] = [name for _, name, _ in report.get("outputs", ())]
    bundle.write(folder, cases, store)
    print(f"{len(cases)} cases, {sum(map(len, store.pieces.values())) >> 20} MiB of data")
