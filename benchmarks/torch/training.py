"""The table of training runs in docs/pytorch.md."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.on_slice import REPOSITORY

RECORDED = REPOSITORY / "benchmarks" / "torch" / "training.json"
BEGIN, END = "<!-- training: begin -->", "<!-- training: end -->"


def render(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a row for each model."""
    lines = [
        "| model | first and last loss | from the CPU's | compiled, from the CPU's"
        " | CPU, float32 from float64 | two runs |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        agreement = "equal in all bits" if run["equal"] else "differ"
        lines.append(
            f"| {run['name']} | {run['first']:.4f}, {run['last']:.4f} | {run['furthest']:.1e}"
            f" | {run['compiled']:.1e} | {run['rounding']:.1e} | {agreement} |"
        )
    return "\n".join(lines) + "\n"


def section() -> str:
    """Return the generated part of the page."""
    document = json.loads(RECORDED.read_text(encoding="utf-8"))
    steps = document["runs"][0]["steps"]
    head = (
        f"Commit {document['commit']}, {document['date']}: {steps} steps; the third to fifth"
        " columns are the largest relative differences of a loss."
    )
    return f"{head}\n\n{render(document['runs'])}"
