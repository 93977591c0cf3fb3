"""What a check found, and what to change."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

OK: Final = "ok"
WARNING: Final = "warning"  # works, with a loss
ERROR: Final = "error"  # does not work


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``remedy`` is empty if there is nothing to change."""

    check: str
    state: str
    found: str
    remedy: str = ""


def as_text(findings: Sequence[Finding]) -> str:
    """Return a line for each finding, and a line for each remedy."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:8} {finding.check:10} {finding.found}")
        if finding.remedy:
            lines.append(f"{'':19} {finding.remedy}")
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as a JSON document."""
    document = {
        "ok": not has_error(findings),
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(document, indent=2)


def has_error(findings: Sequence[Finding]) -> bool:
    """Return whether something does not work."""
    return any(finding.state == ERROR for finding in findings)
