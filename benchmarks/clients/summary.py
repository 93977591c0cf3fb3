"""A client's run in numbers: counts of outcomes, and the misses and skips grouped by reason."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.clients.client import Client
from benchmarks.clients.outcomes import Outcome
from benchmarks.clients.reasons import find_reason, find_skip_reason, without_folder
from benchmarks.on_slice import REPOSITORY

RECORDED = REPOSITORY / "benchmarks" / "clients" / "recorded"
MISSED = ("failed", "error", "crashed", "timed out")


@dataclass(frozen=True, slots=True)
class Group:
    """Misses of one reason, with one of them as an example."""

    kind: str
    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What is recorded of a client's last run.

    ``suite_tests`` is the number of tests in the suite if only a sample of them was to run.
    ``source`` is the commit of the tests, if it is not the tag that the client's record names.
    ``note`` is for the reader of the page.
    """

    client: str
    version: str
    command: str
    board: str
    tessera: str
    date: str
    versions: dict[str, str]
    counts: dict[str, int]
    misses: tuple[Group, ...]
    skips: tuple[Group, ...]
    suite_tests: int | None = None
    source: str = ""
    note: str = ""

    @property
    def total(self) -> int:
        """The number of tests, with those that did not run."""
        return max(sum(self.counts.values()), self.suite_tests or 0)

    @property
    def pending(self) -> int:
        """The number of tests that did not run."""
        return self.total - sum(self.counts.values()) + self.count("not run")

    def count(self, *outcomes: str) -> int:
        """Return how many tests had one of these outcomes."""
        return sum(self.counts.get(outcome, 0) for outcome in outcomes)


def group(
    client: Client, outcomes: Iterable[Outcome]
) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """Group the misses and the skips, the largest group first."""
    misses: dict[tuple[str, str], list[str]] = defaultdict(list)
    skips: dict[tuple[str, str], list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.outcome in MISSED:
            misses[find_reason(outcome, client.known)].append(without_folder(outcome.test))
        elif outcome.outcome == "skipped":
            skips["skipped", find_skip_reason(outcome)].append(without_folder(outcome.test))
    return _sorted(misses), _sorted(skips)


def _sorted(groups: dict[tuple[str, str], list[str]]) -> tuple[Group, ...]:
    unsorted_groups = [
        Group(str(kind), why, len(tests), tests[0]) for (kind, why), tests in groups.items()
    ]
    return tuple(
        sorted(unsorted_groups, key=lambda entry: (-entry.count, entry.kind, entry.reason))
    )


def summarize(
    client: Client,
    outcomes: Iterable[Outcome],
    versions: dict[str, str],
    suite_tests: int | None = None,
    **about: str,
) -> Summary:
    """Summarize a run; ``about`` are command, commit, date and source."""
    all_outcomes = list(outcomes)
    misses, skips = group(client, all_outcomes)
    counts = dict(sorted(Counter(outcome.outcome for outcome in all_outcomes).items()))
    named = {name: version for name, version in versions.items() if name.lower() in _named(client)}
    return Summary(
        client.name, client.version, board=client.device, versions=named, counts=counts,
        misses=misses, skips=skips, suite_tests=suite_tests, note=client.note, **about,
    )  # fmt: skip


def _named(client: Client) -> set[str]:
    """Return the packages that the record names."""
    return {package.split("==")[0].split("[")[0].lower() for package in client.packages}


def write(summary: Summary) -> Path:
    """Record a summary in the repository."""
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{summary.client}.json"
    path.write_text(json.dumps(as_json(summary), indent=1, ensure_ascii=False) + "\n")
    return path


def read_all() -> dict[str, Summary]:
    """Return the recorded summaries by client."""
    documents = (json.loads(path.read_text()) for path in sorted(RECORDED.glob("*.json")))
    return {fields["client"]: from_json(fields) for fields in documents}


def as_json(summary: Summary) -> dict[str, Any]:
    """Return a summary's fields for JSON."""
    return asdict(summary)


def from_json(fields: dict[str, Any]) -> Summary:
    """Make a summary from its fields."""
    groups = {name: tuple(Group(**entry) for entry in fields[name]) for name in ("misses", "skips")}
    return Summary(**{**fields, **groups})
