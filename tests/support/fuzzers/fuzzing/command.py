"""What the commands of fuzzers have in common: arguments as ``make`` gives them, and the end."""

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


def chosen(arguments: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str] | None:
    """Read ``name=value`` arguments; empty values are the defaults. None: one is unknown, told."""
    said = dict(argument.split("=", 1) for argument in arguments)
    unknown = said.keys() - defaults.keys()
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(defaults)}")
        return None
    return {**defaults, **{name: value for name, value in said.items() if value}}


def stop_when_told() -> None:
    """Make SIGTERM and SIGINT raise ``KeyboardInterrupt``, in the background of a shell, too.

    A run that is stopped in either way writes down how far it came.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def totals_of(campaign: Campaign) -> Totals | None:
    """Run a campaign and print what came of it; None: it was interrupted."""
    try:
        totals = campaign.run()
    except KeyboardInterrupt:
        print("stopped; the next run of this sequence goes on from here")
        return None
    print(totals.summary())
    return totals


def told(report: Report, no_finding: str) -> int:
    """Print what was found of one program; return the exit status."""
    for finding in report.findings:
        print(f"{finding.kind}: {finding.plan}\n{finding.detail}")
    if not report.findings:
        print(no_finding)
    return 1 if report.findings else 0
