"""Counts and disagreements of a sweep over the table of rules."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.torch.rules import coverage
from benchmarks.torch.rules.table import ROWS

Record = Mapping[str, Any]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a sweep, one for each row and type."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    latest = {(record["name"], record["dtype"]): record for record in records}
    return list(latest.values())


def count(records: Sequence[Record]) -> dict[str, int]:
    """Return how many rows and cases a sweep compared, and how they ended."""
    agrees = sum(record["agrees"] for record in records)
    refused = sum(record["refused"] for record in records)
    differs = sum(len(record["differs"]) for record in records)
    return {
        "rows": len(ROWS),
        "rows compared": len({record["name"] for record in records}),
        "rows that disagree": len({r["name"] for r in records if r["differs"]}),
        "cases": agrees + refused + differs,
        "agreements": agrees,
        "refusals": refused,
        "disagreements": differs,
        "elements": sum(record["elements"] for record in records),
    }


def render(records: Sequence[Record], on_cpu: Sequence[Record]) -> str:
    """Return the counts and every disagreement, one on a line."""
    lines = [f"{name}: {number}" for name, number in count(records).items()]
    lines.append(
        f"most used operators: {len(coverage.operators())}, of which"
        f" {len(coverage.with_rows())} have a row"
    )
    right = sum(is_right(record) for record in on_cpu)
    lines.append(f"operators compared with the CPU only: {len(on_cpu)}, of which {right} agree")
    lines += [f"DISAGREES {line}" for line in disagreements(records)]
    lines += [f"DIFFERS FROM THE CPU {record['name']}" for record in on_cpu if not is_right(record)]
    return "\n".join(lines)


def disagreements(records: Iterable[Record]) -> list[str]:
    """Return one line for each case that disagrees with its rule."""
    return [
        f"{record['name']} | {case['label']} | {case['call']} | {case['reason']}"
        for record in records
        for case in record["differs"]
    ]


def is_right(record: Record) -> bool:
    """Report whether the comparison with the CPU found no difference, or nothing to compare."""
    return record.get("forward") in ("right", "none")
