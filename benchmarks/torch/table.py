"""The table of outcomes in docs/pytorch.md."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.on_slice import REPOSITORY
from benchmarks.torch import models, other_types, training
from benchmarks.torch.program.frequent import ALSO_USED, USED

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
_COUNTS = ("kernels", "on cpu")
Outcome = Mapping[str, Any]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the outcomes of a sweep, one for each operator."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    outcomes_by_name = {}
    for line in lines:
        outcome = json.loads(line)
        outcomes_by_name[outcome["name"]] = outcome
    return [outcomes_by_name[name] for name in sorted(outcomes_by_name)]


def record(recorded: Path, outcomes: Sequence[Outcome], commit: str) -> None:
    """Write the outcomes to a file for the page: reasons only of those that are not right.

    An operator that was not compared this time keeps its outcome and its commit.
    """
    earlier_document = json.loads(recorded.read_text(encoding="utf-8")) if recorded.exists() else {}
    operators_by_name = {
        operator["name"]: operator for operator in earlier_document.get("operators", [])
    }
    for outcome in outcomes:
        fields = {key: str(value)[:200] for key, value in outcome.items() if key not in _COUNTS}
        operators_by_name[outcome["name"]] = {"commit": commit, **fields}
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "operators": [operators_by_name[name] for name in sorted(operators_by_name)],
    }
    recorded.parent.mkdir(exist_ok=True)
    recorded.write_text(json.dumps(document, indent=0) + "\n", encoding="utf-8")


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the counts, and the names of all operators that are not right."""
    directions = ("forward", "backward")
    counts = {
        direction: Counter(outcome[direction] for outcome in outcomes if direction in outcome)
        for direction in directions
    }
    lines = ["| outcome | forward | backward | meaning |", "|---|---|---|---|"]
    for kind, meaning in _MEANINGS.items():
        numbers = [counts[direction][kind] for direction in directions]
        if any(numbers) or kind == "wrong":
            lines.append(f"| {kind} | {numbers[0]} | {numbers[1]} | {meaning} |")
    totals = [sum(counts[direction].values()) for direction in directions]
    lines += [f"| all | {totals[0]} | {totals[1]} | |", ""]
    for kind in list(_MEANINGS)[1:]:
        for direction in directions:
            names = [
                f"`{outcome['name']}`" for outcome in outcomes if outcome.get(direction) == kind
            ]
            if direction == "backward":
                forward_names = {
                    outcome["name"] for outcome in outcomes if outcome["forward"] == kind
                }
                names = [name for name in names if name.strip("`") not in forward_names]
            if names:
                lines += [f"**{kind}, {direction}**: {', '.join(names)}.", ""]
    return "\n".join(lines)


def section() -> str:
    """Return the generated part of the page."""
    document = json.loads(RECORDED.read_text(encoding="utf-8"))
    operators = document["operators"]
    commits = Counter(operator["commit"] for operator in operators)
    of_commits = ", ".join(f"{commit} ({count})" for commit, count in commits.most_common())
    head = f"Until {document['date']}; commits with the number of their operators: {of_commits}."
    return f"{head}\n\n{_share(operators)}\n\n{render(operators)}"


def _share(operators: Sequence[Outcome]) -> str:
    """Return how many of the operators that programs use most are computed."""
    used = {*USED, *ALSO_USED}
    variants_by_name: dict[str, list[Outcome]] = {}
    for operator in operators:
        name = operator["name"]
        base = name if name in used else name.rpartition(".")[0]
        if base in used and operator["forward"] != "none":
            variants_by_name.setdefault(base, []).append(operator)
    right = [
        name
        for name, variants in variants_by_name.items()
        if all(_is_right(variant) for variant in variants)
    ]
    share = f"{len(right)} of these ({len(right) / len(variants_by_name):.1%})"
    return (
        f"Of the {len(used)} operators that programs use most"
        f" (`benchmarks/torch/program/frequent.py`), {len(variants_by_name)} take float32, and"
        f" {share} are right in all their variants, forward and backward."
    )


def _is_right(outcome: Outcome) -> bool:
    return outcome["forward"] == "right" and outcome.get("backward", "right") in ("right", "none")


def page() -> str:
    """Return the page with its generated parts of today's records."""
    text = PAGE.read_text(encoding="utf-8")
    text = _replace(text, _BEGIN, _END, section())
    text = _replace(text, other_types.BEGIN, other_types.END, other_types.section())
    text = _replace(text, training.BEGIN, training.END, training.section())
    return _replace(text, models.BEGIN, models.END, models.section())


def _replace(text: str, begin: str, end: str, part: str) -> str:
    head, tail = text.partition(begin)[0], text.partition(end)[2]
    return f"{head}{begin}\n{part}{end}{tail}"


def update_page() -> None:
    """Put the generated parts into the page."""
    PAGE.write_text(page(), encoding="utf-8")
