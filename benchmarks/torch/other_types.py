"""The table of OpInfo's outcomes in docs/pytorch.md for types other than float32."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.on_slice import REPOSITORY

FOLDER = REPOSITORY / "benchmarks" / "torch" / "recorded"
BEGIN, END = "<!-- types: begin -->", "<!-- types: end -->"
_WAYS = ("forward", "backward")
_SHOWN = ("float16", "bfloat16", "int64", "bool", "complex64")


def path_of(dtype: str) -> Path:
    """Return the file of a type's outcomes."""
    return FOLDER / f"{dtype}.json"


def section() -> str:
    """Return the generated part of the page."""
    lines = [
        "| type | until | forward right | backward right | not right | operators of each commit |",
        "|---|---|---|---|---|---|",
    ]
    for dtype in _SHOWN:
        if path_of(dtype).exists():
            document = json.loads(path_of(dtype).read_text(encoding="utf-8"))
            lines.append(_row(dtype, document["date"], document["operators"]))
    return "\n".join(lines) + "\n"


def _row(dtype: str, date: str, operators: Sequence[Mapping[str, Any]]) -> str:
    shares, misses = [], []
    for way in _WAYS:
        compared = [one for one in operators if one.get(way, "none") != "none"]
        right = sum(one[way] == "right" for one in compared)
        shares.append(f"{right} of {len(compared)}")
        misses += [f"`{one['name']}` ({way} {one[way]})" for one in compared if one[way] != "right"]
    commits = Counter(one["commit"] for one in operators)
    of_commits = ", ".join(f"{commit} ({count})" for commit, count in commits.most_common())
    return f"| {dtype} | {date} | {' | '.join(shares)} | {', '.join(misses)} | {of_commits} |"
