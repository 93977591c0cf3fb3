"""The table of OpInfo's outcomes in docs/pytorch.md for other types, and for all samples."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.on_slice import REPOSITORY

FOLDER = REPOSITORY / "benchmarks" / "torch" / "recorded"
BEGIN, END = "<!-- types: begin -->", "<!-- types: end -->"
_WAYS = ("forward", "backward")
ALL_SAMPLES = "all-samples"
_SHOWN = ("float16", "bfloat16", "int64", "bool", "complex64", f"float32.{ALL_SAMPLES}")


def path_of(name: str) -> Path:
    """Return the file of the outcomes in a type, or of a type's ``ALL_SAMPLES``."""
    return FOLDER / f"{name}.json"


def section() -> str:
    """Return the generated part of the page."""
    lines = [
        "| type | until | forward right | backward right | not right | operators of each commit |",
        "|---|---|---|---|---|---|",
    ]
    for name in _SHOWN:
        if path_of(name).exists():
            document = json.loads(path_of(name).read_text(encoding="utf-8"))
            label = name.replace(f".{ALL_SAMPLES}", ", all samples")
            lines.append(_row(label, document["date"], document["operators"]))
    return "\n".join(lines) + "\n"


def _row(label: str, date: str, operators: Sequence[Mapping[str, Any]]) -> str:
    shares, misses = [], []
    for direction in _WAYS:
        compared = [operator for operator in operators if operator.get(direction, "none") != "none"]
        right = sum(operator[direction] == "right" for operator in compared)
        shares.append(f"{right} of {len(compared)}")
        misses += [
            f"`{operator['name']}` ({direction} {operator[direction]})"
            for operator in compared
            if operator[direction] != "right"
        ]
    commits = Counter(operator["commit"] for operator in operators)
    of_commits = ", ".join(f"{commit} ({count})" for commit, count in commits.most_common())
    return f"| {label} | {date} | {' | '.join(shares)} | {', '.join(misses)} | {of_commits} |"
