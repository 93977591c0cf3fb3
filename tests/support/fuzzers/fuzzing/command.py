"""Common code of the fuzzers' commands: arguments as ``make`` passes them, and exit statuses."""

import os
import signal
from collections.abc import Iterable, Mapping

from support.fuzzers.fuzzing.campaign import Campaign, Totals
from support.fuzzers.fuzzing.trial import Report

DEFAULTS = {
    "seed": "1",
    "n": "1000000000",
    "minutes": "1000000",
    "jobs": str(os.cpu_count() or 1),
    "kernel": "",
    "folder": ".fuzz",
    "shrink": "60",
}


def parse_arguments(arguments: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str] | None:
    """Parse ``name=value`` arguments; empty values mean the default. Print an unknown one and
    return None.
    """
    said = dict(argument.split("=", 1) for argument in arguments)
    unknown = said.keys() - defaults.keys()
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(defaults)}")
        return None
    return {**defaults, **{name: value for name, value in said.items() if value}}


def stop_on_signal() -> None:
    """Make SIGTERM and SIGINT raise ``KeyboardInterrupt``, also in a background job of a shell.

    After either, the run records its progress.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def totals_of(campaign: Campaign) -> Totals | None:
    """Run a campaign and print its results; return None if it was interrupted."""
    try:
        totals = campaign.run()
    except KeyboardInterrupt:
        print("stopped; the next run of this sequence continues from here")
        return None
    print(totals.summary())
    return totals


def print_report(report: Report, no_finding: str) -> int:
    """Print the findings for one program; return the exit status."""
    for finding in report.findings:
        print(f"{finding.kind}: {finding.plan}\n{finding.detail}")
    if not report.findings:
        print(no_finding)
    return 1 if report.findings else 0
