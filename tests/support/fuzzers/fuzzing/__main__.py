"""``make fuzz``: random kernels on the JIT, the interpreter and a scalar evaluator of PTX.

    make fuzz                         sequence 1, from where it stopped, until interrupted
    make fuzz seed=7 n=1000           1,000 more kernels of sequence 7
    make fuzz minutes=10 jobs=1       for ten minutes, on one core
    make fuzz meet=1                  kernels whose threads synchronize
    make fuzz calls=1                 kernels with functions and local arrays
    make fuzz plans=2                 each under the default plan and two more, instead of one plan in rotation
    make fuzz kernel=.fuzz/4294967301/shrunk.ptx    one kernel again (also by its number)

Exits with 1 if a kernel failed.
"""

import sys
from pathlib import Path

from support.fuzzers.fuzzing import command
from support.fuzzers.fuzzing.campaign import Campaign, Options
from support.fuzzers.fuzzing.workers import Task, Workers
from support.kernels.random_kernels import kernels

_DEFAULTS = {**command.DEFAULTS, "plans": "0", "meet": "0", "calls": "0"}


def main(arguments: list[str]) -> int:
    """Run with ``name=value`` arguments, in which empty values mean the defaults; return the exit
    status.
    """
    chosen = command.parse_arguments(arguments, _DEFAULTS)
    if chosen is None:
        return 2
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
    totals = command.totals_of(campaign)
    if totals is None:
        return 130
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
    none = report.unordered or f"no finding: {report.runs} native runs {report.refused}"
    return command.print_report(report, none)


if __name__ == "__main__":
    command.stop_on_signal()
    sys.exit(main(sys.argv[1:]))
