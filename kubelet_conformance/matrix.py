"""The table of results: ``python -m kubelet_conformance.matrix NAME=report.json ...``.

Each row is a check, in order, described by the first line of its docstring; each column is a
plugin.
"""

import ast
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SUITE = Path(__file__).with_name("suite")
_FILES = ("test_device_plugin.py", "test_restarts.py", "test_dra.py")
_WORDS = {"passed": "yes", "failed": "**no**", "skipped": "–", "": ""}


def checks() -> dict[str, str]:
    """Return the description of each check by the check's name, in the order of the checks."""
    descriptions = {}
    for file in _FILES:
        for node in ast.parse((SUITE / file).read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                descriptions[node.name] = (ast.get_docstring(node) or node.name).splitlines()[0]
    return descriptions


def table(reports: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """Return the table of the checks' results as Markdown, with one column for each report.

    Below the table is a list of reasons, to which the results other than "yes" refer by number.
    """
    reasons: list[str] = []
    rows = [f"| check | {' | '.join(reports)} |", f"|---|{'---|' * len(reports)}"]
    outcomes = {
        name: {check_result["check"]: check_result for check_result in results}
        for name, results in reports.items()
    }
    for check, says in checks().items():
        cells = []
        for results in outcomes.values():
            check_result: Mapping[str, Any] = results.get(check, {})
            cell = _WORDS[check_result.get("outcome", "")]
            if reason := check_result.get("reason", ""):
                if reason not in reasons:
                    reasons.append(reason)
                cell += f" ({reasons.index(reason) + 1})"
            cells.append(cell)
        if any(cells):
            rows.append(f"| {says} | {' | '.join(cells)} |")
    notes = [f"{number}. {_escape(text)}" for number, text in enumerate(reasons, 1)]
    return "\n".join([*rows, "", *notes]) + "\n"


def answers(markdown: str) -> dict[str, dict[str, str]]:
    """Return the results in the table of a Markdown document: for each column, the result of each
    check.

    A result is "yes", "no", "–" or "".
    """
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    (head,) = [line for line in lines if line.startswith("| check |")]
    names = [cell.strip() for cell in head.strip("|").split("|")][1:]
    by_text = {text: check for check, text in checks().items()}
    results_by_column: dict[str, dict[str, str]] = {name: {} for name in names}
    for line in lines:
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if first in by_text:
            for name, cell in zip(names, cells, strict=True):
                results_by_column[name][by_text[first]] = cell.partition(" ")[0].strip("*")
    return results_by_column


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")


def main(arguments: Sequence[str]) -> int:
    """Print the table for the reports in ``arguments``; return an exit status."""
    reports = {}
    for argument in arguments:
        name, separator, path = argument.partition("=")
        if not separator:
            sys.stderr.write(f"{argument}: NAME=FILE is expected\n")
            return 2
        reports[name] = json.loads(Path(path).read_text())["results"]
    sys.stdout.write(table(reports))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
