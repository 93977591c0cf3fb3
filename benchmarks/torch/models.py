"""The table of Hugging Face's models in docs/pytorch.md."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.on_slice import REPOSITORY

RECORDED = REPOSITORY / "benchmarks" / "torch" / "models.json"
BEGIN, END = "<!-- models: begin -->", "<!-- models: end -->"


def render(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a row for each model."""
    lines = [
        "| model | logits from the CPU's | gradients from the CPU's | compiled: logits, gradients"
        " | CPU, float32 from float64: logits, gradients | tokens |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        if "error" in run:
            lines.append(f"| {run['name']} | {run['error']} | | | | |")
            continue
        tokens = ", ".join(
            f"{method} {'equal' if is_equal else 'different'}"
            for method, is_equal in run["tokens"].items()
        )
        compiled = (run["compiled forward"], run["compiled backward"])
        rounding = (run["forward, CPU from float64"], run["backward, CPU from float64"])
        lines.append(
            f"| {run['name']} | {run['forward']:.1e} | {run['backward']:.1e}"
            f" | {compiled[0]:.1e}, {compiled[1]:.1e}"
            f" | {rounding[0]:.1e}, {rounding[1]:.1e} | {tokens} |"
        )
    return "\n".join(lines) + "\n"


def section() -> str:
    """Return the generated part of the page."""
    document = json.loads(RECORDED.read_text(encoding="utf-8"))
    right = sum(run["right"] for run in document["runs"])
    head = (
        f"Commit {document['commit']}, {document['date']}:"
        f" {right} of {len(document['runs'])} right."
        " Differences are the largest, divided by the largest number."
    )
    return f"{head}\n\n{render(document['runs'])}"
