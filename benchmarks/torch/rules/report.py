"""Counts and disagreements of a sweep over the table of rules."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.torch.rules import coverage
from benchmarks.torch.rules.known_cases import KNOWN
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
    listed = sum(_key(record, case) in KNOWN for record in records for case in record["differs"])
    return {
        "rows": len(ROWS),
        "rows compared": len({record["name"] for record in records}),
        "rows that disagree": len({r["name"] for r in records if r["differs"]}),
        "cases": agrees + refused + differs,
        "agreements": agrees,
        "refusals": refused,
        "disagreements": differs,
        "known disagreements": listed,
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
    lines += [f"KNOWN {line}" for line in known_disagreements(records)]
    lines += [f"DISAGREES {line}" for line in disagreements(records)]
    lines += [f"AGREES, BUT IS LISTED AS KNOWN {line}" for line in unexpected_agreements(records)]
    lines += [f"DIFFERS FROM THE CPU {record['name']}" for record in on_cpu if not is_right(record)]
    return "\n".join(lines)


def disagreements(records: Iterable[Record]) -> list[str]:
    """Return one line for each case that disagrees with its rule and is not known to."""
    return [
        f"{record['name']} | {case['label']} | {case['call']} | {case['reason']}"
        for record in records
        for case in record["differs"]
        if _key(record, case) not in KNOWN
    ]


def known_disagreements(records: Iterable[Record]) -> list[str]:
    """Return one line for each case that disagrees as the table of known cases has it."""
    return [
        f"{record['name']} | {case['label']} | {KNOWN[_key(record, case)]}"
        for record in records
        for case in record["differs"]
        if _key(record, case) in KNOWN
    ]


def unexpected_agreements(records: Sequence[Record]) -> list[str]:
    """Return one line for each known case whose row was compared and that agrees."""
    compared = {(record["name"], record["dtype"]) for record in records}
    differing = {_key(record, case) for record in records for case in record["differs"]}
    return [f"{key[0]} | {key[2]}" for key in KNOWN if key[:2] in compared and key not in differing]


def is_as_expected(records: Sequence[Record]) -> bool:
    """Return whether exactly the known cases of the rows that were compared disagree."""
    return not disagreements(records) and not unexpected_agreements(records)


def _key(record: Record, case: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["name"], record["dtype"], case["label"]


def is_right(record: Record) -> bool:
    """Report whether the comparison with the CPU found no difference, or nothing to compare."""
    return record.get("forward") in ("right", "none")
