"""How the results of a GPU differ from those of Tessera: by group, with examples of operands."""

import collections
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.silicon.values import bundle, results, ulps

_EXAMPLES = 6
Reports = dict[str, tuple[dict[str, Any], list[bytes]]]


def load(archives: Iterable[Path]) -> Reports:
    """Return the reports of archives by case; later archives replace earlier ones."""
    return {
        report["id"]: (report, outputs)
        for path in archives
        for report, outputs in results.read(path)
    }


def outputs_of(
    report: dict[str, Any], outputs: list[bytes], other_reports: Reports
) -> list[bytes | None]:
    """Return each output: as kept, else of an equal output of the other side, else None."""
    by_digest = {bundle.digest(data): data for data in outputs}
    if report["id"] in other_reports:
        by_digest |= {bundle.digest(data): data for data in other_reports[report["id"]][1]}
    return [by_digest.get(name) for _, name, _ in report["outputs"]]


def compare(folder: Path, gpu: Path, tessera: list[Path], details: Path | None) -> None:
    """Print the counts of each group; write each difference to ``details``."""
    cases, store = bundle.read(folder)
    theirs, ours = load([gpu]), load(tessera)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    lines: list[str] = []
    for case in cases:
        kind, text = _classify(case, theirs, ours, store)
        counts[_group(case)][kind] += 1
        lines += text
    for group, kind_counts in sorted(counts.items()):
        print(f"{group:60} " + ", ".join(f"{n} {kind}" for kind, n in kind_counts.most_common()))
    totals = sum(counts.values(), collections.Counter[str]())
    print("total: " + ", ".join(f"{n} {kind}" for kind, n in totals.most_common()))
    if details:
        details.write_text("\n".join(lines) + "\n")


def _group(case: dict[str, Any]) -> str:
    return str(case["group"]).split("/")[-1]


def _classify(
    case: dict[str, Any], theirs: Reports, ours: Reports, store: bundle.Store
) -> tuple[str, list[str]]:
    name = case["id"]
    if name not in theirs or name not in ours:
        return ("not run on the GPU" if name not in theirs else "not run on Tessera"), []
    (gpu, _), (own, _) = theirs[name], ours[name]
    if gpu["status"] != own["status"]:
        log = " ".join((gpu.get("log") or own.get("log") or "").split())[:200]
        return "other status", [f"{name}: {gpu['status']!r}, Tessera {own['status']!r} {log}"]
    if gpu["outputs"] == own["outputs"]:
        return "equal" if gpu["status"] == "ok" else "equal error", []
    lines = [f"{name}: outputs differ"]
    gpu_outputs, tessera_outputs = (
        outputs_of(*pair[name], other_reports)
        for pair, other_reports in ((theirs, ours), (ours, theirs))
    )
    for place, (a, b) in enumerate(zip(gpu_outputs, tessera_outputs, strict=True)):
        if a != b:
            lines += _differences(case, place, a, b, store)
    return "different", lines


def _differences(
    case: dict[str, Any], place: int, gpu: bytes | None, own: bytes | None, store: bundle.Store
) -> list[str]:
    if gpu is None or own is None:
        return [f"  output {place}: its contents were not kept"]
    count, inputs = case["grid"][0] * case["block"][0], []
    scalar = "/" not in case["id"] and "#" not in case["id"]
    bits = 8 * len(gpu) // count if scalar else 32
    if scalar:
        for data, _ in case["buffers"]:
            if isinstance(data, str):
                whole = store(data)
                inputs.append(np.frombuffer(whole, f"<u{len(whole) // count}"))
    a, b = (
        np.frombuffer(x[: len(x) // (bits // 8) * (bits // 8)], f"<u{bits // 8}")
        for x in (gpu, own)
    )
    places = np.flatnonzero(a != b)
    distance = ulps.describe(case["id"], a, b) if scalar else ""
    lines = [f"  output {place}: {len(places)} of {len(a)} differ {distance}"]
    chosen = places[:: max(1, len(places) // _EXAMPLES)][:_EXAMPLES]
    for at in chosen:
        operands = " ".join(f"{int(x[at]):0{x.dtype.itemsize * 2}x}" for x in inputs)
        digits = bits // 4
        lines.append(
            f"    [{at}] {operands} -> {int(a[at]):0{digits}x}, Tessera {int(b[at]):0{digits}x}"
        )
    return lines
