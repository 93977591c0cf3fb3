"""The page ``docs/clients.md``: counts and misses of each client, from the recorded runs."""

from collections.abc import Iterable, Mapping

from benchmarks.clients.catalogue import CLIENTS
from benchmarks.clients.client import Client
from benchmarks.clients.look_ups import LookUps, describe
from benchmarks.clients.reasons import Kind
from benchmarks.clients.summary import MISSED, Group, Summary

_MOST_GROUPS = 40
_HEAD = """\
# Clients

For users who want to know how far their CUDA program will get, and for contributors who want to
know what to add next. Each row is a run against a simulated GPU under `tessera run`. Whose tests
they are is in a column: *the client's* are its own suite, unmodified; *ours* are programs in
`benchmarks/clients/programs` that we wrote for the client, so that they show what we chose to test.
The page is generated from the recorded runs in `benchmarks/clients/recorded`.

    make clients                                          # all clients: hours, 20 GB of packages
    make clients client=numba-cuda                        # one client
    make clients client=numba-cuda sample=100 seed=7      # a sample of its tests
    make clients client=cuda-core checkout=../cuda-python # tests from a folder, not from a clone

    python -m benchmarks.clients --look-ups               # how many driver functions are supported

An interrupted run continues where it ended; `fresh=1` starts again. `record=1` records the counts,
and `python -m benchmarks.clients --page > docs/clients.md` generates this page. Each client has a
virtual environment below `out/clients`, with the versions that its record in
`benchmarks/clients/catalogue` pins. If a wheel has no tests, they come from the client's repository
at the tag that the record names.

A *miss* is a test that fails, ends its process, or exceeds its time limit. *Not run* are tests that
the recorded run did not reach. A command with `--sample` ran only tests drawn at random: all others
of the suite count as not run, and the row says *sample*. *Mixed* is a run that continued on a later
commit, so that its counts are of no single state. A miss's reason is the first thing that was
missing: a driver function that returned `CUDA_ERROR_NOT_SUPPORTED`, an
image without PTX, or another error of the driver. If a comparison of values fails although no call
was refused, the miss is a *wrong value*. A miss that the client's record explains has the kind
*explained*. Skips are the suite's own, with the reasons that the suite gives.

"""


def render(recorded: Mapping[str, Summary], look_ups: LookUps | None = None) -> str:
    """Return the whole page."""
    rows = [_row(client, recorded.get(name)) for name, client in CLIENTS.items()]
    sections = [section(CLIENTS[name], recorded[name]) for name in CLIENTS if name in recorded]
    table = [
        "| client | whose tests | tests | pass | skip, with reason | miss | of these wrong values "
        "| not run | goal |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    looked_up = ["", "## Functions that are looked up", describe(look_ups)] if look_ups else [""]
    return _HEAD + "\n".join([*table, *rows, *looked_up, *sections])


def _row(client: Client, summary: Summary | None) -> str:
    name = f"{client.name} {client.version}"
    whose = "ours" if client.in_programs else "the client's"
    if summary is None:
        return f"| {name} | {whose} | not recorded | | | | | | {client.goal} |"
    kinds = [kind for kind, applies in _describe_run(summary) if applies]
    name += f" ({', '.join(kinds)})" if kinds else ""
    wrong = sum(entry.count for entry in summary.misses if entry.kind == Kind.WRONG_VALUE)
    passed = summary.count("passed", "xfailed")
    missed, pending = summary.count(*MISSED), summary.pending
    numbers = (
        summary.total,
        passed,
        summary.count("skipped"),
        missed,
        wrong,
        pending,
    )
    return f"| {name} | {whose} | {' | '.join(f'{n:,}' for n in numbers)} | {client.goal} |"


def _describe_run(summary: Summary) -> tuple[tuple[str, bool], ...]:
    """Return what a row says of a run that was not one run of the whole suite."""
    return ("sample", summary.suite_tests is not None), ("mixed", " to " in summary.tessera)


def section(client: Client, summary: Summary) -> str:
    """Return what is known of one client: versions, command, misses and skips by reason."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(summary.versions.items()))
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in summary.counts.items())
    pending = summary.pending if summary.suite_tests is not None else 0
    lines = [
        f"## {client.name} {client.version}",
        f"`{summary.command}` on {summary.board}, commit {summary.tessera}, {summary.date}:",
        f"{counts}."
        + (f" {pending:,} of the suite's {summary.total:,} not run." if pending else ""),
        *_rates(summary),
        *([summary.note] if summary.note else []),
        f"Packages: {versions}.",
    ]
    if client.repository:
        lines.append(f"Repository: {client.repository.url}, {client.repository.tag}.")
    if summary.source:
        lines.append(f"The tests that ran: {summary.source}.")
    for title, groups in (("miss", summary.misses), ("skip", summary.skips)):
        if groups:
            lines += ["", f"| {title}: count | kind | reason | example |", "|---|---|---|---|"]
            lines += _group_rows(groups)
    return "\n".join([*lines, ""])


def _rates(summary: Summary) -> Iterable[str]:
    """Yield which part of the tests passes, also without the misses of an explained cause."""
    passed, missed = summary.count("passed", "xfailed"), summary.count(*MISSED)
    if not missed:
        return
    text = f"{passed:,} of the {passed + missed:,} tests that ran and were not skipped pass"
    text += f" ({100 * passed / (passed + missed):.1f} %)"
    first = summary.misses[0]
    if (
        first.kind == Kind.KNOWN
        and 2 * first.count > missed
        and (remaining_count := passed + missed - first.count)
    ):
        text += f"; without the {first.count:,} of the first reason below it is"
        text += f" {passed:,} of {remaining_count:,} ({100 * passed / remaining_count:.1f} %)"
    yield text + "."


def _group_rows(groups: tuple[Group, ...]) -> Iterable[str]:
    for entry in groups[:_MOST_GROUPS]:
        path, mark, test = entry.example.partition("::")
        example = _cell(path.rsplit("/", 1)[-1] + mark + test)
        yield f"| {entry.count:,} | {entry.kind} | {_cell(entry.reason)} | `{example}` |"
    if remaining_count := sum(entry.count for entry in groups[_MOST_GROUPS:]):
        yield f"| {remaining_count:,} | | other reasons, {len(groups) - _MOST_GROUPS} in number | |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
