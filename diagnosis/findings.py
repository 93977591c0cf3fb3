"""The result of a check: a state, what was observed, and what to change."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

OK: Final = "ok"
WARN: Final = "warn"  # works, with a loss
FAIL: Final = "fail"  # does not work


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    ``area`` is what was checked: ``host``, ``node`` or ``cluster``. ``remedy`` is empty if there
    is nothing to change.
    """

    area: str
    check: str
    state: str
    found: str
    remedy: str = ""


def has_failure(findings: Iterable[Finding]) -> bool:
    """Return whether something does not work."""
    return any(finding.state == FAIL for finding in findings)


def to_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as a document."""
    return {"ok": not has_failure(findings), "findings": [asdict(finding) for finding in findings]}


def to_json(findings: Sequence[Finding]) -> str:
    """Return the findings as JSON."""
    return json.dumps(to_document(findings), indent=2)


def to_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each finding, followed by a line for its remedy."""
    widest = max((len(finding.check) for finding in findings), default=0)
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            yield f"{area}:"
        yield f"  {finding.state:4}  {finding.check:{widest}}  {finding.found}"
        if finding.remedy:
            yield f"  {'':4}  {'':{widest}}  -> {finding.remedy}"
