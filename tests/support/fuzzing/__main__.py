"""``make fuzz``: random kernels on the JIT, the interpreter and a scalar evaluator of PTX.

    make fuzz                         sequence 1, from where it stopped, until interrupted
    make fuzz seed=7 n=1000           1,000 more kernels of sequence 7
    make fuzz minutes=10 jobs=1       for ten minutes, on one core
    make fuzz meet=1                  kernels whose threads meet
    make fuzz calls=1                 kernels with functions and local arrays
    make fuzz plans=2                 each under the default plan and two more, not one plan in turn
    make fuzz kernel=.fuzz/4294967301/shrunk.ptx    one kernel again (also by its number)

Ends with 1 when a kernel failed.
"""

import os
import sys
from pathlib import Path

from fuzzing.campaign import Campaign, Options
from fuzzing.workers import Task, Workers
from random_kernels import kernels

_DEFAULTS = {
    "seed": "1",
    "n": "1000000000",
    "minutes": "1000000",
    "plans": "0",
    "meet": "0",
    "calls": "0",
}
_DEFAULTS |= {"jobs": str(os.cpu_count() or 1), "kernel": "", "folder": ".fuzz", "shrink": "60"}


def main(arguments: list[str]) -> int:
    """Run what ``name=value`` arguments say; empty values are the defaults."""
    said = dict(argument.split("=", 1) for argument in arguments)
    unknown = said.keys() - _DEFAULTS.keys()
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(_DEFAULTS)}")
        return 2
    chosen = _DEFAULTS | {name: value for name, value in said.items() if value}
    if chosen["kernel"]:
        return _again(chosen["kernel"], int(chosen["plans"]) or 2)
    options = Options(
        sequence=int(chosen["seed"]),
        n=int(chosen["n"]),
        minutes=float(chosen["minutes"]),
        jobs=int(chosen["jobs"]),
        plan_count=int(chosen["plans"]),
        meet=chosen["meet"] != "0",
        calls=chosen["calls"] != "0",
        shrink_seconds=float(chosen["shrink"]),
        folder=Path(chosen["folder"]),
    )
    campaign = Campaign(options)
    try:
        totals = campaign.run()
    except KeyboardInterrupt:
        print("stopped; the next run of this sequence goes on from here")
        return 130
    print(totals.summary())
    for signature, count in campaign.signatures().most_common():
        print(f"  {count} x {signature}")
    return 1 if totals.failed else 0


def _again(which: str, plan_count: int) -> int:
    if which.isdigit():
        kernel = kernels.generate(int(which))
        print(kernel.text)
    else:
        kernel = kernels.parse(Path(which).read_text())
    with Workers(1) as pool:
        (_, report) = next(pool.examine(iter([Task(kernel, plan_count)])))
    for finding in report.findings:
        print(f"{finding.kind}: {finding.plan}\n{finding.detail}")
    if not report.findings:
        print(report.unordered or f"no finding: {report.runs} native runs {report.refused}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
