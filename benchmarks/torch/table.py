"""The table of outcomes in docs/pytorch.md."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.on_slice import REPOSITORY
from benchmarks.torch import models, training

RECORDED = REPOSITORY / "benchmarks" / "torch" / "recorded.json"
PAGE = REPOSITORY / "docs" / "pytorch.md"
_BEGIN, _END = "<!-- operators: begin -->", "<!-- operators: end -->"
_MEANINGS = {
    "right": "as on the CPU, computed on the device",
    "refused": "no kernel: `NotImplementedError` that names the operator",
    "library": "a mathematical library of Tessera's refuses the call",
    "kernel": "PyTorch starts a kernel of the wheel that no operator reaches",
    "wrong": "other numbers, types or shapes than on the CPU",
    "error": "another error",
    "died": "the process ended",
    "time": "more than the time limit",
    "none": "the CPU has no result to compare with",
}
Outcome = Mapping[str, Any]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the outcomes of a sweep, one for each operator."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {}
    for line in lines:
        outcome = json.loads(line)
        found[outcome["name"]] = outcome
    return [found[name] for name in sorted(found)]


def record(outcomes: Sequence[Outcome], commit: str) -> None:
    """Write the outcomes for the page: reasons only of those that are not right."""
    kept = [
        {key: str(value)[:200] for key, value in one.items() if key not in ("kernels", "on cpu")}
        for one in outcomes
    ]
    document = {
        "commit": commit,
        "date": datetime.now(UTC).date().isoformat(),
        "kernels": sum(one.get("kernels", 0) for one in outcomes),
        "on cpu": sum(one.get("on cpu", 0) for one in outcomes),
        "operators": kept,
    }
    RECORDED.write_text(json.dumps(document, indent=0) + "\n", encoding="utf-8")


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the counts, and the names of all operators that are not right."""
    directions = ("forward", "backward")
    counts = {way: Counter(one[way] for one in outcomes if way in one) for way in directions}
    lines = ["| outcome | forward | backward | meaning |", "|---|---|---|---|"]
    for kind, meaning in _MEANINGS.items():
        numbers = [counts[way][kind] for way in directions]
        if any(numbers) or kind == "wrong":
            lines.append(f"| {kind} | {numbers[0]} | {numbers[1]} | {meaning} |")
    totals = [sum(counts[way].values()) for way in directions]
    lines += [f"| all | {totals[0]} | {totals[1]} | |", ""]
    for kind in list(_MEANINGS)[1:]:
        for way in directions:
            names = [f"`{one['name']}`" for one in outcomes if one.get(way) == kind]
            if way == "backward":
                before = {one["name"] for one in outcomes if one["forward"] == kind}
                names = [name for name in names if name.strip("`") not in before]
            if names:
                lines += [f"**{kind}, {way}**: {', '.join(names)}.", ""]
    return "\n".join(lines)


def section() -> str:
    """Return the generated part of the page."""
    document = json.loads(RECORDED.read_text(encoding="utf-8"))
    head = (
        f"Commit {document['commit']}, {document['date']}: {document['kernels']} kernels were"
        f" compiled, and {document['on cpu']} calls ran on the CPU."
    )
    return f"{head}\n\n{render(document['operators'])}"


def page() -> str:
    """Return the page with its generated parts of today's records."""
    text = PAGE.read_text(encoding="utf-8")
    text = _replace(text, _BEGIN, _END, section())
    text = _replace(text, training.BEGIN, training.END, training.section())
    return _replace(text, models.BEGIN, models.END, models.section())


def _replace(text: str, begin: str, end: str, part: str) -> str:
    before, after = text.partition(begin)[0], text.partition(end)[2]
    return f"{before}{begin}\n{part}{end}{after}"


def update_page() -> None:
    """Put the generated parts into the page."""
    PAGE.write_text(page(), encoding="utf-8")
